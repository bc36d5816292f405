//! Evictions under budgets: pkg/registry/core/pod/storage/eviction.go, row by row.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Answer;
use super::request::Request;
use super::rules::{self, User};
use super::store::{Key, Store};

/// After so many entries the server refuses everything (eviction.go `MaxDisruptedPodSize`).
const DISRUPTED_MAX: usize = 2000;

pub(super) fn evict(store: &mut Store, user: &User, request: &Request) -> Answer {
    let (namespace, name) = (request.namespace.clone(), request.name.clone());
    let Some(pod) = store.get("pods", &namespace, &name) else {
        return Answer::not_found("pods", &name);
    };
    let pod = Arc::clone(&pod.body);
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if let Some(refused) = rules::restrict(user, request, &Value::Null, &pod, Some(node)) {
        return refused;
    }
    let ends = matches!(
        pod["status"]["phase"].as_str(),
        Some("Pending" | "Succeeded" | "Failed")
    ) || pod["metadata"].get("deletionTimestamp").is_some();
    let options = &request.body["deleteOptions"];
    let dry = dry_run(request);
    let ready = condition(&pod, "Ready");
    let budgets = if ends {
        Vec::new()
    } else {
        budgets(store, &pod)
    };
    if budgets.len() > 1 {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Answer::status(500, "", message);
    }
    if let Some((key, budget)) = budgets.into_iter().next() {
        let (status, always) = (
            &budget["status"],
            budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        );
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let healthy =
            number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        let free = !ready && (always || healthy);
        if !free && let Some(refused) = charge(store, &key, &budget, &pod, request) {
            return refused;
        }
    }
    // The budget is charged first (proved).
    if let Some(conflict) = another("pods", options, &pod) {
        return conflict;
    }
    if !dry {
        let grace = options["gracePeriodSeconds"].as_u64();
        let key = ("pods".to_owned(), namespace.clone(), name.clone());
        store.edit(&key, ("kube-apiserver", "status"), |pod| {
            let target = json!({"type": "DisruptionTarget", "status": "True",
                "reason": "EvictionByEvictionAPI"});
            match pod["status"]["conditions"].as_array_mut() {
                Some(all) if all.iter().all(|one| one["type"] != "DisruptionTarget") => {
                    all.push(target);
                }
                Some(_) => {}
                None => pod["status"]["conditions"] = json!([target]),
            }
        });
        store.end("pods", &namespace, &name, grace);
    }
    Answer::created(
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// The options of a deletion are about an object of another UID.
pub(super) fn another(resource: &str, options: &Value, object: &Value) -> Option<Answer> {
    let wanted = options["preconditions"]["uid"].as_str()?;
    let metadata = &object["metadata"];
    let [uid, name] = ["uid", "name"].map(|key| metadata[key].as_str().unwrap_or_default());
    let why =
        format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
    (uid != wanted).then(|| Answer::conflict(resource, name, &why))
}

/// Said in the query, or in the body (eviction.go `propagateDryRun`).
fn dry_run(request: &Request) -> bool {
    request.dry_run() || request.body["deleteOptions"]["dryRun"] == json!(["All"])
}

/// Takes one disruption from the budget, or says why there is none.
fn charge(
    store: &mut Store,
    key: &Key,
    budget: &Value,
    pod: &Value,
    request: &Request,
) -> Option<Answer> {
    let name = &key.2;
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(1) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Some(Answer::budget(&why, 10));
    }
    let allowed = number("disruptionsAllowed");
    let disrupted = status["disruptedPods"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    if allowed < 0 || disrupted > DISRUPTED_MAX {
        return Some(Answer::forbidden(
            "poddisruptionbudgets",
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    if allowed == 0 {
        let (wanted, has) = (number("desiredHealthy"), number("currentHealthy"));
        let why = format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {has} currently"
        );
        return Some(Answer::budget(&why, 0));
    }
    if !dry_run(request) {
        let (pod, at) = (pod["metadata"]["name"].clone(), store.now.to_string());
        store.edit(key, ("kube-apiserver", "status"), |budget| {
            let enough = allowed > 1;
            let (status, reason) = if enough { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            budget["status"]["conditions"] = json!([{"type": "DisruptionAllowed", "status": status,
                "reason": reason, "message": "", "observedGeneration": 1, "lastTransitionTime": at}]);
            budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
            budget["status"]["disruptedPods"][pod.as_str().unwrap_or_default()] = json!(at);
        });
    }
    None
}

pub(super) fn condition(pod: &Value, kind: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == kind && one["status"] == "True")
    })
}

/// The budgets of the namespace that select the pod.
fn budgets(store: &Store, pod: &Value) -> Vec<(Key, Arc<Value>)> {
    let namespace = &pod["metadata"]["namespace"];
    let labels = &pod["metadata"]["labels"];
    store
        .objects
        .range(
            (
                "poddisruptionbudgets".to_owned(),
                String::new(),
                String::new(),
            )..,
        )
        .take_while(|(key, _)| key.0 == "poddisruptionbudgets")
        .filter(|(key, _)| namespace.as_str() == Some(&key.1))
        .filter(|(_, budget)| selects(&budget.body, labels))
        .map(|(key, budget)| (key.clone(), Arc::clone(&budget.body)))
        .collect()
}

pub(super) fn selects(budget: &Value, labels: &Value) -> bool {
    let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
    wanted.is_some_and(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    })
}
