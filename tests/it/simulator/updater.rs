//! The updater of a host: it asks over FleetLock as Zincati does, and reboots its host when it is told to go on (I1, I2, I4, I6).

use std::time::Duration;

use kube_rebootd_core::config::{FleetLock, Listen};
use kube_rebootd_core::decide::Step;
use kube_rebootd_core::fleet_lock::Ask;
use kube_rebootd_core::machine::Machine;

use super::*;

/// How long the daemon keeps a question while the node is on its way.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two questions, as Zincati's.
const AGAIN: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Default)]
pub(crate) struct Updater {
    /// It waits with an update; lost with the boot, as what ostree has staged.
    staged: bool,
    /// It was told since it started that the host may be used.
    steady: bool,
    /// What it asks now, and since when.
    asks: Option<(Ask, Duration)>,
    /// Not before this it asks again.
    next: Duration,
    /// It is told to go on, and does nothing.
    deaf: bool,
    /// So often it was told to go on.
    told: u32,
    /// Of these, without a step of the daemon, as it was told before.
    again: u32,
}

impl World {
    /// A host whose updater asks.
    fn with_updater(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.updater = Some(Updater::default());
        host.config.fleet_lock = Some(FleetLock {
            listen: Listen::Unix("/run/fleet-lock".into()),
            user: "zincati".to_owned(),
            id: None,
            group: "default".to_owned(),
            reboot_within: Duration::from_secs(3600),
        });
    }

    fn updater(&mut self, host: usize) -> &mut Updater {
        self.hosts[host].updater.as_mut().expect("it has one")
    }

    /// There is an update.
    fn stage(&mut self, host: usize) {
        self.updater(host).staged = true;
        self.hosts[host].wake = Duration::ZERO;
    }

    /// It forgets what it asked, and what it was answered.
    fn restart_updater(&mut self, host: usize) {
        let next = self.clock;
        let updater = self.updater(host);
        (updater.steady, updater.asks, updater.next) = (false, None, next);
        self.hosts[host].wake = Duration::ZERO;
    }

    /// The daemon is gone, and with it the connection; `booted`: the updater as well.
    pub(super) fn updater_lost(&mut self, host: usize, booted: bool) {
        let next = self.clock + Duration::from_secs(5);
        let Some(updater) = &mut self.hosts[host].updater else {
            return;
        };
        (updater.asks, updater.next) = (None, next);
        if booted {
            (updater.steady, updater.staged) = (false, false);
        }
    }

    /// What it asks comes to the daemon, which puts it on record.
    pub(super) fn ask(&mut self, index: usize, machine: &mut Machine) {
        let (now, clock) = (self.now(index), self.clock);
        let host = &mut self.hosts[index];
        let Some(updater) = &mut host.updater else {
            return;
        };
        let ask = match (updater.steady, updater.staged) {
            (false, _) => Some(Ask::SteadyState),
            (true, true) => Some(Ask::PreReboot),
            (true, false) => None,
        };
        if let (None, Some(ask)) = (updater.asks, ask)
            && updater.next <= clock
        {
            match machine.client_asks(ask, now) {
                Ok(made) => {
                    if let Some(record) = made {
                        host.disk = Some(record.encode());
                        machine.wrote(record);
                    }
                    updater.asks = Some((ask, clock));
                }
                Err(_) => updater.next = clock + AGAIN,
            }
        }
        machine.client_waits(updater.waits_for_yes());
    }

    /// What it is answered after this step was decided.
    pub(super) fn hear(&mut self, index: usize, machine: &mut Machine, step: &Step) {
        let (now, clock) = (self.now(index), self.clock);
        let Some(updater) = &mut self.hosts[index].updater else {
            return;
        };
        if let Some((ask, since)) = updater.asks {
            let late = clock >= since + PATIENCE;
            if let Some(answer) = machine.answers_client(ask, step, now, late) {
                updater.asks = None;
                match (ask, answer) {
                    (_, Err(_)) => updater.next = clock + AGAIN,
                    (Ask::SteadyState, Ok(())) => updater.steady = true,
                    (Ask::PreReboot, Ok(())) => {
                        updater.again += 1;
                        self.goes_on(index);
                    }
                }
            }
        }
        let waits = self.updater(index).waits_for_yes();
        machine.client_waits(waits);
    }

    /// When the updater has something to ask or hear, though nothing else wakes the host.
    pub(super) fn updater_wakes(&self, index: usize) -> Option<Duration> {
        let updater = self.hosts[index].updater.as_ref()?;
        let asks = updater.staged || !updater.steady;
        let until = updater.asks.map(|(_, since)| since + PATIENCE);
        until.or_else(|| asks.then_some(updater.next))
    }

    /// In place of logind's call. False: it has not waited.
    pub(super) fn tell_updater(&mut self, index: usize) -> bool {
        let waits = self.updater(index).waits_for_yes();
        if waits {
            self.updater(index).asks = None;
            self.goes_on(index);
        }
        waits
    }

