//! Disruption budgets over a run: watched, so that no state of theirs is missed between two looks (I9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::oneshot;

use crate::bed::Bed;

/// What became of one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// States that the disruption controller wrote and the watch showed.
    pub states: usize,
    /// Fewest healthy pods of any state.
    pub lowest: i32,
    /// Pods that must be healthy, in that state.
    pub desired: i32,
    /// Whether any state had fewer healthy pods than the budget demands.
    pub violated: bool,
}

type Record = Arc<Mutex<BTreeMap<String, Seen>>>;

/// A watch on every budget of the cluster, on a thread of its own.
#[derive(Debug)]
pub struct Watch {
    seen: Record,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Watch {
    /// Begins to watch.
    pub fn start(bed: &Bed) -> Result<Self> {
        let seen = Record::default();
        let (stop, stopped) = oneshot::channel();
        let (bed, record) = (bed.clone(), Arc::clone(&seen));
        let thread = thread::Builder::new()
            .name("budgets".to_owned())
            .spawn(move || {
                bed.enter()?;
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(watch(&bed, &record, stopped))
            })
            .context("cannot start a thread")?;
        Ok(Self { seen, stop, thread })
    }

    /// Ends the watch: what became of each budget, by `namespace/name`.
    pub fn finish(self) -> Result<BTreeMap<String, Seen>> {
        // The thread may have ended already: its error is told below.
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(done) => done.context("the watch on the budgets failed")?,
            Err(_) => bail!("the watch on the budgets panicked"),
        }
        Ok(locked(&self.seen).clone())
    }
}

fn locked(record: &Record) -> MutexGuard<'_, BTreeMap<String, Seen>> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch(bed: &Bed, record: &Record, mut stopped: oneshot::Receiver<()>) -> Result<()> {
    let api: Api<PodDisruptionBudget> = Api::all(bed.admin().await?);
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut stream = std::pin::pin!(stream);
    loop {
        let budget = tokio::select! {
            _ = &mut stopped => return Ok(()),
            budget = stream.next() => budget,
        };
        match budget {
            Some(Ok(budget)) => note(&mut locked(record), &budget),
            // It lists and watches again by itself.
            Some(Err(_)) => {}
            None => bail!("the watch ended"),
        }
    }
}

fn note(record: &mut BTreeMap<String, Seen>, budget: &PodDisruptionBudget) {
    let Some(status) = &budget.status else { return };
    // Not computed yet for what the budget says now.
    if status.observed_generation < budget.metadata.generation {
        return;
    }
    let (healthy, desired) = (status.current_healthy, status.desired_healthy);
    let name = format!(
        "{}/{}",
        budget.namespace().unwrap_or_default(),
        budget.name_any()
    );
    let seen = record.entry(name).or_insert(Seen {
        states: 0,
        lowest: healthy,
        desired,
        violated: false,
    });
    seen.states += 1;
    seen.violated |= healthy < desired;
    if healthy <= seen.lowest {
        (seen.lowest, seen.desired) = (healthy, desired);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(observed: i64, healthy: i32, desired: i32) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "demo", "generation": 2},
            "status": {"observedGeneration": observed, "currentHealthy": healthy,
                "desiredHealthy": desired, "disruptionsAllowed": 0, "expectedPods": 6},
        }))
        .unwrap()
    }

    #[test]
    fn i9_one_pod_too_few_in_any_state_is_a_violation() {
        let mut record = BTreeMap::new();
        for (healthy, violated) in [(6, false), (5, false), (6, false), (4, true), (6, true)] {
            note(&mut record, &budget(2, healthy, 5));
            assert_eq!(record["demo/web"].violated, violated, "{healthy}");
        }
        let seen = record["demo/web"];
        assert_eq!((seen.states, seen.lowest, seen.desired), (5, 4, 5));
    }

    #[test]
    fn what_the_controller_has_not_looked_at_says_nothing() {
        let mut record = BTreeMap::new();
        note(&mut record, &budget(1, 0, 5));
        assert!(record.is_empty());
    }
}
