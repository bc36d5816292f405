//! Who may read, and who may change anything (I14).

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const POLICY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/packaging/dbus/org.kuberebootd1.conf"
);

/// What a system bus begins with, for our name: nobody owns it and nobody is called, but the bus.
const SYSTEM: &str = r#"<policy context="default">
  <deny own="org.kuberebootd1"/>
  <deny send_type="method_call"/>
  <allow send_destination="org.freedesktop.DBus"/>
</policy>"#;

/// Root and somebody else on a bus, when the name is there.
async fn with_nobody(bus: &FakeHostBus) -> (Publisher, Client, Client) {
    let socket = bus.address().replace("unix:path=", "");
    let directory = std::path::Path::new(&socket).parent().expect("a parent");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory, open).expect("a mode");
    let (publisher, root) = served(bus);
    root.until("the name", "Phase", "queued").await;
    let nobody = Client {
        address: bus.address(),
        nobody: true,
    };
    (publisher, root, nobody)
}

/// On a bus with these rules.
async fn nobody_reads_and_does_not_set(more: &str) {
    let bus = FakeHostBus::configured(more).await;
    let (_publisher, root, nobody) = with_nobody(&bus).await;
    assert_eq!(nobody.all().await, root.all().await);
    assert_eq!(level_of(&nobody).await, Ok(json!("info")));
    let introspected = nobody.busctl(&["introspect", NAME, NODE.0]).await;
    assert!(introspected.is_ok(), "{introspected:?}");
    let refused = nobody.set(LOG, "LogLevel", "debug").await.unwrap_err();
    assert!(refused.contains("Access denied"), "{refused}");
    assert_eq!(level_of(&root).await, Ok(json!("info")));
    root.set(LOG, "LogLevel", "debug").await.expect("set");
    assert_eq!(level_of(&nobody).await, Ok(json!("debug")));
    let target = root.set(LOG, "LogTarget", "kmsg").await.unwrap_err();
    assert!(
        target.contains("decided when the daemon starts"),
        "{target}"
    );
}

#[tokio::test]
async fn i14_only_root_sets_by_the_word_of_the_bus() {
    nobody_reads_and_does_not_set("").await;
}

#[tokio::test]
async fn i14_only_root_sets_by_the_rules_of_the_bus() {
    let rules = format!("{SYSTEM}<include>{POLICY}</include>");
    nobody_reads_and_does_not_set(&rules).await;
}

/// docs/security.md: what an administrator adds below /etc comes after what is installed.
#[tokio::test]
async fn an_administrator_can_keep_it_to_root() {
    let policy = std::fs::read_to_string(POLICY).expect("a policy");
    let (root, others) = policy.split_once("context=\"default\"").expect("two");
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("closed.conf");
    let closed = others.replace("<allow ", "<deny ");
    let closed = format!("{root}context=\"default\"{closed}");
    std::fs::write(&file, closed).expect("written");
    let rules = format!(
        "<include>{POLICY}</include><include>{}</include>",
        file.display()
    );
    let bus = FakeHostBus::configured(&rules).await;
    let (_publisher, root, nobody) = with_nobody(&bus).await;
    assert!(root.all().await.is_ok());
    let refused = nobody.all().await.unwrap_err();
    assert!(refused.contains("Access denied"), "{refused}");
}
