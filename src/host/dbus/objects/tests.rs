use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::phase::Phase;

use super::*;
use crate::host::view::{Blocked, Holder, View};

fn shown() -> Shown {
    Shown {
        view: View {
            pid: 7,
            version: "1.2.3".to_owned(),
            node: Some("n1".to_owned()),
            group: "default".to_owned(),
            phase: Some(Phase::Draining),
            kept_by: vec!["kube-rebootd hold".to_owned()],
            waits: vec!["inhibited by apt".to_owned()],
            holders: vec![Holder {
                slot: "default".to_owned(),
                node: "n1".to_owned(),
            }],
            blockers: vec![Blocked {
                pod: "ns/web".to_owned(),
                why: "its budget allows none".to_owned(),
                budget: None,
            }],
            config_error: vec!["config.toml:2: mode: \"hush\" is not allowed".to_owned()],
            config_places: vec!["config.toml:2: mode".to_owned()],
            ..View::default()
        },
        status: "Draining n1".to_owned(),
    }
}

/// A call without a bus, whose answer is told as its signature or its error, and as text.
struct Asked {
    shown: Shown,
    log: Control,
}

impl Asked {
    fn new() -> Self {
        Self {
            shown: shown(),
            log: Control::unused(),
        }
    }

    fn message<B: Serialize + DynamicType>(
        path: &str,
        interface: Option<&str>,
        member: &str,
        body: &B,
    ) -> Message {
        let call = Message::method_call(path, member);
        let call = match interface {
            Some(interface) => call.interface(interface),
            None => call,
        };
        call.sender(":1.7").build(body).expect("a call")
    }

    fn call<B: Serialize + DynamicType>(
        &self,
        path: &str,
        interface: Option<&str>,
        member: &str,
        body: &B,
    ) -> Result<Message, String> {
        let message = Self::message(path, interface, member, body);
        match call(&message, &self.shown, &self.log).expect("an answer") {
            Call::Answered(answer) => told(answer),
            Call::Changes => Err("changes".to_owned()),
        }
    }

    fn get(&self, path: &str, interface: &str, name: &str) -> Result<String, String> {
        let answer = self.call(path, Some(PROPERTIES), "Get", &(interface, name))?;
        let body = answer.body();
        let value: Variant<'_> = body.deserialize().expect("a value");
        Ok(value.to_string())
    }

    fn set<B: Serialize + DynamicType>(
        &self,
        path: &str,
        user: u32,
        body: &B,
    ) -> Result<(), String> {
        let message = Self::message(path, Some(PROPERTIES), "Set", body);
        self.changed(&message, user).map(drop)
    }

    fn order<B: Serialize + DynamicType>(
        &self,
        user: u32,
        member: &str,
        body: &B,
    ) -> Result<Option<Order>, String> {
        // Nothing is done before the bus has said who asks.
        let call = self.call(PATH, Some(INTERFACE), member, body);
        assert_eq!(call.unwrap_err(), "changes");
        let message = Self::message(PATH, Some(INTERFACE), member, body);
        assert!(changes(&message));
        self.changed(&message, user)
    }

    fn changed(&self, message: &Message, user: u32) -> Result<Option<Order>, String> {
        match change(message, user, &self.log).expect("an answer") {
            Change::Answered(answer) => told(answer).map(|_| None),
            Change::Ordered(order) => Ok(Some(order)),
        }
    }
}

fn told(answer: Message) -> Result<Message, String> {
    let header = answer.header();
    match header.error_name() {
        Some(name) => Err(name.as_str().rsplit('.').next().unwrap().to_owned()),
        None => Ok(answer),
    }
}

