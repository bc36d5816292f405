//! Other daemons that reboot hosts, at work on this node: by their pods, and by units of the host (I1, I14). Not by what they write
//! on the Node: that stays where they have gone, and a network plugin may write it on every Node.
//!
//! Their locks and the slots do not see each other: both at work take two nodes down at once. What they are called anybody may call
//! a pod; so one counts only if it reaches into the host, which the Pod Security Standard `baseline` forbids to tenants, and none of
//! them does its work without.

use serde::Deserialize;

use crate::config::Listen;
use crate::pod::Pod;
use crate::slot::Keys;

/// Whose pod it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    Kured,
    /// The agent of the Flatcar Linux update operator.
    Fluo,
    /// A Job of system-upgrade-controller.
    Plan,
    /// A `NodeOp` of the Kairos operator.
    Kairos,
}

/// Labels by whose value each daemon's pod is known: those of its manifests, and of its chart.
const LABELS: [(&str, &str, Rival); 3] = [
    ("name", "kured", Rival::Kured),
    ("app.kubernetes.io/name", "kured", Rival::Kured),
    ("app", "flatcar-linux-update-agent", Rival::Fluo),
];
/// Labels that only the pods of such an operation have, whatever their value.
const OPERATIONS: [(&str, Rival); 3] = [
    ("upgrade.cattle.io/plan", Rival::Plan),
    ("kairos.io/nodeop", Rival::Kairos),
    ("kairos.io/reboot", Rival::Kairos),
];
/// Images, without registry, tag and digest.
const IMAGES: [(&str, Rival); 2] = [
    ("kured", Rival::Kured),
    ("flatcar-linux-update-operator", Rival::Fluo),
];
/// The unit of Zincati, which may also ask this daemon for its turn.
pub const ZINCATI: &str = "zincati.service";
/// Units that reboot their host, and whose they are.
const OF_UNITS: [(&str, &str); 4] = [
    ("locksmithd.service", "locksmith"),
    ("rebootmgr.service", "rebootmgr"),
    ("rebootmgrd.service", "rebootmgr"),
    (ZINCATI, "Zincati"),
];
/// The names of these units.
pub const UNITS: [&str; 4] = [OF_UNITS[0].0, OF_UNITS[1].0, OF_UNITS[2].0, OF_UNITS[3].0];

/// What shows one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// Who, and by what it is seen.
    pub what: String,
    /// How it goes.
    pub cure: String,
}

impl Rival {
    /// By the labels and images of a pod, and whether it reaches into the host: by its PID namespace, or a directory of it.
    pub fn of<'a>(
        labels: &Keys,
        images: impl IntoIterator<Item = &'a str>,
        reaches: bool,
    ) -> Option<Self> {
        if !reaches {
            return None;
        }
        let value = |key: &str| labels.get(key).map(String::as_str);
        let labelled = LABELS.iter().find(|(key, is, _)| value(key) == Some(is));
        let operation = OPERATIONS.iter().find(|(key, _)| value(key).is_some());
        let by_labels = labelled
            .map(|(_, _, rival)| *rival)
            .or(operation.map(|(_, rival)| *rival));
        by_labels.or_else(|| images.into_iter().find_map(Self::of_image))
    }

    fn of_image(image: &str) -> Option<Self> {
        let last = image.rsplit('/').next()?;
        let name = last.split([':', '@']).next()?;
        let known = IMAGES.iter().find(|(known, _)| *known == name);
        known.map(|(_, rival)| *rival)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kured => "kured",
            Self::Fluo => "the Flatcar update agent",
            Self::Plan => "system-upgrade-controller",
            Self::Kairos => "the Kairos operator",
        }
    }
}

/// Pods of such daemons, but for those that have finished.
pub fn of_pods(pods: &[Pod]) -> Vec<Sign> {
    let signs = pods.iter().filter(|pod| !pod.finished()).filter_map(|pod| {
        let rival = pod.rival?;
        Some(Sign {
            what: format!("{} (pod {})", rival.name(), pod.path()),
            cure: taken_off(rival, pod),
        })
    });
    signs.collect()
}

fn taken_off(rival: Rival, pod: &Pod) -> String {
    match rival {
        Rival::Plan | Rival::Kairos => "it ends by itself".to_owned(),
        Rival::Kured | Rival::Fluo => {
            // Nobody's words go into a command but what a name may be.
            let plain = |name: &str| {
                let of_names =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
                !name.is_empty() && !name.starts_with('-') && name.chars().all(of_names)
            };
            match pod.daemon_set() {
                Some(owner) if plain(&owner.name) && plain(&pod.namespace) => format!(
                    "remove it, as `kubectl -n {} delete daemonset {}` does",
                    pod.namespace, owner.name
                ),
                _ => "remove it".to_owned(),
            }
        }
    }
}

