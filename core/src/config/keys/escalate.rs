//! `[[drain.escalate]]`

use super::{
    Choice, DAY, LONGEST, PodSelectors, SECOND, Span, UNIQUE, Word, ZERO, choice, minutes,
};
use crate::drain::Action;

keys! {
    /// What is done about pods that hold a drain up for long, as many as you like; without one, nothing.
    /// A pod that none of them selects is never hit, and neither is one that `drain.skip` selects, a DaemonSet's or a static pod.
    /// Only time in which the API server answers counts, and a daemon that starts over counts anew.
    /// Journal, status and an Event say which pod was deleted, past which budget and by which of these tables.
    section "drain.escalate" each Always;

    /// Its name in messages.
    /// There is no default.
    /// A drop-in's table with the same name replaces the whole table.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// Which pods: by their labels as in `drain.skip`, by namespace, or by both: ["app=cache", "shop: tier=web", "ci:"].
    /// Required.
    PODS "pods": PodSelectors = PodSelectors;

    /// When: so long after a PodDisruptionBudget first refused the pod's eviction, and so long after the pod was first seen
    /// terminating in this drain.
    /// Of the pods that one budget holds one is asked at a time, and each has this time of its own.
    /// By default half of `drain.stall` where that is shorter.
    AFTER "after": Span = Span { default: minutes(5), least: SECOND, most: LONGEST, bound: "less than drain.stall" };

    /// How long a pod that is terminating for longer than `after` gets then, in place of a longer grace period of its own; with
    /// "delete", also how long one gets that is deleted.
    /// "0s": its own grace period counts.
    GRACE "grace": Span = Span { default: ZERO, least: ZERO, most: DAY, bound: "at least 1s where it is not 0s" };

    /// "grace" shortens the grace period of pods that are terminating, and needs `grace`; "delete" deletes pods as well whose
    /// eviction a budget has refused for `after`: **the budget is not kept then**.
    /// What a webhook refuses is never deleted.
    ACTION "action": Choice<Action> = choice(&[("grace", Action::Grace), ("delete", Action::Delete)]);
}
