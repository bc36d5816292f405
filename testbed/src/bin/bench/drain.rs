//! Row 1: many pods leave one node, by the daemon, by `kubectl drain`, and by a loop that asks far too
//! often, which tells how fast the cluster itself can be.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use testbed::{Bed, Request, Stub};

use crate::figures::{Figure, Goal, median};
use crate::process::Look;
use crate::world::{DAEMON, World, count, seconds};

/// The node that is drained, and the one where its pods go.
const DRAINED: &str = "drained";
const SPARE: &str = "spare";
const LOAD: &str = "load";
/// Deployments of the load: the budgets are theirs.
const DEPLOYMENTS: usize = 10;
/// Between two tries of the loop that tells the floor.
const FLOOR: Duration = Duration::from_millis(100);

const CONFIG: &str = "[reboot]\nmax_per_day = 100\n[triggers]\nperiod = \"1s\"\n";

/// One drain.
struct Drained {
    seconds: f64,
    /// Requests about pods: evictions, lists, watches, reads.
    requests: usize,
    refused: usize,
}

impl Drained {
    fn of(seconds: f64, requests: &[Request]) -> Self {
        let pods = requests
            .iter()
            .filter(|one| one.resource.starts_with("pods") && !one.uri.contains("dryRun="));
        let refused = |one: &&Request| one.resource == "pods/eviction" && one.code == 429;
        Self {
            seconds,
            requests: pods.clone().count(),
            refused: pods.filter(refused).count(),
        }
    }
}

/// A load on its node, and who drains it.
struct Load<'a> {
    world: &'a World,
    stub: Stub,
    runs: usize,
}

/// The figures of row 1.
pub(crate) fn measure(world: &World, large: bool) -> Result<Vec<Figure>> {
    let mut load = Load::new(world)?;
    load.deploy(110, false)?;
    let (ours, kubectl) = (
        load.repeat(Load::daemon, world.runs)?,
        load.repeat(Load::kubectl, 2)?,
    );
    let mut figures = pair("110 pods", &ours, &kubectl);
    figures[0] = figures[0].clone().goal(Goal::AtMost(115.0));
    figures.push(
        Figure::of(
            "110 pods: kubectl's time by ours",
            "times",
            vec![median(&times(&kubectl)) / median(&times(&ours))],
        )
        .goal(Goal::AtLeast(8.0)),
    );
    load.deploy(110, true)?;
    let runs = world.runs.min(3);
    let ours = load.repeat(Load::daemon, runs)?;
    let floor = load.repeat(Load::floor, 2)?;
    let kubectl = load.repeat(Load::kubectl, 2)?;
    figures.extend(budgets(&ours, &floor, &kubectl));
    if large {
        load.deploy(500, false)?;
        let ours = load.repeat(Load::daemon, 2)?;
        let kubectl = load.repeat(Load::kubectl, 1)?;
        figures.extend(pair("500 pods", &ours, &kubectl));
    }
    figures.push(load.memory()?);
    load.remove()?;
    Ok(figures)
}

fn times(runs: &[Drained]) -> Vec<f64> {
    runs.iter().map(|run| run.seconds).collect()
}

fn pair(what: &str, ours: &[Drained], kubectl: &[Drained]) -> Vec<Figure> {
    let requests = |runs: &[Drained]| runs.iter().map(|run| count(run.requests)).collect();
    vec![
        Figure::of(format!("{what}: requests about pods"), "", requests(ours)),
        Figure::of(
            format!("{what}: requests, kubectl drain"),
            "",
            requests(kubectl),
        ),
        Figure::of(format!("{what}: cordon to asking logind"), "s", times(ours)),
        Figure::of(format!("{what}: kubectl drain"), "s", times(kubectl)),
    ]
}

fn budgets(ours: &[Drained], floor: &[Drained], kubectl: &[Drained]) -> Vec<Figure> {
    let refused = |runs: &[Drained]| runs.iter().map(|run| count(run.refused)).collect();
    let mut figures = pair("110 pods, 10 budgets of 1", ours, kubectl);
    let least = median(&times(floor));
    figures[2] = figures[2]
        .clone()
        .goal(Goal::AtMost(median(&times(kubectl))));
    figures.extend([
        Figure::of("... the floor: asked every 0.1 s", "s", times(floor)),
        Figure::of(
            "... our time by the floor",
            "times",
            vec![median(&times(ours)) / least],
        )
        .goal(Goal::AtMost(1.5)),
        Figure::of("... refused evictions", "", refused(ours)).goal(Goal::AtMost(60.0)),
        Figure::of("... refused evictions, kubectl drain", "", refused(kubectl)),
        Figure::of("... refused evictions, floor", "", refused(floor)),
    ]);
    figures
}