/// Units that are active, of [`UNITS`].
pub fn of_units(units: &[String]) -> Vec<Sign> {
    let known = OF_UNITS
        .iter()
        .filter(|(unit, _)| units.iter().any(|one| one == unit));
    let signs = known.map(|(unit, name)| Sign {
        what: format!("{name} (unit {unit})"),
        // Also where the image enables it at every boot, as Flatcar's does.
        cure: format!("`systemctl mask --now {unit}`"),
    });
    signs.collect()
}

/// A file of Zincati's configuration, as far as it is looked at: `src/config/fragments.rs` there.
#[derive(Deserialize)]
struct Fragment {
    updates: Option<Updates>,
}

#[derive(Deserialize)]
struct Updates {
    strategy: Option<String>,
    fleet_lock: Option<Server>,
}

#[derive(Deserialize)]
struct Server {
    base_url: Option<String>,
}

/// What files of Zincati's configuration say of its reboots, each name for what it calls so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfZincati {
    pub strategy: Option<String>,
    pub base_url: Option<String>,
}

impl OfZincati {
    /// Of one file.
    ///
    /// # Errors
    /// Zincati would not read it either, and says so; what it does then is not known.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        let file: Fragment = toml::from_str(text)?;
        let Some(updates) = file.updates else {
            return Ok(Self::default());
        };
        Ok(Self {
            strategy: updates.strategy,
            base_url: updates.fleet_lock.and_then(|server| server.base_url),
        })
    }

    /// With a later file: what that one names counts.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            strategy: later.strategy.or(self.strategy),
            base_url: later.base_url.or(self.base_url),
        }
    }

    /// It asks there before it reboots.
    pub fn asks(&self, listen: &Listen) -> bool {
        let asks = self.strategy.as_deref() == Some("fleet_lock");
        asks && self
            .base_url
            .as_deref()
            .is_some_and(|url| listen.is_at(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Controller, PodPhase};

    fn labels(pairs: &[(&str, &str)]) -> Keys {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn each_daemon_is_known_by_labels_or_image() {
        let plan = "upgrade.cattle.io/plan";
        for (pairs, image, rival) in [
            (&[("name", "kured")][..], "x", Some(Rival::Kured)),
            (
                &[("app.kubernetes.io/name", "kured")],
                "x",
                Some(Rival::Kured),
            ),
            (&[], "ghcr.io/kubereboot/kured:1.23.0", Some(Rival::Kured)),
            (&[], "registry:5000/kured@sha256:0", Some(Rival::Kured)),
            (&[], "kured", Some(Rival::Kured)),
            (&[], "ghcr.io/kured/exporter:1", None),
            (&[], "a/kured-exporter:1", None),
            (
                &[("app", "flatcar-linux-update-agent")],
                "x",
                Some(Rival::Fluo),
            ),
            (
                &[],
                "ghcr.io/flatcar/flatcar-linux-update-operator:v0.10.0",
                Some(Rival::Fluo),
            ),
            (
                &[(plan, "server-plan")],
                "rancher/k3s-upgrade:v1",
                Some(Rival::Plan),
            ),
            (
                &[("upgrade.cattle.io/controller", "s")],
                "rancher/system-upgrade-controller:v1",
                None,
            ),
            (&[("kairos.io/nodeop", "upgrade")], "x", Some(Rival::Kairos)),
            (&[("kairos.io/reboot", "true")], "x", Some(Rival::Kairos)),
            (&[("name", "web")], "nginx", None),
        ] {
            let of = |reaches| Rival::of(&labels(pairs), [image], reaches);
            assert_eq!(of(true), rival, "{pairs:?} {image}");
            // Whoever may only make pods keeps no node from rebooting.
            assert_eq!(of(false), None, "{pairs:?} {image}");
        }
        let images = ["nginx", "a/kured:1"];
        assert_eq!(Rival::of(&Keys::new(), images, true), Some(Rival::Kured));
    }

    fn pod(rival: Rival, set: &str, phase: PodPhase) -> Pod {
        let controller = (!set.is_empty()).then(|| Controller {
            api: "apps/v1".to_owned(),
            kind: "DaemonSet".to_owned(),
            name: set.to_owned(),
            uid: "u".to_owned(),
        });
        Pod {
            namespace: "kube-system".to_owned(),
            rival: Some(rival),
            controller,
            phase,
            ..Pod::ready("pod-1")
        }
    }

    #[test]
    fn i14_a_pod_that_runs_counts_and_its_command_holds_only_names() {
        let running = PodPhase::Running;
        for (rival, set, phase, words) in [
            (
                Rival::Kured,
                "kured",
                running,
                Some(
                    "kured (pod kube-system/pod-1); remove it, as `kubectl -n kube-system delete daemonset kured` does",
                ),
            ),
            (
                Rival::Kured,
                "",
                PodPhase::Pending,
                Some("kured (pod kube-system/pod-1); remove it"),
            ),
            (
                Rival::Fluo,
                "a; rm -rf /",
                running,
                Some("the Flatcar update agent (pod kube-system/pod-1); remove it"),
            ),
            (
                Rival::Fluo,
                "--all",
                running,
                Some("the Flatcar update agent (pod kube-system/pod-1); remove it"),
            ),
            (
                Rival::Plan,
                "",
                running,
                Some("system-upgrade-controller (pod kube-system/pod-1); it ends by itself"),
            ),
            (Rival::Plan, "", PodPhase::Succeeded, None),
            (Rival::Kairos, "", PodPhase::Failed, None),
        ] {
            let signs = of_pods(&[Pod::ready("web"), pod(rival, set, phase)]);
            let said: Vec<String> = signs
                .iter()
                .map(|one| format!("{}; {}", one.what, one.cure))
                .collect();
            assert_eq!(said, Vec::from_iter(words), "{rival:?}");
        }
    }

    #[test]
    fn each_unit_is_known() {
        for unit in UNITS {
            let signs = of_units(&["sshd.service".to_owned(), unit.to_owned()]);
            assert_eq!(signs.len(), 1);
            assert_eq!(signs[0].cure, format!("`systemctl mask --now {unit}`"));
        }
        assert_eq!(of_units(&["sshd.service".to_owned()]), []);
    }

    /// I1: a file counts in whatever form TOML allows.
    #[test]
    fn i1_the_strategy_of_zincati_is_read_in_every_form() {
        let immediate = [
            "[updates]\nstrategy = \"immediate\"\n",
            "[updates]\nstrategy = 'immediate' # ours\n",
            "[updates]\n\"strategy\" = \"immediate\"\n",
            "[\"updates\"]\nstrategy=\"\"\"immediate\"\"\"\n",
            "updates.strategy = \"immediate\"\n",
            "\"updates\" . 'strategy' = \"immediate\"\n",
            "updates = { strategy = \"immediate\" }\n",
            "updates = { enabled = true, strategy = \"immediate\" }\n",
            "[updates]\nstrategy = \"\\u0069mmediate\"\n[updates.fleet_lock]\nbase_url = \"http://127.0.0.1:3333/\"\n",
        ];
        for text in immediate {
            let said = OfZincati::read(text).expect(text);
            assert_eq!(said.strategy.as_deref(), Some("immediate"), "{text}");
        }
        for text in [
            "",
            "# [updates]\n# strategy = \"immediate\"\n",
            "strategy = \"immediate\"\n",
            "[identity]\nstrategy = \"immediate\"\ngroup = 'a'\n",
            "[updates]\nenabled = true\n",
            "[updates]\nnote = \"\"\"\nstrategy = 'immediate'\n\"\"\"\n",
        ] {
            let said = OfZincati::read(text).expect(text);
            assert_eq!(said, OfZincati::default(), "{text}");
        }
        for text in [
            "updates",
            "[updates]\nstrategy = 1\n",
            "updates = \"immediate\"\n",
            "[[updates]]\nstrategy = \"immediate\"\n",
            "[updates]\nstrategy = \"fleet_lock\"\nstrategy = \"immediate\"\n",
        ] {
            assert!(OfZincati::read(text).is_err(), "{text}");
        }
    }

    /// Found beside the real one: who asked another server was taken for one who asks here.
    #[test]
    fn i1_zincati_that_asks_elsewhere_does_not_ask_here() {
        let here = Listen::new("127.0.0.1:3333").expect("an address");
        let strategy = "updates.strategy = 'fleet_lock'\n";
        let url = |url: &str| format!("updates.fleet_lock.base_url = '{url}'\n");
        let read = |text: &str| OfZincati::read(text).expect(text);
        assert!(!read(strategy).asks(&here), "it would not start");
        let first = read(&format!("{strategy}{}", url("http://127.0.0.1:3333/")));
        assert!(first.asks(&here));
        let central = read(&url("https://lock.example/"));
        assert!(!first.clone().then(central.clone()).asks(&here));
        assert!(central.then(first.clone()).asks(&here));
        assert!(first.clone().then(read("")).asks(&here));
        let periodic = read("updates.strategy = 'periodic'\n");
        assert!(!first.then(periodic).asks(&here));
    }

    #[test]
    fn i14_what_is_no_configuration_of_zincati_is_refused_without_a_panic() {
        let good = "[updates]\nstrategy = \"fleet_lock\"\n[updates.fleet_lock]\nbase_url = \"http://a/\"\n";
        for end in 0..good.len() {
            let _ = OfZincati::read(&good[..end]);
            let _ = OfZincati::read(&good[end..]);
        }
        assert!(OfZincati::read(&"[".repeat(60_000)).is_err());
        assert!(OfZincati::read(&format!("a = {}", "[".repeat(60_000))).is_err());
    }
}
