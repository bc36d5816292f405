//! Row 5: what the policy on Nodes costs the API server for each status that a kubelet writes, with the
//! policy and without it in turn, on one server in one run.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::figures::Figure;
use crate::waiters::server;
use crate::world::World;

const NODE: &str = "statuses";
const BINDING: &str = "kube-rebootd-node-marks";
/// Statuses in one go: at some milliseconds each, the server's own clock ticks of 10 ms do not matter.
const STATUSES: usize = 500;
/// Goes with and without the policy, in turn.
const ROUNDS: usize = 6;
/// As many as a kubelet reports (`nodeStatusMaxImages`).
const IMAGES: usize = 50;

/// What one status cost.
struct Cost {
    /// CPU of the API server, milliseconds.
    cpu: f64,
    /// Until the answer, milliseconds.
    answer: f64,
}

/// The figures of row 5.
pub(crate) fn measure(world: &World) -> Result<Vec<Figure>> {
    let admin: Api<Node> = Api::all(world.client.clone());
    let node: Node = serde_json::from_value(node())?;
    world
        .runtime
        .block_on(admin.create(&PostParams::default(), &node))?;
    let kubeconfig = world.bed.node_kubeconfig(NODE)?;
    let kubelet = world.runtime.block_on(world.bed.client(&kubeconfig))?;
    let mut figures = Vec::new();
    for (who, client) in [
        ("a kubelet's status", &kubelet),
        ("another's status, of a network plugin", &world.client),
    ] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bind(world, &kubelet, true)?;
            with.push(go(world, client)?);
            bind(world, &kubelet, false)?;
            without.push(go(world, client)?);
        }
        // Neighbours in time, so that a machine that grows busier does not count as the policy.
        let more = |pick: fn(&Cost) -> f64| {
            let pairs = with.iter().zip(&without);
            pairs
                .map(|(with, without)| pick(with) - pick(without))
                .collect()
        };
        let of = |costs: &[Cost], pick: fn(&Cost) -> f64| costs.iter().map(pick).collect();
        let (cpu, answer) = (|cost: &Cost| cost.cpu, |cost: &Cost| cost.answer);
        figures.extend([
            Figure::of(format!("{who}: API server's CPU"), "ms", of(&with, cpu)),
            Figure::of("... without the policy", "ms", of(&without, cpu)),
            Figure::of("... the policy's part", "ms", more(cpu)),
            Figure::of(format!("{who}: until the answer"), "ms", of(&with, answer)),
            Figure::of("... without the policy", "ms", of(&without, answer)),
        ]);
    }
    bind(world, &kubelet, true)?;
    world
        .runtime
        .block_on(admin.delete(NODE, &DeleteParams::default()))?;
    Ok(figures)
}

/// A Node as large as those of life: images, labels, annotations, volumes.
fn node() -> Value {
    let many =
        |count: usize, value: &dyn Fn(usize) -> Value| (0..count).map(value).collect::<Vec<_>>();
    let pairs = |count: usize, prefix: &str| {
        let pair = |number| {
            (
                format!("{prefix}/key-{number}"),
                json!("a-value-of-some-length"),
            )
        };
        (0..count).map(pair).collect::<serde_json::Map<_, _>>()
    };
    let image = |number: usize| {
        json!({"names": [format!("registry.example.com/project/image-{number}@sha256:{:064}", number),
            format!("registry.example.com/project/image-{number}:v1.{number}.0")], "sizeBytes": 100_000_000})
    };
    let volume = |number: usize| json!(format!("kubernetes.io/csi/example^volume-{number}"));
    json!({
        "metadata": {"name": NODE, "labels": pairs(25, "example.com"),
            "annotations": pairs(15, "example.com")},
        "status": {
            "images": many(IMAGES, &image),
            "volumesInUse": many(10, &volume),
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        },
    })
}

/// Puts the policy in force or out of it, and waits until the server goes by that.
fn bind(world: &World, kubelet: &Client, bound: bool) -> Result<()> {
    if bound {
        let text = format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
             metadata: {{name: {BINDING}}}\nspec: {{policyName: {BINDING}, validationActions: [Deny]}}\n"
        );
        world.bed.apply(&text)?;
    } else {
        let kind = "validatingadmissionpolicybinding";
        world.bed.kubectl(&["delete", kind, BINDING])?;
    }
    let api: Api<Node> = Api::all(kubelet.clone());
    let probe = Patch::Merge(json!({"metadata": {"annotations": {"kube-rebootd/probe": "bench"}}}));
    let params = PatchParams::default().dry_run();
    world.until("the policy to be as wanted", || {
        let tried = api.patch_metadata(NODE, &params, &probe);
        match world.runtime.block_on(tried) {
            Ok(_) => Ok(!bound),
            Err(Error::Api(status)) if status.code == 422 => Ok(bound),
            Err(err) => bail!("the probe of the policy: {err}"),
        }
    })
}

/// Writes statuses one after another, as a kubelet does: a strategic merge patch of its conditions.
fn go(world: &World, client: &Client) -> Result<Cost> {
    let api: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    let before = server(world)?;
    let begun = Instant::now();
    for number in 0..STATUSES {
        let beat = format!(
            "2026-01-01T{:02}:{:02}:{:02}Z",
            number / 3600,
            number / 60 % 60,
            number % 60
        );
        let patch = Patch::Strategic(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": beat,
                "message": format!("status {number} of {begun:?}")},
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": beat},
            {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": beat},
            {"type": "PIDPressure", "status": "False", "lastHeartbeatTime": beat}]}}));
        let written = api.patch_status(NODE, &params, &patch);
        world.runtime.block_on(written)?;
    }
    let took = begun.elapsed();
    let after = server(world)?;
    #[allow(clippy::cast_precision_loss)] // hundreds
    let statuses = STATUSES as f64;
    Ok(Cost {
        cpu: (after.cpu - before.cpu) * 1e3 / statuses,
        answer: Duration::as_secs_f64(&took) * 1e3 / statuses,
    })
}