impl<'a> Load<'a> {
    fn new(world: &'a World) -> Result<Self> {
        let nodes = [Bed::played_node(DRAINED), Bed::played_node(SPARE)].concat();
        world.bed.apply(&nodes)?;
        world.bed.kubectl(&["create", "namespace", LOAD])?;
        for node in [DRAINED, SPARE] {
            world.bed.wait_ready(node)?;
        }
        let mut stub = Stub::new(
            &world.bed,
            DRAINED,
            &world.binary,
            &world.bus.address(),
            CONFIG,
        )?;
        stub.start()?;
        Ok(Self {
            world,
            stub,
            runs: 0,
        })
    }

    /// Deployments of together `pods` pods.
    fn deploy(&self, pods: usize, budgets: bool) -> Result<()> {
        let bed = &self.world.bed;
        bed.kubectl(&[
            "-n",
            LOAD,
            "delete",
            "deployment,pdb",
            "--all",
            "--wait=true",
        ])?;
        self.world
            .until("the last load to go", || Ok(self.pods("")?.is_empty()))?;
        bed.kubectl(&["cordon", SPARE])?;
        let mut text = String::new();
        for number in 0..DEPLOYMENTS {
            let replicas = pods / DEPLOYMENTS;
            let _ = write!(text, "---\n{}", deployment(number, replicas));
            if budgets {
                let _ = write!(text, "---\n{}", budget(number));
            }
        }
        bed.apply(&text)
    }

