//! One host's way through a cycle that waits in every phase, so that something can happen to it there.

use testbed::{Host, HostSpec};

use super::{Site, pods};

/// Long enough for anything to happen while the host waits to go down.
const INHIBIT: &str = "[Login]\nInhibitDelayMaxSec=120\n";

/// As zypp writes it: its text is the kind of the reboot.
pub(crate) const NEEDED: &str = "/run/reboot-needed";

/// A made-up node that holds the slot.
const HOLDER: &str = "somebody-else";

/// A failed attempt is repeated at once, and what logind forgot soon.
pub(crate) const CONFIG: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n\
                      [reboot]\nretry = \"1s\"\ntimeout = \"20s\"\n";

/// Where the cycle waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// For the slot.
    Queued,
    /// For a pod that its budget keeps.
    Draining,
    /// For a process that delays the shutdown logind agreed to.
    Rebooting,
    /// For the kubelet.
    Verifying,
}

pub(crate) const PHASES: [Phase; 4] = [
    Phase::Queued,
    Phase::Draining,
    Phase::Rebooting,
    Phase::Verifying,
];

/// The host, and what holds it up.
pub(crate) struct Journey {
    pub(crate) site: Site,
    pub(crate) host: Host,
    pub(crate) lease: String,
    pod: String,
    /// Userspace alone is rebooted.
    soft: bool,
}

impl Journey {
    /// Idle, with a pod.
    pub(crate) fn new(group: &str) -> Self {
        Self::on(Site::new(group, 1))
    }

    pub(crate) fn on(site: Site) -> Self {
        Self::with(site, |spec| spec)
    }

    /// The same with a host that is special.
    pub(crate) fn with(site: Site, special: impl FnOnce(HostSpec) -> HostSpec) -> Self {
        let group = &site.group;
        let lease = site.leases()[0].clone();
        let spec = HostSpec::named(format!("{group}-1"))
            .file("/etc/systemd/logind.conf.d/test.conf", INHIBIT)
            .config(site.config(CONFIG));
        let host = site.boot(&special(spec));
        let pod = format!("{group}-held");
        pods::held(&site, &host, &pod);
        Self {
            site,
            host,
            lease,
            pod,
            soft: false,
        }
    }

    /// To a soft-reboot.
    pub(crate) fn softly(self) -> Self {
        Self { soft: true, ..self }
    }

    /// What STATUS says in a phase.
    pub(crate) fn words(&self, phase: Phase) -> String {
        match phase {
            Phase::Queued => format!("queued: {} is held by {HOLDER}", self.lease),
            Phase::Draining => "draining: ".to_owned(),
            Phase::Rebooting => "rebooting: accepted by logind".to_owned(),
            Phase::Verifying => "verifying: ".to_owned(),
        }
    }

    /// Everything that makes it wait on its way.
    pub(crate) fn begin(&self) {
        self.site.hold_by_admin(&self.lease, HOLDER);
        self.host.systemctl(&["disable", "kubelet"]).unwrap();
        // Held by a process of its own, so that the shutdown waits for it and not for us.
        self.host.delay_shutdowns().unwrap();
        if self.soft {
            self.host.write(NEEDED, "soft-reboot\n").unwrap();
        } else {
            self.host.touch("/run/reboot-required").unwrap();
        }
    }

    pub(crate) fn reach(&self, phase: Phase) {
        self.site.wait_status(&self.host, &self.words(phase));
        if phase == Phase::Verifying {
            let soft = self.soft && self.host.soft_reboots().unwrap().0 == 1;
            let boots = if soft { 1 } else { 2 };
            assert_eq!(self.host.boots().unwrap(), boots);
        }
        let holder = match phase {
            Phase::Queued => HOLDER,
            Phase::Draining | Phase::Rebooting | Phase::Verifying => self.host.name(),
        };
        assert_eq!(self.site.holder(&self.lease), holder, "{phase:?}");
    }

    /// Ends what the phase waits for.
    pub(crate) fn leave(&self, phase: Phase) {
        match phase {
            Phase::Queued => self.site.hold_by_admin(&self.lease, ""),
            Phase::Draining => pods::let_go(&self.site, &self.pod),
            Phase::Rebooting => {
                self.host.systemctl(&["stop", "late"]).unwrap();
            }
            Phase::Verifying => {
                self.host
                    .systemctl(&["enable", "--now", "kubelet"])
                    .unwrap();
            }
        }
    }

    /// Exactly one reboot, and nothing left.
    pub(crate) fn end(self) {
        if self.soft {
            self.site.wait_soft_rebooted(&self.host, 1);
        } else {
            self.site.wait_rebooted(&self.host, 1);
        }
        self.site.nothing_left(&self.host);
        pods::let_go(&self.site, &self.pod);
        pods::gone(&self.site, &self.pod);
    }

    /// Something happens in every phase, and each goes on where it was.
    pub(crate) fn in_every_phase(self, happens: impl Fn(&Self, Phase)) {
        self.begin();
        for phase in PHASES {
            self.reach(phase);
            happens(&self, phase);
            self.reach(phase);
            self.leave(phase);
        }
        self.end();
    }
}
