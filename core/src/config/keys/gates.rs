//! `[gates]`

use super::{
    Choice, Choices, ConditionsList, DatesList, LONGEST, PodSelectors, ServersList, Span, ZERO,
    choice, minutes,
};
use crate::gates::{Force, Gate};
use crate::users::Users;
use crate::windows::Close;

keys! {
    /// What says not now.
    ///
    /// Without a key, no reboot begins while the node or its group is paused, while somebody holds a block inhibitor
    /// (`systemd-inhibit --list`), and while a package manager works: dpkg, apt, pacman, zypper, PackageKit, or an rpm
    /// transaction, by the lock that each takes.
    /// One that ends while a reboot is wanted counts as at work for 30 seconds more, as scripts call them several times.
    /// The status names the process, or the lock that one has left behind.
    /// A drain that is under way goes on beside inhibitors and package managers; the reboot waits up to 5 minutes for their
    /// end, then slot and cordon are given back.
    section "gates";

    /// No reboot begins before the host has been up for so long.
    MIN_UPTIME "min_uptime": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// Dates on which no reboot begins: "2026-12-24", "2026-12-20..2027-01-06", and "12-24" or "12-20..01-06" for each
    /// year.
    /// They are whole days of each window's time zone; without a window, of UTC.
    EXCLUDE_DATES "exclude_dates": DatesList = DatesList;

    /// What becomes of a drain when its window closes: "finish" reboots after it all the same, up to `window_overrun` late,
    /// as what was begun is over in minutes, and pods that have moved would move twice; "undo" gives the slot back as soon
    /// as the boot does not fit any more.
    WINDOW_CLOSE "window_close": Choice<Close> = choice(Close::WORDS);

    /// How long after the end of the window in which the slot was taken a reboot may begin, with "finish".
    /// 30 minutes by default, as long as `drain.timeout`: a drain that takes longer than was expected can still end well.
    WINDOW_OVERRUN "window_overrun": Span = Span { default: minutes(30), least: ZERO, most: LONGEST, bound: "" };

    /// What a clock means that is not synchronized (`timedatectl`), where windows, excluded dates or `force_after` rest on it:
    /// "block" waits until it is, "ignore" believes it. chrony, ntpd and PTP count as well as systemd-timesyncd. It is "block", as a
    /// clock that begins at any date turns the night of a window into any hour of the day. A drain that has begun goes on, and
    /// `kube-rebootd reboot --now` asks no clock.
    UNSYNCHRONIZED_CLOCK "unsynchronized_clock": Choice<bool> = choice(&[("block", true), ("ignore", false)]);

    /// What another daemon means that reboots hosts and is at work on this node: "block" begins nothing beside it, "ignore" lets both work.
    /// Seen are the pods of kured, of the Flatcar update agent, of system-upgrade-controller's plans and of Kairos' NodeOps on this node,
    /// and the units locksmithd, rebootmgr and zincati.
    /// It is "block", as their locks and the slots do not see each other: two nodes would be down at once.
    /// A node that is cordoned for its drain goes on.
    OTHER_REBOOT_DAEMONS "other_reboot_daemons": Choice<bool> = choice(&[("block", true), ("ignore", false)]);

    /// No reboot begins while Pods of the cluster have waited for room for longer than this, for example "15m": those that are
    /// Pending as the scheduler found no node for them (condition PodScheduled is False, reason Unschedulable).
    /// Pods of DaemonSets and those of a negative priority do not count.
    /// 0s: it is not looked at. All else needs the right to list the Pods of all namespaces, which
    /// `kube-rebootd manifests --capacity` grants: the gate is closed without it.
    /// Whoever may make a Pod that fits on no node keeps all nodes from rebooting by it: see `force_after`.
    /// Once the node is cordoned it is not asked, as this drain makes Pods wait itself.
    CAPACITY_WAIT "capacity_wait": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// How long a reboot waits that only a newer kernel asks for, while live patches are applied to the running one (kpatch, Ubuntu
    /// Pro, SUSE: /sys/kernel/livepatch), for example "14d"; 0s: not at all. A newer kernel is what the built-in check "kernel" finds, or a
    /// list of packages that names kernels alone, as /run/reboot-required.pkgs does. It counts from when that was asked for, and
    /// the next window after it is taken. A kernel that was removed, or has lost its modules, never waits, nor does
    /// anything else that asks for a reboot.
    /// A check command, and a file without a list beside it, may mean anything: beside them nothing waits. So it does nothing on SUSE
    /// while /run/reboot-needed is a sentinel, nor on RHEL with dnf-automatic's touch or a `[[triggers.check]]`. There leave only
    /// the built-in checks: `sentinels = []` and `builtin = ["kernel", "libraries"]` below `[triggers]`.
    /// It is 0s, as no file says which fixes of the newer kernel the patches hold. Where /sys/kernel/livepatch cannot be read the
    /// reboot waits as long; `force_after` with "live-patches" ends the wait as well.
    LIVE_PATCH_WAIT "live_patch_wait": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// The API servers of the control plane, each by an address of its own and not by that of a load balancer:
    /// ["https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443"].
    /// No node of the control plane goes down while one of the others does not say at `/readyz` that it is ready, or does not answer
    /// within 10 seconds. An address of this host is its own and is not asked, so that all hosts can have the same list.
    /// They are asked with the credential and the CA of the kubeconfig, before the node queues, before the cordon and before the reboot;
    /// a drained node waits up to 5 minutes for them. On other nodes the key does nothing.
    API_SERVERS "api_servers": ServersList = ServersList;

    /// Conditions of the own Node during which no reboot begins, for example those of node-problem-detector:
    /// ["KernelDeadlock", "FrequentKubeletRestart=False"].
    /// A type alone closes while its status is True or Unknown, a type with a status while it is exactly that.
    /// A condition that is not on the Node closes nothing: nobody reports it.
    /// A drain is undone when one closes.
    CONDITIONS "conditions": ConditionsList = ConditionsList;

    /// Pods of this node during which no reboot begins: by their labels as in `drain.skip`, by namespace, or by both:
    /// ["app=backup", "batch: app in (train,render)", "ci:"].
    /// Pods of DaemonSets, static pods and pods that have finished do not count.
    /// Once the node is cordoned for the drain they are its own matter.
    BLOCKING_PODS "blocking_pods": PodSelectors = PodSelectors;

    /// Whether no reboot begins while a pod runs here whose author asks autoscalers not to disturb it, by the annotation
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`, or by `karpenter.sh/do-not-disrupt` with "true", or with a
    /// duration like "4h", which counts from the pod's start.
    /// By default it is so: the work that such a pod would lose is lost for good, while a reboot that waits can be done
    /// later, and says for which pod it waits.
    /// Whoever may make pods can keep a node from rebooting by it; with false, or for pods that `drain.skip` selects, the
    /// annotations say nothing.
    HONOUR_ANNOTATIONS "honour_annotations": bool = true;

    /// What somebody means who is logged in on the host and at work: "warn" tells them on their terminals as soon as nothing
    /// else is in the way, and begins `users_delay` later; "block" waits until they have logged out or stopped working;
    /// "ignore" does not look.
    /// A console, ssh and a desktop count, and a command over ssh; cron, services, login screens, and tmux without its user
    /// do not.
    /// It is "warn", as whoever debugs a node should be told before it goes, and as a terminal that somebody forgot must not
    /// keep a host unpatched.
    /// Once the node is cordoned, "warn" keeps nothing waiting; with "block" the drain goes on, and the reboot waits up to 5
    /// minutes for them.
    /// `kube-rebootd reboot --now` asks nobody.
    USERS "users": Choice<Users> = choice(Users::WORDS);

    /// Whoever typed nothing for so long is not at work any more.
    /// An hour by default: whoever reads, or waits for a command, may type nothing for a while, and a terminal that somebody forgot
    /// keeps no host unpatched.
    USERS_IDLE "users_idle": Span = Span { default: minutes(60), least: minutes(1), most: LONGEST, bound: "" };

    /// From the warning to the drain, with "warn": long enough to save a file, or to run `kube-rebootd pause`.
    /// Whoever logs in meanwhile has as long, but all together no more than three times as long.
    USERS_DELAY "users_delay": Span = Span { default: minutes(5), least: ZERO, most: LONGEST, bound: "" };

    /// The gates of `force` do not keep a request waiting that is older than this, for example "14d": an update that is due
    /// for weeks is worse than a reboot outside of its window. 0s: however old it is, every gate counts.
    /// The journal and `explain` say which gates were passed over. Pauses of people, slots, `max_unavailable`, the drain and
    /// its budgets count as ever.
    FORCE_AFTER "force_after": Span = Span { default: ZERO, least: ZERO, most: LONGEST, bound: "" };

    /// Which gates `force_after` passes over: "windows", "alerts", "autoscaler", "conditions", "protected-pods",
    /// "capacity", "live-patches", "commands",
    /// "users" (with `users = "block"`; a warning comes as ever).
    FORCE "force": Choices<Gate> = Choices { words: Force::WORDS, what: "gates", default: &[] };
}
