//! Row 4: many nodes wait for one slot. A waiter is the daemon itself, one process each, with its own
//! connections and its own node's credential; only its host is a directory tree and its kubelet is kwok.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::{Bed, Request, Stub};

use crate::figures::Figure;
use crate::process::Look;
use crate::world::{DAEMON, NAMESPACE, World, count, seconds};

/// Hand-overs per number of waiters, after the first.
const HANDOVERS: usize = 3;
/// Requests at once while nodes are made.
const AT_ONCE: usize = 20;
/// Daemons started before the next wait: two cores have much to encrypt.
const BATCH: usize = 50;
/// How long all of them wait, and nothing happens, to tell what that costs.
const STILL: Duration = Duration::from_secs(20);
/// In whose hands the slot is until all wait.
const FIRST: &str = "nobody";

/// The API server, by its own metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server {
    /// Seconds.
    pub(crate) cpu: f64,
    resident: f64,
}

/// The group of so many waiters.
pub(crate) fn group(waiters: usize) -> String {
    format!("w{waiters}")
}

/// One hand-over: between two give-ups.
struct Handover {
    seconds: f64,
    requests: f64,
    watches: f64,
    kilobytes: f64,
    cpu: f64,
}

/// The figures of row 4 for one number of waiters.
pub(crate) fn measure(world: &World, waiters: usize) -> Result<Vec<Figure>> {
    let group = group(waiters);
    world.set_holder(&group, Some(FIRST), &[])?;
    eprintln!("bench: {waiters} waiters ...");
    let before = server(world)?;
    let names: Vec<String> = (0..waiters)
        .map(|number| format!("{group}-{number}"))
        .collect();
    make(world, &names)?;
    let mut stubs = start(world, &group, &names)?;
    let all = server(world)?;
    world.rest(STILL);
    let still = server(world)?;
    let memory = memory(&stubs)?;
    let begun = Timestamp::now();
    let mut asked = world.bus.reboots();
    let next = waiting(world, &group)?;
    world.set_holder(&group, None, &next[..next.len().min(3)])?;
    let mut samples = Vec::new();
    for _ in 0..=HANDOVERS {
        asked = pass(world, &group, &mut stubs, asked)?;
        samples.push((world.bed.stub_bytes()?, server(world)?.cpu));
    }
    // The last give-up has a taker too.
    world.until("the last hand-over", || Ok(world.holder(&group)?.is_some()))?;
    let handovers = handovers(&world.since(DAEMON, begun)?, &group, &samples);
    drop(stubs);
    remove(world, &names)?;
    let each = |pick: fn(&Handover) -> f64| handovers.iter().map(pick).collect::<Vec<_>>();
    let name = |what: &str| format!("{waiters} waiters: {what}");
    Ok(vec![
        Figure::of(
            name("slot given up to the next Lease"),
            "s",
            each(|one| one.seconds),
        ),
        Figure::of(
            name("requests per hand-over, all nodes"),
            "",
            each(|one| one.requests),
        )
        .note(format!(
            "a whole cycle of one node, its restart in it; besides that watches opened: {:?}",
            each(|one| one.watches)
        )),
        Figure::of(
            name("bytes per hand-over, all nodes"),
            "kB",
            each(|one| one.kilobytes),
        )
        .note("on the wire, both ways, TLS and TCP in it"),
        Figure::of(
            name("API server's CPU per hand-over"),
            "s",
            each(|one| one.cpu),
        ),
        Figure::of(
            name("API server's CPU while all wait"),
            "%",
            vec![(still.cpu - all.cpu) / STILL.as_secs_f64() * 100.0],
        ),
        Figure::of(
            name("API server's memory per waiter"),
            "kB",
            vec![(still.resident - before.resident) / count(waiters) / 1e3],
        ),
        Figure::of(name("memory of a waiter"), "MB", memory),
    ])
}

