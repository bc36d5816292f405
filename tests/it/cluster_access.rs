//! What the two identities may do and see on a real API server (I7, I11, I13).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as Object;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::api::{Patch, PatchParams, WatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd::clock::Clock;
use kube_rebootd::cluster::answer::{ApiError, call};
use kube_rebootd::cluster::client::{Access, Connector, whoami};
use kube_rebootd::cluster::connect_error::ConnectError;
use kube_rebootd::cluster::heartbeat::Heartbeat;
use kube_rebootd::cluster::lease::{read, selector};
use kube_rebootd::cluster::watch::{Select, Signs, Watch};
use kube_rebootd::cluster::{heartbeat, peers};
use kube_rebootd_core::slot::{Lease, Shown, Waiting};
use serde_json::json;

use crate::plane::{enter, make_slot, until};

const AT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_name_is_the_servers_word() {
    let plane = enter();
    let host = plane.host().await;
    assert_eq!(
        whoami(&host.clients.node).await,
        Ok(format!("system:node:{}", host.name))
    );
    let wrong = Access {
        node_name: Some("other".to_owned()),
        ..plane.access(&host.name)
    };
    let refused = Connector::new(wrong).connect().await.err();
    assert!(
        matches!(refused, Some(ConnectError::OtherNode { .. })),
        "{refused:?}"
    );
    let refused = Connector::new(plane.access("admin")).connect().await.err();
    assert!(
        matches!(refused, Some(ConnectError::NotANode { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_dead_credential_is_401_and_a_new_file_is_noticed() {
    let plane = enter();
    let host = plane.host().await;
    let access = plane.access("expired");
    let refused = Connector::new(access.clone()).connect().await.err();
    let Some(ConnectError::Api(error)) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.unauthorized(), "{error}");
    let clients = Connector::new(plane.access(&host.name))
        .connect()
        .await
        .expect("clients");
    assert!(!clients.outdated());
    let file = access.root.path(&clients.path);
    let text = std::fs::read_to_string(&file).expect("a kubeconfig");
    std::fs::write(&file, format!("{text}# renewed\n")).expect("written");
    assert!(clients.outdated());
}

/// The schema that the server chose for a request.
async fn schema(client: &Client, path: &str) -> String {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a request");
    let answer = client
        .send(request.map(Into::into))
        .await
        .expect("an answer");
    let header = answer.headers().get("X-Kubernetes-PF-FlowSchema-UID");
    let uid = header.expect("the header").to_str().expect("text");
    uid.to_owned()
}

#[tokio::test]
async fn the_coordinator_flows_beside_the_nodes() {
    let host = enter().host().await;
    let schemas: Api<FlowSchema> = Api::all(host.admin.clone());
    let ours = schemas.get("kube-rebootd").await.expect("the schema").uid();
    for path in [
        "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases/default",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        "/api/v1/nodes",
    ] {
        until(path, || async {
            let chosen = schema(&host.clients.coordinator, path).await;
            (Some(chosen) == ours).then_some(())
        })
        .await;
    }
    let own = schema(&host.clients.node, &format!("/api/v1/nodes/{}", host.name)).await;
    assert_ne!(Some(own), ours);
}

#[tokio::test]
async fn a_waiting_record_survives_a_renewal_and_is_the_nodes_own() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    let since = |text: &str| text.parse::<Timestamp>().expect("a time");
    let beats = [&one, &two].map(|host| Heartbeat::new(host.clients.node.clone(), &host.name));
    let record = |text, ready| Shown {
        place: Waiting {
            group: "queue".to_owned(),
            since: since(text),
        },
        ready,
    };
    beats[0]
        .mark(&record("2026-11-21T10:00:00Z", true))
        .await
        .expect("marked");
    beats[1]
        .mark(&record("2026-11-21T09:00:00Z", false))
        .await
        .expect("marked");
    // The kubelet renews by a full PUT of what it read.
    let own: Api<Object> = Api::namespaced(one.clients.node.clone(), "kube-node-lease");
    let mut lease = own.get(&one.name).await.expect("own heartbeat");
    let spec = lease.spec.get_or_insert_default();
    spec.renew_time = Some(
        Timestamp::from_second(1_800_000_000)
            .expect("a time")
            .into(),
    );
    own.replace(&one.name, &kube::api::PostParams::default(), &lease)
        .await
        .expect("renewed");
    let beat = beats[0].get().await.expect("read").expect("there");
    assert!(beat.renewed.is_some());
    assert_eq!(beat.waiting, Some(record("2026-11-21T10:00:00Z", true)));
    let all = heartbeat::list(&one.clients.coordinator, "queue", "nobody")
        .await
        .expect("a list");
    let order: Vec<&str> = all.iter().map(|waiter| waiter.node.as_str()).collect();
    assert_eq!(
        order,
        [two.name.as_str(), one.name.as_str()],
        "longest-waiting first"
    );
    assert_eq!([all[0].ready, all[1].ready], [false, true]);
    let crowd = heartbeat::count(&one.clients.coordinator, "queue", "nobody")
        .await
        .expect("a page");
    assert_eq!((crowd.others, crowd.many), (all, false));
    // Ready again: what said that it is not must not stay.
    beats[1]
        .mark(&record("2026-11-21T09:00:00Z", true))
        .await
        .expect("marked");
    let ready = beats[1].get().await.expect("read").expect("there").waiting;
    assert_eq!(ready, Some(record("2026-11-21T09:00:00Z", true)));
    let others = heartbeat::list(&one.clients.coordinator, "queue", &two.name)
        .await
        .expect("a list");
    assert_eq!(others.len(), 1);
    let foreign = Heartbeat::new(one.clients.node.clone(), &two.name);
    let refused = foreign.clear().await;
    assert!(
        matches!(refused, Err(ApiError::Denied { code: 403, .. })),
        "{refused:?}"
    );
    beats[0].clear().await.expect("cleared");
    assert_eq!(
        beats[0].get().await.expect("read").expect("there").waiting,
        None
    );
    let watched = own
        .watch(
            &WatchParams::default().fields(&format!("metadata.name={}", one.name)),
            "0",
        )
        .await;
    let Err(kube::Error::Api(status)) = watched.map(drop) else {
        panic!("the own heartbeat can be watched now: use it")
    };
    assert_eq!(status.code, 403);
}

#[tokio::test]
async fn i13_peers_are_the_other_labelled_nodes() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    make_slot(&one.admin, "peer", "peers").await;
    let nodes: Api<Node> = Api::all(one.admin.clone());
    let labels = json!({"metadata": {"labels": {"kube-rebootd/slot": "peer", "node-role.kubernetes.io/etcd": ""}}});
    for host in [&one, &two] {
        nodes
            .patch(&host.name, &PatchParams::default(), &Patch::Merge(&labels))
            .await
            .expect("labelled");
    }
    let (seen, _) = one.others(true, AT).list_all().await.expect("a list");
    assert_eq!(seen.asked, AT);
    assert!(seen.labelled.iter().all(|peer| peer.node != one.name));
    let peer = seen
        .labelled
        .iter()
        .find(|peer| peer.node == two.name)
        .expect("the other");
    assert!(peer.quorum && peer.slot == "peer");
    assert!(seen.leases.contains("peer"));
    // Neither has ever been Ready.
    let down = seen.quorum_down.expect("known");
    assert!(
        down.contains(&two.name) && !down.contains(&one.name),
        "{down:?}"
    );
    let worker = one.others(false, AT).list_all().await;
    assert_eq!(
        worker.expect("a list").0.quorum_down,
        Ok(Vec::new()),
        "not asked"
    );
}

#[tokio::test]
async fn nodes_that_can_take_pods_are_told_from_those_that_cannot() {
    let host = enter().host().await;
    let nodes: Api<Node> = Api::all(host.admin.clone());
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let cordon = |on: bool| Patch::Merge(json!({"spec": {"unschedulable": on}}));
    let params = PatchParams::default();
    nodes
        .patch_status(&host.name, &params, &Patch::Merge(&ready))
        .await
        .expect("ready");
    let seen = async || {
        let census = peers::census(&host.clients.coordinator, "nobody").await;
        let census = census.expect("counted");
        let names = |list: &[String]| list.contains(&host.name);
        (names(&census.down), names(&census.cordoned))
    };
    assert_eq!(seen().await, (false, false), "Ready, and pods may come");
    nodes
        .patch(&host.name, &params, &cordon(true))
        .await
        .expect("cordoned");
    assert_eq!(seen().await, (false, true), "Ready and cordoned");
    let own = peers::census(&host.clients.coordinator, &host.name).await;
    let own = own.expect("counted");
    assert!(
        !own.cordoned.contains(&host.name),
        "the own one is no other"
    );
}

#[tokio::test]
async fn i7_a_watch_shows_whole_views() {
    let host = enter().host().await;
    make_slot(&host.admin, "seen-1", "seen").await;
    let api = Api::namespaced(host.clients.coordinator.clone(), "kube-rebootd");
    let select = Select {
        labels: Some(selector("seen")),
        fields: None,
        ..Select::default()
    };
    let mut watch: Watch<Lease> = Watch::start(
        "watch Leases",
        api,
        select,
        Signs::Bookmarks,
        Clock::Real,
        |object| read(object, None),
    );
    let mut wait = async |names: &[&str]| {
        tokio::time::timeout(crate::plane::SOON, async {
            loop {
                let view = watch.view();
                let items = view.items.unwrap_or_default();
                let mut seen: Vec<&str> = items.values().map(|lease| lease.name.as_str()).collect();
                seen.sort_unstable();
                if seen == names {
                    assert!(view.heard.is_some() && view.trouble.is_none());
                    break;
                }
                watch.changed().await;
            }
        })
        .await
        .expect("seen soon");
    };
    wait(&["seen-1"]).await;
    make_slot(&host.admin, "seen-2", "seen").await;
    wait(&["seen-1", "seen-2"]).await;
    let leases: Api<Object> = Api::namespaced(host.admin.clone(), "kube-rebootd");
    leases
        .delete("seen-1", &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    wait(&["seen-2"]).await;
    // What leaves the selector is gone too.
    let other = json!({"metadata": {"labels": {"kube-rebootd/group": "unseen"}}});
    leases
        .patch("seen-2", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .expect("moved");
    wait(&[]).await;
}

#[tokio::test]
async fn a_watch_without_rights_says_so_and_goes_on() {
    let host = enter().host().await;
    let api = Api::namespaced(host.clients.node.clone(), "kube-rebootd");
    let mut watch: Watch<Lease> = Watch::start(
        "watch Leases",
        api,
        Select::default(),
        Signs::Bookmarks,
        Clock::Real,
        |object| read(object, None),
    );
    tokio::time::timeout(crate::plane::SOON, async {
        while watch.view().trouble.is_none() {
            watch.changed().await;
        }
    })
    .await
    .expect("told soon");
    let view = watch.view();
    assert!(
        matches!(view.trouble, Some(ApiError::Denied { code: 403, .. })),
        "{view:?}"
    );
    assert!(view.items.is_none() && view.heard.is_none());
}

#[tokio::test]
async fn i7_a_server_that_accepts_and_never_answers_is_no_answer() {
    enter();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let url = format!("http://127.0.0.1:{port}").parse().expect("a URL");
    let client = Client::try_from(kube::Config::new(url)).expect("a client");
    let nodes: Api<Node> = Api::all(client);
    let limit = Duration::from_millis(200);
    let asked = call("get", limit, nodes.get("n1"));
    let (error, accepted) = tokio::join!(asked, listener.accept());
    assert!(accepted.is_ok());
    let error = error.expect_err("nothing answered");
    assert!(error.unanswered(), "{error}");
}
