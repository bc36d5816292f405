use proptest::prelude::*;

use super::*;
use crate::varlink::call;

fn shown() -> Shown {
    Shown {
        stands: Stands::Waits,
        kind: Kind::Reboot,
        when: "queued: n1 holds the slot".to_owned(),
        disabled: false,
    }
}

fn asks(method: &str, parameters: &Value, root: bool) -> Result<Wants, Fault> {
    let call = Call {
        method: method.to_owned(),
        parameters: parameters.as_object().cloned().unwrap_or_default(),
        oneway: false,
    };
    wants(&call, root, &shown())
}

fn own(method: &str, parameters: &Value, root: bool) -> Result<Wants, Fault> {
    asks(&format!("{INTERFACE}.{method}"), parameters, root)
}

#[test]
fn root_asks_and_takes_back() {
    for (method, parameters, ask) in [
        (
            "Reboot",
            json!({"Reboot": 1}),
            Ask::Reboot {
                kind: Kind::Reboot,
                now: false,
            },
        ),
        (
            "Reboot",
            json!({"Reboot": 1, "Force": null}),
            Ask::Reboot {
                kind: Kind::Reboot,
                now: false,
            },
        ),
        (
            "Reboot",
            json!({"Reboot": 1, "Force": false}),
            Ask::Reboot {
                kind: Kind::Reboot,
                now: false,
            },
        ),
        (
            "Reboot",
            json!({"Reboot": 1, "Force": true}),
            Ask::Reboot {
                kind: Kind::Reboot,
                now: true,
            },
        ),
        (
            "Reboot",
            json!({"Reboot": 2}),
            Ask::Reboot {
                kind: Kind::SoftReboot,
                now: false,
            },
        ),
        (
            "Reboot",
            json!({"Reboot": 2, "Force": true}),
            Ask::Reboot {
                kind: Kind::SoftReboot,
                now: true,
            },
        ),
        ("Cancel", json!({}), Ask::Cancel),
    ] {
        assert_eq!(
            own(method, &parameters, true),
            Ok(Wants::Asks(ask)),
            "{method} {parameters}"
        );
        // I14: nobody else.
        let denied = own(method, &parameters, false).expect_err(method);
        assert_eq!(denied.name, "org.varlink.service.PermissionDenied");
    }
}

/// By the errors that rebootmgr and systemd's library have.
#[test]
fn what_is_refused_is_told_by_its_name() {
    for (method, parameters, name, of) in [
        (
            "Reboot",
            json!({}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": 3}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": 0}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": "1"}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": 1.0}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": u64::MAX}),
            "org.varlink.service.InvalidParameter",
            "Reboot",
        ),
        (
            "Reboot",
            json!({"Reboot": 1, "Force": 1}),
            "org.varlink.service.InvalidParameter",
            "Force",
        ),
        (
            "Reboot",
            json!({"Reboot": 1, "When": 1}),
            "org.varlink.service.InvalidParameter",
            "When",
        ),
        (
            "Cancel",
            json!({"All": true}),
            "org.varlink.service.InvalidParameter",
            "All",
        ),
        (
            "Status",
            json!({"x": 1}),
            "org.varlink.service.InvalidParameter",
            "x",
        ),
        (
            "Ping",
            json!({"x": 1}),
            "org.varlink.service.InvalidParameter",
            "x",
        ),
    ] {
        let fault = own(method, &parameters, true).expect_err(method);
        assert_eq!(fault.name, name, "{method} {parameters}");
        assert_eq!(fault.parameters["parameter"], of, "{method} {parameters}");
    }
    for method in [
        "SetStrategy",
        "SetWindow",
        "Quit",
        "SetLogLevel",
        "GetEnvironment",
    ] {
        let fault = own(method, &json!({"Strategy": 4}), true).expect_err(method);
        assert_eq!(fault.name, "org.varlink.service.MethodNotImplemented");
        let whole = format!("{INTERFACE}.{method}");
        assert_eq!(fault.parameters, json!({"method": whole}));
    }
    for method in [
        "",
        "Reboot",
        "org.openSUSE.rebootmgr.",
        "org.openSUSE.rebootmgr.reboot",
        "org.openSUSE.other.Reboot",
        "org.varlink.service.Reboot",
    ] {
        let fault = asks(method, &json!({"Reboot": 1}), true).expect_err(method);
        assert_eq!(
            fault.name, "org.varlink.service.MethodNotFound",
            "{method:?}"
        );
    }
}

/// Where the host does none, it is no full one in its place.
#[test]
fn a_soft_reboot_is_one_or_is_refused_with_a_reason() {
    let soft = Ask::Reboot {
        kind: Kind::SoftReboot,
        now: false,
    };
    assert_eq!(soft.name(), "rebootmgrctl soft-reboot");
    let done = answer(soft, &Ok(()));
    assert_eq!(done, Ok(json!({"Method": 2, "Scheduled": TURN})));
    let why = OrderError::NoSoftReboot("systemd 252".to_owned());
    let fault = answer(soft, &Err(No::Order(why))).expect_err("refused");
    assert_eq!(fault.name, "org.openSUSE.rebootmgr.InvalidParameter");
    assert!(
        fault.words().contains("no soft-reboot: systemd 252"),
        "{fault:?}"
    );
}