/// Nodes that kwok plays and that want a reboot.
fn make(world: &World, names: &[String]) -> Result<()> {
    let api: Api<Node> = Api::all(world.client.clone());
    world.runtime.block_on(async {
        stream::iter(names)
            .map(|name| {
                let api = api.clone();
                async move {
                    let (key, value) = Bed::PLAYED;
                    let node: Node = serde_json::from_value(json!({"metadata": {"name": name,
                        "labels": {key: value}, "annotations": {"kube-rebootd/reboot": "bench"}}}))?;
                    api.create(&PostParams::default(), &node).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
    })?;
    let prefix = names
        .first()
        .and_then(|name| name.rsplit_once('-'))
        .map_or("", |(prefix, _)| prefix);
    let ready = |node: &Node| {
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        let ready = |c: &NodeCondition| c.type_ == "Ready" && c.status == "True";
        node.name_any().starts_with(&format!("{prefix}-"))
            && conditions.unwrap_or_default().iter().any(ready)
    };
    world.until("the nodes to be Ready", || {
        world.rest(Duration::from_millis(500));
        let list = world.runtime.block_on(api.list(&ListParams::default()))?;
        Ok(list.items.iter().filter(|node| ready(node)).count() == names.len())
    })
}

/// Starts a daemon for each and waits until all wait.
fn start(world: &World, group: &str, names: &[String]) -> Result<Vec<Stub>> {
    let config = format!(
        "[coordination]\ngroup = \"{group}\"\n[triggers]\nsentinels = []\n[reboot]\nmax_per_day = 100\n"
    );
    let mut stubs = Vec::new();
    for batch in names.chunks(BATCH) {
        for name in batch {
            let mut stub = Stub::new(
                &world.bed,
                name,
                &world.binary,
                &world.bus.address(),
                &config,
            )?;
            stub.start()?;
            stubs.push(stub);
        }
        let wanted = stubs.len();
        let last = stubs.last().map(Stub::log);
        world
            .until("all of them to wait", || {
                Ok(waiting(world, group)?.len() >= wanted)
            })
            .with_context(|| format!("the last says {last:?}"))?;
    }
    Ok(stubs)
}

/// The waiters of a group, longest-waiting first.
fn waiting(world: &World, group: &str) -> Result<Vec<String>> {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    let params = ListParams::default().labels(&format!("kube-rebootd/waiting={group}"));
    let mut list = world.runtime.block_on(api.list_metadata(&params))?.items;
    list.sort_by_key(|lease| lease.annotations().get("kube-rebootd/since").cloned());
    Ok(list.iter().map(ResourceExt::name_any).collect())
}

/// The holder asks for its reboot, comes back and gives the slot up; how many reboots were asked for then.
fn pass(world: &World, group: &str, stubs: &mut [Stub], asked: usize) -> Result<usize> {
    let mut holder = None;
    world.until("the next holder", || {
        holder = world.holder(group)?;
        Ok(holder.is_some())
    })?;
    let stub = stubs
        .iter_mut()
        .find(|stub| Some(stub.name()) == holder.as_deref());
    let stub = stub.context("a stranger holds the slot")?;
    world.reboot_asked(asked, stub)?;
    let asked = world.bus.reboots();
    world.come_back(stub, group)?;
    Ok(asked)
}

/// From one give-up to the next, by the audit log; bytes and CPU as they were sampled meanwhile.
fn handovers(requests: &[Request], group: &str, samples: &[(u64, f64)]) -> Vec<Handover> {
    let writes: Vec<&Request> = requests.iter().filter(|one| is_slot(one, group)).collect();
    let gave: Vec<Timestamp> = writes
        .iter()
        .filter(|one| !holds(one))
        .map(|one| one.done)
        .collect();
    let window = |from: Timestamp, to: Timestamp, watch: bool| {
        let within = |one: &&Request| one.at >= from && one.at < to;
        let kind = |one: &&Request| (one.verb == "watch") == watch;
        count(requests.iter().filter(within).filter(kind).count())
    };
    gave.windows(2)
        .zip(samples.windows(2))
        .filter_map(|(gave, samples)| {
            let took = writes.iter().find(|one| holds(one) && one.done > gave[0])?;
            #[allow(clippy::cast_precision_loss)] // megabytes
            let kilobytes = samples[1].0.saturating_sub(samples[0].0) as f64 / 1e3;
            Some(Handover {
                seconds: seconds(gave[0], took.done),
                requests: window(gave[0], gave[1], false),
                watches: window(gave[0], gave[1], true),
                kilobytes,
                cpu: samples[1].1 - samples[0].1,
            })
        })
        .collect()
}

/// A write of this group's slot that was done.
fn is_slot(request: &Request, group: &str) -> bool {
    let label = |body: &Value| body["metadata"]["labels"]["kube-rebootd/group"] == *group;
    request.namespace == NAMESPACE
        && request.resource == "leases"
        && request.verb == "patch"
        && request.code == 200
        && request.response.as_deref().is_some_and(label)
}

fn holds(request: &Request) -> bool {
    let holder = |body: &Value| {
        body["spec"]["holderIdentity"]
            .as_str()
            .is_some_and(|h| !h.is_empty())
    };
    request.response.as_deref().is_some_and(holder)
}

/// Resident memory of up to so many daemons.
fn memory(stubs: &[Stub]) -> Result<Vec<f64>> {
    let pids = stubs.iter().take(20).filter_map(Stub::pid);
    pids.map(|pid| Ok(Look::at(pid)?.resident)).collect()
}

pub(crate) fn server(world: &World) -> Result<Server> {
    let text = world.bed.kubectl(&["get", "--raw", "/metrics"])?;
    let value = |name: &str| -> Result<f64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line
            .with_context(|| format!("the API server has no {name}"))?
            .parse()?)
    };
    Ok(Server {
        cpu: value("process_cpu_seconds_total")?,
        resident: value("process_resident_memory_bytes")?,
    })
}

fn remove(world: &World, names: &[String]) -> Result<()> {
    let api: Api<Node> = Api::all(world.client.clone());
    world.runtime.block_on(async {
        stream::iter(names)
            .map(|name| {
                let api = api.clone();
                async move { api.delete(name, &DeleteParams::default()).await.map(drop) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
    })?;
    Ok(())
}