    /// It was told to: I2 as far as it holds for an hour after the fence.
    fn goes_on(&mut self, index: usize) {
        let name = self.hosts[index].name.clone();
        let holds = |lease: &kube_rebootd_core::slot::Lease| lease.holder.as_ref() == Some(&name);
        assert!(
            self.leases.values().any(holds),
            "I2: told without a slot\n{}",
            self.told()
        );
        assert!(self.cordoned(index), "I2: not cordoned\n{}", self.told());
        assert!(self.hosts[index].pods.is_empty(), "I2: not drained");
        let clock = self.clock;
        let updater = self.updater(index);
        updater.told += 1;
        updater.next = clock + AGAIN;
        if !updater.deaf {
            updater.staged = false;
            self.hosts[index].shutting_down = true;
        }
    }
}

impl Updater {
    fn waits_for_yes(&self) -> bool {
        matches!(self.asks, Some((Ask::PreReboot, _)))
    }
}

fn told(world: &World, host: usize) -> u32 {
    world.hosts[host].updater.as_ref().map_or(0, |it| it.told)
}

#[test]
fn i1_i4_the_updaters_of_three_hosts_go_on_one_after_another() {
    let mut world = World::new(3, 1, 0);
    (0..3).for_each(|host| world.with_updater(host));
    (0..3).for_each(|host| world.stage(host));
    world.run(3 * HOUR, calm);
    world.at_rest();
    for host in 0..3 {
        assert_eq!(world.boots(host), 1, "{}", world.told());
        assert_eq!(told(&world, host), 1, "{}", world.told());
    }
}

/// One that does nothing, and says nothing: its drain is undone, and comes again with pauses.
#[test]
fn i7_an_updater_that_does_not_go_on_keeps_the_slot_for_a_limited_time() {
    let mut world = World::new(2, 1, 0);
    world.with_updater(0);
    world.updater(0).deaf = true;
    world.stage(0);
    world.run(HOUR, calm);
    assert_eq!(world.holder("default"), Some("n0"), "{}", world.told());
    world.touch(1);
    world.run(12 * HOUR, calm);
    assert_eq!((world.boots(0), world.boots(1)), (0, 1), "{}", world.told());
    let updater = world.updater(0);
    assert!(updater.told > 1 && updater.again > 0, "{updater:?}");
    updater.deaf = false;
    world.run(12 * HOUR, calm);
    world.at_rest();
    assert_eq!(world.boots(0), 1, "{}", world.told());
}

/// Every write of a cycle, each meeting each fate: whoever asks goes on asking, and the host reboots once.
#[test]
fn i6_any_single_fault_of_an_updaters_cycle_ends_in_one_reboot() {
    let mut faults = 0;
    for fate in FATES {
        for nth in 1.. {
            let mut world = World::new(1, 1, 0);
            world.with_updater(0);
            world.stage(0);
            world.run(6 * HOUR, |world, host| {
                let first = world.met.is_empty() && world.effects + 1 == nth;
                if first && world.writes(host) {
                    return fate;
                }
                Fate::Done
            });
            world.at_rest();
            let most = if fate == Fate::PowerLoss { 2 } else { 1 };
            assert!(
                (1..=most).contains(&world.boots(0)),
                "{fate:?} at {nth}: {:?}\n{}",
                world.hosts[0].updater,
                world.told()
            );
            faults += world.met.values().sum::<u64>();
            if nth > world.effects {
                break;
            }
        }
    }
    assert!(faults > 40, "only {faults} faults were met");
}

/// Updaters that are started anew at any time, beside hosts that want to reboot for other reasons too, with faults at random.
#[test]
fn i1_i6_random_faults_beside_updaters_never_break_the_lock() {
    let (mut granted, mut again, mut restarted) = (0, 0, 0);
    for seed in 0..100 {
        let mut chance = Chance::seed(seed);
        let hosts = 2 + chance.below(3);
        let mut world = World::new(hosts, 1 + chance.below(2), chance.below(hosts + 1));
        for host in 0..hosts {
            if host == 0 || chance.hit(60) {
                world.with_updater(host);
                world.updater(host).deaf = chance.hit(10);
                world.stage(host);
            }
            if chance.hit(40) {
                world.touch(host);
            }
        }
        let mut budget = 20;
        world.run(24 * HOUR, |world, host| {
            if budget > 0 && (chance.hit(4) || chance.hit(40) && world.writes(host)) {
                budget -= 1;
                return FATES[chance.below(FATES.len())];
            }
            if budget > 0 && chance.hit(2) && world.hosts[host].updater.is_some() {
                budget -= 1;
                restarted += 1;
                world.restart_updater(host);
            }
            Fate::Done
        });
        for host in 0..hosts {
            if let Some(updater) = &mut world.hosts[host].updater {
                updater.deaf = false;
                granted += updater.told;
                again += updater.again;
            }
        }
        world.run(24 * HOUR, calm);
        world.at_rest();
        for host in 0..hosts {
            let updater = world.hosts[host].updater.as_ref();
            let waits = updater.is_some_and(|updater| updater.staged);
            assert!(!waits, "seed {seed}: n{host} waits\n{}", world.told());
        }
    }
    assert!(granted > 150, "only {granted} were told to go on");
    assert!(again > 20, "only {again} were told once more");
    assert!(restarted > 100, "only {restarted} updaters were restarted");
}
