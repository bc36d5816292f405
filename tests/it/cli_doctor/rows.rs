//! Rows of `doctor` that are there, or say something, only on some hosts: the guarded door, budgets that refuse, windows that never open.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{joined, lines};
use crate::cli_host::{CliHost, Said};
use crate::plane::{Host, until};

/// A lock, as logind lists it: what it inhibits, who holds it, why, and how.
type Lock = (&'static str, &'static str, &'static str, &'static str);

/// Who is kept from a shutdown depends on the version of systemd, and on whose lock is there.
#[tokio::test]
async fn a_guarded_door_is_judged_by_what_logind_says() {
    const OWN: Lock = (
        "shutdown",
        "kube-rebootd",
        "use kube-rebootd reboot",
        "block",
    );
    const DELAYS: Lock = ("shutdown", "kube-rebootd", "a moment", "delay");
    const ANOTHER: Lock = ("shutdown", "backup", "tapes are turning", "block");
    let mut host = CliHost::start().await;
    let row = |said: &Said| said.out.lines().any(|line| line.contains(" guard "));
    assert!(!row(&host.run(&["doctor"]).await), "nobody wants a guard");
    let config = "[reboot]\nguard = true\n";
    host.write("/etc/kube-rebootd/config.toml", config);
    let open = "the daemon does not inhibit other shutdowns now";
    let why = "journalctl -u kube-rebootd -g reboot.guard; or: reboot.guard = false";
    let old = "version 257 or newer refuses it";
    let update = "update the distribution; or: reboot.guard = false";
    for (heeds_root, locks, verdict, words, cure) in [
        (
            true,
            &[OWN][..],
            "ok ",
            "every other shutdown is refused",
            "",
        ),
        (
            true,
            &[OWN, ANOTHER],
            "ok ",
            "every other shutdown is refused",
            "",
        ),
        (true, &[], "warn", open, why),
        (true, &[ANOTHER], "warn", open, why),
        (true, &[DELAYS], "warn", open, why),
        (false, &[OWN], "warn", old, update),
        (false, &[], "warn", old, update),
    ] {
        host.bus.knobs().heeds_root = heeds_root;
        host.bus.inhibit(locks).await;
        let said = host.run(&["doctor"]).await;
        let (found, next) = lines(&said, "guard");
        let all = found.starts_with(verdict) && found.contains(words);
        assert!(all, "{heeds_root} {locks:?}: {}", said.out);
        assert_eq!(next.contains("cure: "), !cure.is_empty(), "{}", said.out);
        assert!(next.contains(cure) || cure.is_empty(), "{}", said.out);
    }
    host.bus.stop_logind().await;
    let said = host.run(&["doctor"]).await;
    let (found, next) = lines(&said, "guard");
    assert!(found.starts_with("warn"), "{}", said.out);
    assert!(next.contains("systemctl restart systemd-logind"), "{next}");
}

