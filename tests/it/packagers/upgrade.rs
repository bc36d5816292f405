//! The package is replaced in every phase of a cycle: one reboot, nothing left (I6).

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Machine, Packager, SITE};
use crate::e2e::Site;
use crate::e2e::phases::{CONFIG, Journey};

#[test]
fn i6_upgraded_by_dnf_in_every_phase() {
    in_every_phase(Packager::Dnf);
}

#[test]
fn i6_upgraded_by_pacman_in_every_phase() {
    in_every_phase(Packager::Pacman);
}

#[test]
fn i6_upgraded_by_apt_in_every_phase() {
    in_every_phase(Packager::Apt);
}

fn in_every_phase(packager: Packager) {
    let site = Site::new(&format!("up-{}", packager.word()), 1);
    let config = site.config(CONFIG);
    let journey = Journey::with(site, |mut spec| {
        spec.config = None;
        Machine::spec(packager, spec).file(SITE, config)
    });
    let host = journey.site.bed.host(journey.host.name()).unwrap();
    let machine = Machine { packager, host };
    machine.furnish();
    machine.install();
    machine.enable();
    machine.publish();
    let newer = AtomicBool::new(false);
    journey.in_every_phase(|_, phase| {
        let to = if newer.fetch_not(Ordering::Relaxed) {
            packager.downgrade()
        } else {
            packager.upgrade()
        };
        println!("{phase:?}: {}", machine.sh(to));
        let journal = machine.host.journal("kube-rebootd").unwrap();
        assert!(!journal.contains("undoing"), "{phase:?}: {journal}");
    });
}
