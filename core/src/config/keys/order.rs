//! `[[drain.order]]`

use super::{LONGEST, Number, PodSelectors, SECOND, Span, UNIQUE, Word, minutes};

/// Above it are the priorities that only Kubernetes' own classes may have (scheduling/types.go
/// `HighestUserDefinablePriority`).
const HIGHEST: u32 = 1_000_000_000;

keys! {
    /// Groups in which pods leave, one after another in the order of the tables, as many as you like; without one, all leave at
    /// once.
    /// A pod belongs to the first group that it fits.
    /// Pods of no group leave before all groups, and those of system-critical priority after them, as ever.
    /// A group begins when all pods of those before it have gone, or after its `wait`.
    section "drain.order" each Always;

    /// Its name in messages.
    /// There is no default.
    /// A drop-in's table with the same name replaces the whole table.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// Which pods: by their labels as in `drain.skip`, by namespace, or by both: ["app=queue", "shop: tier=db", "ci:"].
    /// Empty: any.
    PODS "pods": PodSelectors = PodSelectors;

    /// And only those whose priority is this or a higher one.
    /// 0: whatever it is.
    PRIORITY "priority": Number = Number { default: 0, least: 0, most: HIGHEST };

    /// How long the group waits for the one before it, once that one has begun, while the API server answers: a pod that is stuck
    /// holds the others up no longer.
    /// By default half of `drain.stall` where that is shorter.
    WAIT "wait": Span = Span { default: minutes(5), least: SECOND, most: LONGEST, bound: "less than drain.stall" };
}
