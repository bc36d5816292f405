//! When the other API servers are asked, and how long what they say counts (I2, I8, I13).

use super::commands::label;
use super::*;

use crate::gates::{Gate, State};
use crate::names;

fn machine() -> Machine {
    let mut machine = wanted();
    machine.config.gates.api_servers = vec!["https://10.0.0.2:6443".to_owned()];
    let role = names::QUORUM_ROLES[0].to_owned();
    node(&mut machine).labels.insert(role, String::new());
    machine
}

fn at(seconds: u64) -> Now {
    Now {
        boot: NOW + Duration::from_secs(seconds),
        ..now()
    }
}

fn ask(machine: &mut Machine, seconds: u64) -> bool {
    let due = machine.api_servers_due(at(seconds));
    if due {
        machine.asks_api_servers(at(seconds));
    }
    due
}

fn say(machine: &mut Machine, asked: u64, unready: Option<&str>) {
    machine.saw_api_servers(at(asked).boot, unready.map(str::to_owned));
}

fn state(machine: &mut Machine, seconds: u64) -> State {
    machine.judge(&[], at(seconds));
    let mut all = machine.facts.gates.iter();
    let found = all.find(|one| one.gate == Gate::ApiServers).unwrap();
    plain(&found.state)
}

#[test]
fn i8_i13_nothing_is_open_before_they_have_answered_nor_long_after() {
    let mut machine = machine();
    let asking = State::Unknown {
        why: "asking the other API servers whether they are ready".into(),
    };
    assert_eq!(state(&mut machine, 0), asking);
    assert!(ask(&mut machine, 0) && !ask(&mut machine, 1));
    say(&mut machine, 0, None);
    assert_eq!(state(&mut machine, 2), State::Open);
    assert!(!ask(&mut machine, 59) && ask(&mut machine, 60));
    say(
        &mut machine,
        60,
        Some("https://10.0.0.2:6443/readyz answers 500"),
    );
    let why = "another API server is not ready: https://10.0.0.2:6443/readyz answers 500";
    let shut = State::Closed {
        why: why.into(),
        opens: None,
    };
    assert_eq!(state(&mut machine, 61), shut);
    assert_eq!(
        machine.facts.closed[0].why.steady(),
        "another API server is not ready"
    );
    assert!(!ask(&mut machine, 89) && ask(&mut machine, 90));
    say(&mut machine, 60, None);
    assert_eq!(
        state(&mut machine, 91),
        shut,
        "nobody waits for that answer"
    );
    say(&mut machine, 90, None);
    assert_eq!(state(&mut machine, 270), State::Open);
    assert_eq!(state(&mut machine, 271), asking, "too old");
}

#[test]
fn only_a_node_of_the_control_plane_that_is_to_reboot_asks() {
    let none: [fn(&mut Machine); 4] = [
        |m| m.config.gates.api_servers.clear(),
        |m| node(m).labels.clear(),
        |m| m.facts.observed.request = None,
        |m| {
            let request = m.facts.observed.request.as_mut().unwrap();
            request.latched[0].by = crate::trigger::Keeper::Person.begins().to_owned();
        },
    ];
    for change in none {
        let mut machine = machine();
        change(&mut machine);
        assert!(!ask(&mut machine, 0));
        assert_eq!(machine.api_servers_asked(at(0)), Some(Duration::MAX));
    }
    // What is not known may be one.
    let mut machine = machine();
    machine.facts.node = Seen::Unknown;
    assert!(ask(&mut machine, 0));
}

/// Before the cordon and before the fence they are asked anew; meanwhile nothing is given up.
#[test]
fn i2_with_a_slot_they_are_asked_anew_at_both_moments() {
    let mut machine = machine();
    machine.memory.pods = Some(Vec::new());
    ask(&mut machine, 0);
    say(&mut machine, 0, None);
    for (stage, seconds) in [(Stage::Claiming, 10), (Stage::Rebooting, 20)] {
        machine.facts.record.hold = Some(hold(stage.clone()));
        if stage == Stage::Claiming {
            label(&mut machine, at(seconds).boot);
            let role = names::QUORUM_ROLES[0].to_owned();
            node(&mut machine).labels.insert(role, String::new());
        } else {
            machine.memory.done = Some(at(seconds).boot);
        }
        assert_ne!(state(&mut machine, seconds), State::Open, "{stage:?}");
        assert_eq!(machine.facts.answers.awaited, [Gate::ApiServers]);
        assert!(ask(&mut machine, seconds), "{stage:?}");
        say(&mut machine, seconds, None);
        assert_eq!(state(&mut machine, seconds + 1), State::Open, "{stage:?}");
        assert_eq!(machine.facts.answers.awaited, []);
        let asked = machine.api_servers_asked(at(seconds + 1));
        assert_eq!(asked, Some(at(seconds).boot), "{stage:?}");
    }
    assert!(
        Gate::ApiServers.passing(),
        "a drain is not given up for it at once"
    );
}
