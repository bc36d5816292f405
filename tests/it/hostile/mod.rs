//! What a compromised node can do to the others with the credential it has, on a real API server with
//! NodeRestriction: the table of docs/hostile-node.md, for each of the three grants (I1, I11, I13).

mod attempts;
mod capacity;
mod doctor;
mod tokens;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use attempts::{As, Attempt, Harm, attempts};
use doctor::Doctor;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use kube_rebootd::cluster::client::{Access, Connector};
use kube_rebootd::cluster::lease::{Leases, Took, stored};
use kube_rebootd::cluster::manifests::{Grant, granting};
use kube_rebootd_core::slot::{GiveUp, Take};
use serde_json::{Value, json};

use crate::plane::{Host, Plane, own, until};

const COORDINATOR: &str = "system:serviceaccount:kube-rebootd:coordinator";
const EXTRA: &str = "Impersonate-Extra-node";

/// Some admin's shortcut, which a constrained grant keeps from the nodes: whoever impersonates a
/// `ServiceAccount` is in the group of all of them. The role has its own rules, as nobody aggregates
/// those of the built-in `view` on a plane without controllers. And a DaemonSet for the coordinator to read.
const SHORTCUT: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all-may-read}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all-may-read}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: all-may-read}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:serviceaccounts'}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {app: proxy}}
  template:
    metadata: {labels: {app: proxy}}
    spec: {containers: [{name: c, image: x}]}
";

/// What the API server said to the node's best way of trying.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    code: u16,
    message: String,
}