    fn pods(&self, fields: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.world.client.clone(), LOAD);
        let params = ListParams::default().fields(fields);
        Ok(self.world.runtime.block_on(api.list(&params))?.items)
    }

    /// All pods run on the node to be drained, budgets allow one each, and there is room elsewhere.
    fn fill(&self) -> Result<()> {
        let bed = &self.world.bed;
        bed.kubectl(&["uncordon", DRAINED])?;
        bed.kubectl(&["cordon", SPARE])?;
        let away = format!("--field-selector=spec.nodeName={SPARE}");
        bed.kubectl(&["-n", LOAD, "delete", "pods", &away, "--wait=false"])?;
        let names = bed.kubectl(&[
            "-n",
            LOAD,
            "get",
            "deployment",
            "-o",
            "jsonpath={.items[*].spec.replicas}",
        ])?;
        let wanted: usize = names
            .split_whitespace()
            .filter_map(|n| n.parse::<usize>().ok())
            .sum();
        self.world.until("the load to be in place", || {
            let pods = self.pods("")?;
            Ok(pods.len() == wanted && pods.iter().all(ready_here))
        })?;
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.world.client.clone(), LOAD);
        self.world.until("the budgets to allow one each", || {
            let list = self
                .world
                .runtime
                .block_on(api.list(&ListParams::default()))?;
            Ok(list.items.iter().all(|budget| {
                budget.status.as_ref().is_some_and(|status| {
                    status.disruptions_allowed == 1
                        && status.current_healthy == status.expected_pods
                })
            }))
        })?;
        bed.kubectl(&["uncordon", SPARE])?;
        Ok(())
    }

    fn repeat(
        &mut self,
        drain: fn(&mut Self) -> Result<Drained>,
        runs: usize,
    ) -> Result<Vec<Drained>> {
        (0..runs)
            .map(|_| {
                self.fill()?;
                self.runs += 1;
                drain(self)
            })
            .collect()
    }

    /// From the cordon until logind is asked: the pods are gone by a consistent list, and the intent is
    /// on disk and on the Node.
    fn daemon(&mut self) -> Result<Drained> {
        let (world, since, before) = (self.world, Timestamp::now(), self.world.bus.reboots());
        self.stub.require(&format!("run-{}", self.runs))?;
        let asked = world.reboot_asked(before, &self.stub)?;
        let requests = world.since(DAEMON, since)?;
        let cordon = requests.iter().find(|one| {
            let cordons = |body: &serde_json::Value| body["spec"]["unschedulable"] == true;
            one.resource == "nodes" && one.request.as_deref().is_some_and(cordons)
        });
        let cordon = cordon.context("the audit log shows no cordon")?.at;
        world.come_back(&mut self.stub, "default")?;
        Ok(Drained::of(seconds(cordon, asked), &requests))
    }

    fn kubectl(&mut self) -> Result<Drained> {
        let (begun, since) = (Instant::now(), Timestamp::now());
        self.world
            .bed
            .kubectl(&["drain", DRAINED, "--timeout=300s"])?;
        let took = begun.elapsed().as_secs_f64();
        Ok(Drained::of(took, &self.world.since("kubectl/", since)?))
    }

    /// One Deployment's pods one after another, all Deployments at once, asked again every 0.1 s.
    fn floor(&mut self) -> Result<Drained> {
        let world = self.world;
        world.bed.kubectl(&["cordon", DRAINED])?;
        let pods = self.pods("")?;
        let begun = Instant::now();
        let refused = world.runtime.block_on(async {
            let rows = (0..DEPLOYMENTS).map(|number| {
                let label = format!("load-{number}");
                let names = pods
                    .iter()
                    .filter(|pod| pod.labels().get("app") == Some(&label));
                evict_all(
                    world.client.clone(),
                    names.map(ResourceExt::name_any).collect(),
                )
            });
            futures_util::future::join_all(rows).await
        });
        let on = format!("spec.nodeName={DRAINED}");
        world.until("the last pod to go", || Ok(self.pods(&on)?.is_empty()))?;
        let refused = refused.into_iter().sum::<Result<usize>>()?;
        Ok(Drained {
            seconds: begun.elapsed().as_secs_f64(),
            requests: pods.len() + refused,
            refused,
        })
    }

    /// What the drains made of the daemon's memory; it began anew with each boot.
    fn memory(&mut self) -> Result<Figure> {
        self.fill()?;
        self.runs += 1;
        let before = self.world.bus.reboots();
        self.stub.require(&format!("run-{}", self.runs))?;
        self.world.reboot_asked(before, &self.stub)?;
        let look = Look::at(self.stub.pid().context("the daemon runs")?)?;
        let left = self.pods("")?.len();
        self.world.come_back(&mut self.stub, "default")?;
        Ok(Figure::of(
            format!("resident memory after a drain of {left} pods"),
            "MB",
            vec![look.resident],
        )
        .note(format!("the most it was: {:.1} MB", look.peak)))
    }

    fn remove(self) -> Result<()> {
        let bed = &self.world.bed;
        bed.kubectl(&["delete", "namespace", LOAD, "--wait=false"])?;
        drop(self.stub);
        bed.kubectl(&["delete", "node", DRAINED, SPARE])?;
        Ok(())
    }
}

/// How often it was refused.
async fn evict_all(client: Client, pods: Vec<String>) -> Result<usize> {
    let mut refused = 0;
    for name in pods {
        loop {
            let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": LOAD}});
            let request =
                http::Request::post(format!("/api/v1/namespaces/{LOAD}/pods/{name}/eviction"))
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(body.to_string().into_bytes())?;
            match client.request_text(request).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 429 => refused += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                Err(err) => bail!("cannot evict {name}: {err}"),
            }
            tokio::time::sleep(FLOOR).await;
        }
    }
    Ok(refused)
}

fn ready_here(pod: &Pod) -> bool {
    let here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(DRAINED);
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = conditions
        .unwrap_or_default()
        .iter()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    here && ready && pod.metadata.deletion_timestamp.is_none()
}

fn deployment(number: usize, replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: load-{number}, namespace: {LOAD}}}\n\
         spec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: load-{number}}}}}\n  template:\n    \
         metadata: {{labels: {{app: load-{number}}}}}\n    spec:\n      \
         affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [\
         {{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{DRAINED}, {SPARE}]}}]}}]}}}}}}\n      \
         containers: [{{name: c, image: none}}]\n"
    )
}

fn budget(number: usize) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: load-{number}, namespace: {LOAD}}}\n\
         spec:\n  maxUnavailable: 1\n  selector: {{matchLabels: {{app: load-{number}}}}}\n"
    )
}