#[test]
fn everybody_is_shown_how_it_stands() {
    let answers = |method: &str, shown: &Shown| {
        let call = Call {
            method: format!("{INTERFACE}.{method}"),
            ..Call::default()
        };
        match wants(&call, false, shown) {
            Ok(Wants::Answered(answer)) => answer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answers("Ping", &shown()), json!({"Alive": true}));
    let waits = json!({
        "RebootStatus": 2,
        "RebootDisabled": false,
        "RequestedMethod": 1,
        "RebootTime": "queued: n1 holds the slot",
    });
    assert_eq!(answers("Status", &shown()), waits);
    let due = Shown {
        stands: Stands::Due,
        kind: Kind::SoftReboot,
        disabled: true,
        ..shown()
    };
    let status = answers("FullStatus", &due);
    assert_eq!(status["RebootStatus"], 1);
    assert_eq!(status["RequestedMethod"], 2);
    assert_eq!(status["RebootStrategy"], 1);
    assert_eq!(status["RebootDisabled"], true);
    assert_eq!(
        answers("Status", &Shown::default()),
        json!({"RebootStatus": 0, "RebootDisabled": false})
    );
}

#[test]
fn each_phase_has_a_status() {
    let numbers = Phase::ALL.map(|phase| Stands::of(phase).number());
    assert_eq!(numbers, [2, 2, 2, 1, 1, 2, 1, 0, 0, 2]);
}

#[test]
fn the_service_describes_itself() {
    let answer = |method: &str, parameters: &Value| match asks(method, parameters, false) {
        Ok(Wants::Answered(answer)) => answer,
        other => panic!("{other:?}"),
    };
    let info = answer("org.varlink.service.GetInfo", &json!({}));
    assert_eq!(
        info["interfaces"],
        json!(["org.varlink.service", INTERFACE])
    );
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let describe = "org.varlink.service.GetInterfaceDescription";
    for interface in ["org.varlink.service", INTERFACE] {
        let text = answer(describe, &json!({"interface": interface}));
        let text = text["description"].as_str().expect("a text").to_owned();
        assert!(text.contains(&format!("interface {interface}\n")), "{text}");
        // Each method that it names is known.
        for line in text.lines().filter_map(|line| line.strip_prefix("method ")) {
            let method = line.split('(').next().expect("a name");
            let known = asks(&format!("{interface}.{method}"), &json!({}), true);
            let unknown = known.is_err_and(|fault| fault.name.ends_with("MethodNotFound"));
            assert!(!unknown, "{method}");
        }
    }
    let fault = asks(describe, &json!({"interface": "a.b"}), true).expect_err("none");
    assert_eq!(fault.name, "org.varlink.service.InterfaceNotFound");
    let fault = asks(describe, &json!({}), true).expect_err("none");
    assert_eq!(fault.name, "org.varlink.service.InvalidParameter");
}

#[test]
fn what_came_of_it_is_answered_as_rebootmgr_does() {
    let reboot = Ask::Reboot {
        kind: Kind::Reboot,
        now: false,
    };
    assert_eq!(
        answer(reboot, &Ok(())),
        Ok(json!({"Method": 1, "Scheduled": TURN}))
    );
    assert_eq!(answer(Ask::Cancel, &Ok(())), Ok(json!({"Success": true})));
    for (ask, no, name, parameter) in [
        (reboot, No::Asked, "AlreadyInProgress", "Scheduled"),
        (
            reboot,
            No::Order(OrderError::GoingDown),
            "AlreadyInProgress",
            "Scheduled",
        ),
        (Ask::Cancel, No::NotAsked, "NoRebootScheduled", ""),
        (
            Ask::Cancel,
            No::Order(OrderError::GoingDown),
            "InternalError",
            "Reason",
        ),
        (
            reboot,
            No::Order(OrderError::Starting),
            "InternalError",
            "Reason",
        ),
        (reboot, No::Late, "InternalError", "Reason"),
        (reboot, No::Busy, "InternalError", "Reason"),
        (Ask::Cancel, No::Ends, "InternalError", "Reason"),
    ] {
        let fault = answer(ask, &Err(no.clone())).expect_err("no");
        assert_eq!(fault.name, format!("{INTERFACE}.{name}"), "{no}");
        assert!(
            parameter.is_empty() || fault.parameters[parameter].is_string(),
            "{no}"
        );
    }
}

proptest! {
    /// I14: no damage of a stranger's call makes it one of root's; and of root's nothing but a reboot comes, or a refusal.
    #[test]
    fn i14_damaged_calls_ask_for_nothing_else(bytes in garble::bytes(
        br#"{"method":"org.openSUSE.rebootmgr.Reboot","parameters":{"Reboot":1,"Force":false}}"#.to_vec(),
    )) {
        if let Ok(call) = call(&bytes) {
            let strangers = wants(&call, false, &shown());
            prop_assert!(!matches!(strangers, Ok(Wants::Asks(_))), "{strangers:?}");
            if let Ok(Wants::Asks(ask)) = wants(&call, true, &shown()) {
                prop_assert!(matches!(ask, Ask::Reboot { .. }), "{ask:?}");
            }
        }
    }
}