impl Outcome {
    fn done(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The node that tries, and the one that has something to lose.
struct Scene {
    evil: Host,
    good: Host,
    admin: Client,
}

async fn send(client: &Client, attempt: &Attempt, headers: &[(&str, &str)]) -> Outcome {
    let mut request = Request::builder()
        .method(attempt.verb)
        .uri(&attempt.path)
        .header("Accept", "application/json");
    if !attempt.kind.is_empty() {
        request = request.header("Content-Type", attempt.kind);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if attempt.body.is_null() {
        Vec::new()
    } else {
        attempt.body.to_string().into_bytes()
    };
    let request = request.body(Body::from(body)).expect("a request");
    let answer = client.send(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.expect("a body");
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    Outcome { code, message }
}

/// Tries in every way; what the node's own daemon would send (`usual`) is what is told of a refusal.
async fn try_it(scene: &Scene, attempt: &Attempt, strict: bool) -> Outcome {
    let node = &scene.evil.clients.node;
    let act = ("Impersonate-User", COORDINATOR);
    let (me, other) = (scene.evil.name.as_str(), scene.good.name.as_str());
    let ways: Vec<Vec<(&str, &str)>> = match attempt.who {
        As::Itself => vec![vec![]],
        As::Somebody(headers) => vec![headers.to_vec()],
        As::Coordinator => vec![vec![act], vec![act, (EXTRA, me)], vec![act, (EXTRA, other)]],
    };
    let usual = usize::from(strict && ways.len() > 1);
    let mut told = None;
    for (nth, way) in ways.iter().enumerate() {
        let outcome = send(node, attempt, way).await;
        assert!(
            outcome.done() || matches!(outcome.code, 403 | 422),
            "{attempt:?} as {way:?} was neither done nor refused: {outcome:?}"
        );
        if outcome.done() {
            assert!(
                nth < 2,
                "{}: done as another node: {outcome:?}",
                attempt.what
            );
            scene.reset().await;
            return outcome;
        }
        if nth == usual {
            told = Some(outcome);
        }
    }
    told.expect("a usual way")
}

impl Scene {
    async fn new(plane: &Plane) -> Self {
        let (evil, good) = (plane.host().await, plane.host().await);
        // The headers of some attempts name them.
        assert_eq!((evil.name.as_str(), good.name.as_str()), ("n1", "n2"));
        let admin = evil.admin.clone();
        let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
        let victim = json!({"metadata": {"name": "victim"}, "spec": {"nodeName": good.name,
            "containers": [{"name": "c", "image": "x"}]}});
        let victim = serde_json::from_value(victim).expect("a pod");
        until("a pod can be made", || async {
            pods.create(&PostParams::default(), &victim).await.ok()
        })
        .await;
        plane.kubectl(&["apply", "-f", "-"], SHORTCUT);
        let scene = Self { evil, good, admin };
        scene.reset().await;
        scene
    }

    /// As before every attempt.
    async fn reset(&self) {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), "kube-rebootd");
        leases
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .expect("deleted");
        let (evil, good) = (&self.evil.name, &self.good.name);
        for (name, holder) in [
            ("held", Some(good)),
            ("own", Some(evil)),
            ("free", None),
            ("shut", None),
        ] {
            let apply = async |manager: &str, meta: Value, spec: Value| {
                let mut body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": meta, "spec": spec});
                body["metadata"]["name"] = json!(name);
                let params = PatchParams::apply(manager);
                let made = leases.patch(name, &params, &Patch::Apply(body)).await;
                made.expect("a slot");
            };
            let mut notes = json!({"kube-rebootd/last-hold": "1"});
            if name == "shut" {
                notes["kube-rebootd/paused"] = json!("an admin's");
            }
            let labels = json!({"kube-rebootd/group": "g", "kube-rebootd/protocol": "1"});
            let meta = json!({"labels": labels, "annotations": notes});
            apply("kube-rebootd-setup", meta, json!({})).await;
            if let Some(holder) = holder {
                let meta = json!({"annotations": {"kube-rebootd/role": "control-plane"}});
                let since = "2026-11-21T10:00:00.000000Z";
                let spec = json!({"holderIdentity": holder, "acquireTime": since});
                apply(holder, meta, spec).await;
            }
        }
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let slot = |name: Value| {
            Patch::Merge(json!({"metadata": {"labels": {"kube-rebootd/slot": name}},
                "spec": {"unschedulable": null}}))
        };
        for (node, label) in [(evil, json!("own")), (good, json!("held"))] {
            nodes
                .patch(node, &PatchParams::default(), &slot(label))
                .await
                .expect("labelled");
        }
    }
}

/// Applies what `manifests` prints for `grant` and waits until the server goes by it.
async fn install(plane: &Plane, scene: &Scene, grant: &Grant) {
    let text = granting("default", 1, grant).expect("manifests");
    plane.kubectl(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &text,
    );
    let act = ("Impersonate-User", COORDINATOR);
    let look = |path: &str, headers: Vec<(&'static str, String)>| {
        let mut attempt = attempts("n1", "n2").remove(0);
        path.clone_into(&mut attempt.path);
        async move {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
            send(&scene.evil.clients.node, &attempt, &headers).await
        }
    };
    // Only a plain grant lets the coordinator read what it may not: the server asks RBAC about it.
    let roles = "/apis/rbac.authorization.k8s.io/v1/roles";
    until("the grant", || async {
        let alone = look(roles, vec![(act.0, act.1.to_owned())]).await;
        let named = look(
            roles,
            vec![(act.0, act.1.to_owned()), (EXTRA, "n1".to_owned())],
        )
        .await;
        // Refused as the coordinator, or refused to be the coordinator.
        let as_it =
            |outcome: &Outcome| outcome.message.contains(&format!("User \"{COORDINATOR}\""));
        let wanted = match grant {
            Grant::Plain => (true, false),
            Grant::Constrained => (false, false),
            Grant::Strict(_) => (true, true),
        };
        ((as_it(&alone), as_it(&named)) == wanted).then_some(())
    })
    .await;
    if matches!(grant, Grant::Strict(_)) {
        let unproved = attempts("n1", "n2")
            .into_iter()
            .find(|attempt| attempt.what == "empty another's slot")
            .expect("the attempt");
        let unproved = Attempt {
            path: format!("{}?dryRun=All", unproved.path),
            ..unproved
        };
        until("the strict policy", || async {
            let said = send(&scene.evil.clients.node, &unproved, &[act]).await;
            said.message.contains("prove_node").then_some(())
        })
        .await;
    }
}

/// The daemon's own code takes a slot and gives it up under `grant`.
async fn works(plane: &Plane, scene: &Scene, grant: &Grant) {
    let me = scene.good.name.as_str();
    let access = Access {
        prove_node: matches!(grant, Grant::Strict(_)),
        ..plane.access(me)
    };
    let clients = Connector::new(access).connect().await.expect("clients");
    let leases = Leases::new(clients.coordinator, "kube-rebootd", me);
    let at = Duration::from_secs(1);
    let free = leases.get("free", at).await.expect("read").expect("there");
    let since = stored(Timestamp::now());
    let take = Take::of(&free, "kube-rebootd", since, false);
    let took = leases.take(&take, at).await;
    let Took::Ours(held) = took else {
        panic!("{grant:?}: {took:?}")
    };
    let give_up = GiveUp {
        lease: held.name,
        resource_version: held.resource_version,
        next: vec!["n7".to_owned()],
        last_hold: "now".to_owned(),
    };
    leases.give_up(&give_up, at).await.expect("given up");
    scene.reset().await;
}

/// The table for people: what was done and what not.
fn table(all: &[Attempt], outcomes: &[[Outcome; 3]]) -> String {
    let mut text = String::new();
    for (harm, title) in [
        (Harm::Needed, "What its daemon needs"),
        (Harm::Stops, "What stops or delays reboots, or is a lie"),
        (
            Harm::Others,
            "What touches another's hold or an admin's decision",
        ),
        (Harm::Granted, "What others granted"),
        (Harm::Outside, "What has nothing to do with slots"),
    ] {
        let _ = writeln!(
            text,
            "| {title} | plain | `--constrained` | `--strict` |\n|---|---|---|---|"
        );
        for (attempt, outcomes) in all.iter().zip(outcomes) {
            if attempt.harm == harm {
                let [a, b, c] = outcomes
                    .each_ref()
                    .map(|o| if o.done() { "yes" } else { "no" });
                let _ = writeln!(text, "| {} | {a} | {b} | {c} |", attempt.what);
            }
        }
        text.push('\n');
    }
    text
}

/// With codes and messages, for who wants to know why.
fn report(all: &[Attempt], outcomes: &[[Outcome; 3]]) -> String {
    let mut text = String::new();
    for (attempt, outcomes) in all.iter().zip(outcomes) {
        let _ = writeln!(text, "{} ({} {})", attempt.what, attempt.verb, attempt.path);
        for (grant, outcome) in ["plain", "constrained", "strict"].iter().zip(outcomes) {
            let _ = writeln!(text, "    {grant}: {} {}", outcome.code, outcome.message);
        }
    }
    text
}

#[tokio::test]
async fn i1_a_hostile_node_harms_nobody_where_nodes_prove_who_they_are() {
    let plane = own();
    let scene = Scene::new(&plane).await;
    let all = attempts(&scene.evil.name, &scene.good.name);
    let nodes = vec![scene.evil.name.clone(), scene.good.name.clone()];
    let doctor = Doctor::of(&plane, &scene.good.name).await;
    let mut columns = Vec::new();
    for grant in [Grant::Plain, Grant::Constrained, Grant::Strict(nodes)] {
        install(&plane, &scene, &grant).await;
        scene.reset().await;
        works(&plane, &scene, &grant).await;
        doctor.looks(&grant).await;
        capacity::is_granted_and_taken_back(&plane, &scene, &doctor, &grant).await;
        let mut outcomes = Vec::new();
        for attempt in &all {
            outcomes.push(try_it(&scene, attempt, matches!(grant, Grant::Strict(_))).await);
        }
        columns.push(outcomes);
    }
    doctor.misses_the_policy(&plane).await;
    let tokens = tokens::table(&plane, &scene, &doctor).await;
    let outcomes: Vec<[Outcome; 3]> = (0..all.len())
        .map(|row| [0, 1, 2].map(|column: usize| columns[column][row].clone()))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = root.join("target/reliability");
    std::fs::create_dir_all(&kept).expect("a directory");
    let table = table(&all, &outcomes);
    let text = format!("{table}{tokens}\n{}", report(&all, &outcomes));
    std::fs::write(kept.join("hostile-node.txt"), text).expect("written");

    for (attempt, [plain, constrained, strict]) in all.iter().zip(&outcomes) {
        let what = attempt.what;
        match attempt.harm {
            Harm::Needed => assert!(
                plain.done() && constrained.done() && strict.done(),
                "{what}: {plain:?} {constrained:?} {strict:?}"
            ),
            Harm::Stops => {}
            // Where nobody may read it, the constrained grant would prove nothing.
            Harm::Granted => assert!(
                plain.done() && !constrained.done() && strict.done(),
                "{what}: {plain:?} {constrained:?} {strict:?}"
            ),
            Harm::Others => assert!(!strict.done(), "{what}: {strict:?}"),
            Harm::Outside => assert!(
                !plain.done() && !constrained.done() && !strict.done(),
                "{what}: {plain:?} {constrained:?} {strict:?}"
            ),
        }
    }
    let document =
        std::fs::read_to_string(root.join("docs/hostile-node.md")).expect("the document");
    for table in [&table, &tokens] {
        assert!(
            document.contains(table.trim_end()),
            "docs/hostile-node.md does not say what was seen; the table is\n{table}"
        );
    }
}