#[test]
fn what_is_read_is_what_is_shown() {
    let asked = Asked::new();
    let answer = asked.call(PATH, Some(PROPERTIES), "GetAll", &INTERFACE);
    assert_eq!(answer.unwrap().body().signature().to_string(), "a{sv}");
    for (name, value) in [
        ("Version", r#""1.2.3""#),
        ("Node", r#""n1""#),
        ("Group", r#""default""#),
        ("Phase", r#""draining""#),
        ("Status", r#""Draining n1""#),
        ("Waits", r#"["inhibited by apt"]"#),
        ("KeptBy", r#"["kube-rebootd hold"]"#),
        ("Holders", r#"[("default", "n1")]"#),
        ("Blockers", r#"[("ns/web", "its budget allows none", "")]"#),
        ("ConfigError", r#"["config.toml:2: mode"]"#),
    ] {
        assert_eq!(asked.get(PATH, INTERFACE, name).unwrap(), value, "{name}");
        assert_eq!(asked.get(PATH, "", name).unwrap(), value, "{name}");
    }
    for (name, value) in [
        ("LogLevel", r#""info""#),
        ("LogTarget", r#""null""#),
        ("SyslogIdentifier", r#""kube-rebootd""#),
    ] {
        assert_eq!(asked.get(LOG_PATH, LOG_INTERFACE, name).unwrap(), value);
    }
}

/// Everybody on the host may read them.
#[test]
fn i12_no_property_repeats_what_the_configuration_says() {
    for (name, value) in values(&shown()) {
        let value = value.to_string();
        assert!(!value.contains("hush"), "{name}: {value}");
    }
}

/// As `status --json` names them.
#[test]
fn phases_have_the_names_of_status() {
    for phase in Phase::ALL {
        let mut shown = shown();
        shown.view.phase = Some(phase);
        let json = serde_json::to_string(&phase).expect("JSON");
        assert_eq!(values(&shown)["Phase"].to_string(), json);
    }
}

#[test]
fn what_cannot_be_asked_is_refused_by_name() {
    let asked = Asked::new();
    let properties = Some(PROPERTIES);
    for (path, interface, member, arguments, error) in [
        ("/", properties, "GetAll", ("", ""), "UnknownObject"),
        (
            "/org/kuberebootd",
            None,
            "Introspect",
            ("", ""),
            "UnknownObject",
        ),
        (
            "/org/kuberebootd1/x",
            None,
            "Introspect",
            ("", ""),
            "UnknownObject",
        ),
        (
            PATH,
            properties,
            "Get",
            (LOG_INTERFACE, "LogLevel"),
            "UnknownInterface",
        ),
        (
            PATH,
            properties,
            "Get",
            (INTERFACE, "Pid"),
            "UnknownProperty",
        ),
        (PATH, properties, "GetAll", ("", ""), "InvalidArgs"),
        (PATH, properties, "Got", ("", ""), "UnknownMethod"),
        (PATH, Some(INTERFACE), "Get", ("", ""), "UnknownMethod"),
        (PATH, Some(INTERFACE), "PowerOff", ("", ""), "UnknownMethod"),
        (PATH, Some(PEER), "Reboot", ("", ""), "UnknownMethod"),
        (LOG_PATH, None, "Reboot", ("", ""), "UnknownMethod"),
        ("/x", Some(INTERFACE), "Reboot", ("", ""), "UnknownObject"),
    ] {
        let answer = asked.call(path, interface, member, &arguments);
        assert_eq!(answer.unwrap_err(), error, "{path} {member} {arguments:?}");
    }
    assert!(asked.call("/anywhere", Some(PEER), "Ping", &()).is_ok());
    assert!(asked.call(PATH, None, "GetAll", &INTERFACE).is_ok());
    // busctl asks every interface for its properties.
    assert!(asked.call(PATH, None, "GetAll", &PEER).is_ok());
}

#[test]
fn only_root_changes_anything_and_only_the_level() {
    let asked = Asked::new();
    let level = |level: &'static str| (LOG_INTERFACE, "LogLevel", Variant::from(level));
    // Nothing is changed before the bus has said who asks.
    let call = asked.call(LOG_PATH, Some(PROPERTIES), "Set", &level("debug"));
    assert_eq!(call.unwrap_err(), "changes");
    for user in [1, 65534, u32::MAX] {
        let denied = asked.set(LOG_PATH, user, &level("debug"));
        assert_eq!(denied.unwrap_err(), "AccessDenied");
    }
    assert_eq!(asked.log.level(), "info");
    asked.set(LOG_PATH, 0, &level("debug")).expect("set");
    let read = asked.get(LOG_PATH, LOG_INTERFACE, "LogLevel");
    assert_eq!(read.unwrap(), r#""debug""#);
    for wrong in ["", "loud", "DEBUG"] {
        let answer = asked.set(LOG_PATH, 0, &level(wrong));
        assert_eq!(answer.unwrap_err(), "InvalidArgs");
    }
    let number = (LOG_INTERFACE, "LogLevel", Variant::from(7_u32));
    assert_eq!(asked.set(LOG_PATH, 0, &number).unwrap_err(), "InvalidArgs");
    assert_eq!(asked.set(LOG_PATH, 0, &7).unwrap_err(), "InvalidArgs");
    let set =
        |path, interface, name, value| asked.set(path, 0, &(interface, name, Variant::from(value)));
    set(LOG_PATH, LOG_INTERFACE, "LogTarget", "null").expect("as it is");
    for (path, interface, name, error) in [
        (LOG_PATH, LOG_INTERFACE, "LogTarget", "NotSupported"),
        (
            LOG_PATH,
            LOG_INTERFACE,
            "SyslogIdentifier",
            "PropertyReadOnly",
        ),
        (LOG_PATH, LOG_INTERFACE, "Phase", "UnknownProperty"),
        (LOG_PATH, INTERFACE, "Phase", "UnknownInterface"),
        (PATH, INTERFACE, "Phase", "PropertyReadOnly"),
        (PATH, INTERFACE, "LogLevel", "UnknownProperty"),
        ("/", INTERFACE, "Phase", "UnknownObject"),
    ] {
        assert_eq!(set(path, interface, name, "kmsg").unwrap_err(), error);
    }
    assert_eq!(asked.log.level(), "debug");
}

#[test]
fn i14_only_root_gives_orders() {
    let asked = Asked::new();
    for user in [1, 65534, u32::MAX] {
        let denied = asked.order(user, "Retry", &());
        assert_eq!(denied.unwrap_err(), "AccessDenied");
    }
    let reboot = asked.order(0, "Reboot", &("a\u{1b}[2J kernel", true));
    let reason = "a[2J kernel".to_owned();
    assert_eq!(
        reboot,
        Ok(Some(Order::Reboot {
            reason,
            now: true,
            kind: None
        }))
    );
    let soft = asked.order(0, "RebootBy", &("libraries", false, "soft-reboot"));
    let wanted = Order::reboot("libraries", false, Some(Kind::SoftReboot));
    assert_eq!(soft, Ok(Some(wanted)));
    for (user, kind, error) in [(0, "kexec", "InvalidArgs"), (1, "reboot", "AccessDenied")] {
        let refused = asked.order(user, "RebootBy", &("", false, kind));
        assert_eq!(refused.unwrap_err(), error);
    }
    assert_eq!(asked.order(0, "Cancel", &()), Ok(Some(Order::Cancel)));
    assert_eq!(asked.order(0, "Retry", &()), Ok(Some(Order::Retry)));
    for member in ["Reboot", "Cancel", "Retry"] {
        let wrong = asked.order(0, member, &("", "", ""));
        assert_eq!(wrong.unwrap_err(), "InvalidArgs", "{member}");
    }
    assert_eq!(asked.order(0, "Reboot", &("",)).unwrap_err(), "InvalidArgs");
}

#[test]
fn only_what_changed_is_told() {
    let old = shown();
    assert!(changed(&old, &old).is_empty());
    let mut new = old.clone();
    new.view.pid = 8;
    assert!(changed(&old, &new).is_empty(), "nobody sees it");
    new.status = "Rebooting n1".to_owned();
    new.view.phase = Some(Phase::Rebooting);
    new.view.blockers.clear();
    let told: Vec<&str> = changed(&old, &new).into_keys().collect();
    assert_eq!(told, ["Blockers", "Phase", "Status"]);
}

/// The bus ends the connection of who sends it.
#[test]
fn i14_no_nul_is_sent() {
    let mut asked = Asked::new();
    asked.shown.status = "one\0two".to_owned();
    asked.shown.view.waits = vec!["a\0\u{1b}b".to_owned()];
    let get = |name| asked.get(PATH, INTERFACE, name).expect("sent");
    assert_eq!(get("Status"), r#""onetwo""#);
    assert_eq!(get("Waits"), r#"["ab"]"#);
}

/// Name, type and access of each property.
fn described(xml: &str) -> BTreeMap<String, (String, bool)> {
    let attribute = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).expect(line);
        rest.split('"').next().expect("its end").to_owned()
    };
    let properties = xml.lines().filter(|line| line.contains("<property "));
    let properties = properties.map(|line| {
        let writable = attribute(line, "access") == "readwrite";
        (attribute(line, "name"), (attribute(line, "type"), writable))
    });
    properties.collect()
}

#[test]
fn introspection_tells_each_property_and_its_type() {
    let asked = Asked::new();
    let introspected = |path| {
        let answer = asked.call(path, Some(INTROSPECTABLE), "Introspect", &());
        answer.unwrap().body().deserialize::<String>().expect("XML")
    };
    for (path, values) in [
        (PATH, values(&asked.shown)),
        (LOG_PATH, log_values(&asked.log)),
    ] {
        let xml = introspected(path);
        let real: BTreeMap<String, String> = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.value_signature().to_string()))
            .collect();
        let told = described(&xml);
        let types = told
            .iter()
            .map(|(name, (of, _))| (name.clone(), of.clone()));
        assert_eq!(types.collect::<BTreeMap<_, _>>(), real);
        let writable: Vec<&String> = (told.iter())
            .filter_map(|(name, (_, writable))| writable.then_some(name))
            .collect();
        let expected: &[&str] = if path == PATH {
            &[]
        } else {
            &["LogLevel", "LogTarget"]
        };
        assert_eq!(writable, expected);
        let methods: Vec<&str> = ORDERS
            .into_iter()
            .filter(|name| xml.contains(&format!("<method name=\"{name}\">")))
            .collect();
        assert_eq!(methods, if path == PATH { &ORDERS[..] } else { &[] });
        assert_eq!(xml.matches("<node>").count(), 1);
        assert_eq!(xml.matches("</node>").count(), 1);
    }
    assert_eq!(introspected("/"), r#"<node><node name="org"/></node>"#);
    assert_eq!(
        introspected("/org"),
        r#"<node><node name="kuberebootd1"/><node name="freedesktop"/></node>"#
    );
    assert_eq!(
        introspected("/org/freedesktop"),
        r#"<node><node name="LogControl1"/></node>"#
    );
}