/// A running pod of a `ReplicaSet`, and a budget over it that allows nothing.
async fn held(node: &Host, name: &str) -> (Api<Pod>, Api<PodDisruptionBudget>) {
    let pods: Api<Pod> = Api::namespaced(node.admin.clone(), "default");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(node.admin.clone(), "default");
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "1-2-3", "controller": true});
    let pod = json!({"metadata": {"name": name, "labels": {"app": name}, "ownerReferences": [owner]},
        "spec": {"nodeName": node.name, "containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).expect("a Pod");
    let new = PostParams::default();
    pods.create(&new, &pod).await.expect("a Pod");
    let budget = json!({"metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}});
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets.create(&new, &budget).await.expect("a budget");
    (pods, budgets)
}

/// The pod is Ready or not, and the budget's controller has seen that.
async fn is_ready(all: &(Api<Pod>, Api<PodDisruptionBudget>), name: &str, ready: bool) {
    let status = |status: Value| Patch::Merge(json!({"status": status}));
    let word = if ready { "True" } else { "False" };
    let pod = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": word}]});
    let params = PatchParams::default();
    let patched = all.0.patch_status(name, &params, &status(pod)).await;
    patched.expect("a status");
    let seen = all.1.get(name).await.expect("the budget");
    let found = json!({"observedGeneration": seen.metadata.generation, "disruptionsAllowed": 0,
        "currentHealthy": u32::from(ready), "desiredHealthy": 1, "expectedPods": 1});
    let patched = all.1.patch_status(name, &params, &status(found)).await;
    patched.expect("a status");
}

/// The row `budgets` once it contains these words: the server's caches know an object some time after it is stored.
async fn budgets(host: &CliHost, words: &str) -> (String, String) {
    let found = until(words, || async {
        let said = host.run(&["doctor"]).await;
        let (row, cure) = lines(&said, "budgets");
        let both = (row.to_owned(), cure.to_owned());
        row.contains(words).then_some(both)
    });
    found.await
}

/// Before a pod moves it is known which budget would hold the drain up, and what lets a pod go that is not Ready anyway.
#[tokio::test]
async fn a_budget_that_refuses_is_named_and_so_is_what_lets_a_pod_go_that_is_not_ready() {
    let (host, node) = joined("doc-budget").await;
    let always = "[drain]\nmode = \"always\"\n";
    host.write("/etc/kube-rebootd/config.d/50-drain.toml", always);
    let name = format!("web-{}", node.name);
    let all = held(&node, &name).await;
    is_ready(&all, &name, true).await;
    let refused = format!("1 of 1 evictions would be refused now: default/{name}: ");
    let (row, cure) = budgets(&host, &refused).await;
    assert!(row.starts_with("warn"), "{row}");
    assert!(
        row.contains(&format!("disruption budget {name} needs 1")),
        "{row}"
    );
    assert!(!row.contains("unhealthyPodEvictionPolicy"), "{row}");
    assert!(
        cure.contains("kubectl get poddisruptionbudgets -A"),
        "{cure}"
    );
    is_ready(&all, &name, false).await;
    let policy = "the pod is not Ready, and unhealthyPodEvictionPolicy: AlwaysAllow in the budget would let it go";
    let (row, _) = budgets(&host, policy).await;
    assert!(row.starts_with("warn") && row.contains(&refused), "{row}");
    // As the words say.
    let allow = Patch::Merge(json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}));
    let patched = all.1.patch(&name, &PatchParams::default(), &allow).await;
    patched.expect("the budget");
    is_ready(&all, &name, false).await;
    let (row, _) = budgets(&host, "1 evictions were tried, and none would be refused").await;
    assert!(row.starts_with("ok "), "{row}");
}

/// Found by reading: such a host would have waited for ever, and neither said so.
#[tokio::test]
async fn windows_that_never_open_are_refused_and_told() {
    let host = CliHost::start().await;
    let config = |dates: &str| {
        let windows = "[[windows]]\nstart = \"22:00\"\nend = \"05:00\"\n";
        let text = format!("{windows}[gates]\nexclude_dates = [\"{dates}\"]\n");
        host.write("/etc/kube-rebootd/config.toml", &text);
    };
    config("12-20..01-06");
    let said = host.run(&["config", "check"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = host.run(&["doctor"]).await;
    assert!(lines(&said, "windows").0.starts_with("ok "), "{}", said.out);
    // The daemon takes what passes by itself; whoever writes it is told.
    config("2020-01-01..2999-12-31");
    for words in [&["config", "check"][..], &["config", "check", "FILE"]] {
        let file = host.root().path("/etc/kube-rebootd/config.toml");
        let file = file.to_str().expect("UTF-8");
        let words: Vec<&str> = (words.iter())
            .map(|word| if *word == "FILE" { file } else { word })
            .collect();
        let said = host.run(&words).await;
        assert_eq!(said.code, Some(78), "{}{}", said.out, said.err);
        let place =
            "config.toml:5: gates.exclude_dates: leaves out each day on which a window would open";
        assert!(said.err.contains(place), "{}", said.err);
    }
    let said = host.run(&["doctor"]).await;
    let (found, cure) = lines(&said, "windows");
    assert!(found.starts_with("FAIL"), "{}", said.out);
    assert!(found.contains("no reboot begins before"), "{found}");
    assert!(
        cure.contains("take dates of gates.exclude_dates away"),
        "{cure}"
    );
    // What comes again each year is refused as any other error is.
    config("01-01..12-31");
    let said = host.run(&["config", "check"]).await;
    assert_eq!(said.code, Some(78), "{}{}", said.out, said.err);
    let place = "config.toml:5: gates.exclude_dates: leaves in no year an opening of window \"1\"";
    assert!(said.err.contains(place), "{}", said.err);
    let said = host.run(&["doctor"]).await;
    let (found, _) = lines(&said, "configuration");
    assert!(found.starts_with("FAIL"), "{}", said.out);
}
