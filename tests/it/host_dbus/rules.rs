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

/// The rules of docs/security.md, as they stand there: the bus reads them after what is installed.
#[tokio::test]
async fn an_administrator_can_keep_it_to_root() {
    let page = include_str!("../../../docs/security.md");
    let (_, block) = page.split_once("```xml\n").expect("a block");
    let (closed, _) = block.split_once("```").expect("its end");
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("closed.conf");
    std::fs::write(&file, closed).expect("written");
    let rules = format!(
        "{SYSTEM}<include>{POLICY}</include><include>{}</include>",
        file.display()
    );
    let bus = FakeHostBus::configured(&rules).await;
    let (publisher, root, nobody) = with_nobody(&bus).await;
    assert!(root.all().await.is_ok());
    let refused = nobody.all().await.unwrap_err();
    assert!(refused.contains("Access denied"), "{refused}");
    let mut others = Watcher::of(&nobody).await;
    let mut roots = Watcher::of(&root).await;
    for _ in 0..3 {
        roots.told_of_a_change(&publisher).await;
    }
    assert_eq!(others.told(TURN).await, None, "told others");
}

/// Found by reading: signals went to everybody whatever was written in place of the shipped rules.
#[tokio::test]
async fn everybody_is_told_of_changes_by_the_shipped_rules() {
    let rules = format!("{SYSTEM}<include>{POLICY}</include>");
    let bus = FakeHostBus::configured(&rules).await;
    let (publisher, _root, nobody) = with_nobody(&bus).await;
    let mut others = Watcher::of(&nobody).await;
    others.told_of_a_change(&publisher).await;
}

/// How long a change is waited for before the next one is made.
const TURN: Duration = Duration::from_secs(1);

/// Somebody who looks on with gdbus.
struct Watcher {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    /// It knows who has the name, and is told from now on.
    async fn of(client: &Client) -> Self {
        let mut gdbus = client.command("gdbus");
        gdbus
            .args(["monitor", "--address", &client.address, "--dest", NAME])
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = gdbus.spawn().expect("gdbus runs (package libglib2.0-bin)");
        let stdout = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(stdout).lines();
        let owned = async {
            while let Some(line) = lines.next_line().await.expect("a line") {
                if line.contains(" is owned by ") {
                    return;
                }
            }
            panic!("gdbus ended");
        };
        let owned = tokio::time::timeout(PATIENCE, owned).await;
        owned.expect("gdbus knows who has the name");
        Self {
            _child: child,
            lines,
        }
    }

    /// Changes are made until it is told of one: gdbus itself loses what comes in its first moment, before it knows that
    /// the sender has the name.
    async fn told_of_a_change(&mut self, publisher: &Publisher) {
        for phase in [Phase::Claiming, Phase::Draining].iter().cycle().take(30) {
            publisher.publish(&view(*phase), &phase.to_string());
            if self.told(TURN).await.is_some() {
                return;
            }
        }
        panic!("gdbus was told of none of thirty changes");
    }

    /// The next change, if there is one within this time.
    async fn told(&mut self, within: Duration) -> Option<String> {
        let change = async {
            while let Some(line) = self.lines.next_line().await.expect("a line") {
                if line.contains("PropertiesChanged") {
                    return line;
                }
            }
            panic!("gdbus ended");
        };
        tokio::time::timeout(within, change).await.ok()
    }
}
