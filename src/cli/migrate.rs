//! `kube-rebootd migrate kured`: the manifest is read from a file or asked of the API server; what becomes of it says
//! `kube_rebootd_core::migrate`.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use k8s_openapi::api::apps::v1::DaemonSet as Full;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use kube_rebootd_core::config::is_dns_label;
use kube_rebootd_core::migrate::{self, Found};
use kube_rebootd_core::text::printable;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::identity::Identity;
use super::{Cluster, access, complain, exit, print};
use crate::bounded::{self, ReadError};
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean::Lean;
use crate::root::Root;

/// Bytes of a manifest: all that a Helm chart renders takes less.
const LARGEST: u64 = 4 * 1024 * 1024;
/// DaemonSets in one answer.
const PAGE: u32 = 500;
/// Where kured is by its manifests and by its documentation: a host's own credential may read DaemonSets, but not list them.
const USUAL: (&str, &str) = ("kube-system", "kured");

/// A DaemonSet, of which the core looks at what it knows.
type Object = Lean<Full, Value, IgnoredAny>;

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
enum ManifestError {
    #[error("cannot read {0}: {1}")]
    Read(String, ReadError),
    #[error(
        "{0} is neither YAML nor JSON: {1}; a template is rendered first: helm template, or helm get manifest"
    )]
    Syntax(String, String),
}

/// Prints the configuration on stdout, and on stderr what to do; `manifest` is a file, or `-` for stdin.
pub fn kured(
    root: &Root,
    config: Option<&Path>,
    manifest: Option<&Path>,
    cluster: &Cluster,
) -> ExitCode {
    let Some(manifest) = manifest else {
        return access::with_daemon_sets(root, config, cluster, |found, namespace| {
            told(&found, namespace, "the cluster")
        });
    };
    let found = text(manifest).and_then(|text| documents(manifest, &text));
    match found {
        Ok(documents) => {
            let namespace = access::some_namespace(root, config, cluster);
            told(&Found::of(&documents), &namespace, &name(manifest))
        }
        Err(error) => {
            complain(&error);
            ExitCode::from(exit::FAILED)
        }
    }
}

/// What messages call it.
fn name(manifest: &Path) -> String {
    match manifest.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => manifest.display().to_string(),
    }
}

fn text(manifest: &Path) -> Result<String, ManifestError> {
    let read = if manifest == Path::new("-") {
        let mut bytes = Vec::new();
        let all = std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes);
        match all {
            Err(error) => Err(error.into()),
            Ok(_) if bytes.len() as u64 > LARGEST => Err(ReadError::Larger(LARGEST)),
            Ok(_) => {
                String::from_utf8(bytes).map_err(|error| ReadError::NotText(error.utf8_error()))
            }
        }
    } else {
        bounded::text(manifest, LARGEST)
    };
    read.map_err(|error| ManifestError::Read(name(manifest), error))
}

/// JSON is YAML as well.
fn documents(manifest: &Path, text: &str) -> Result<Vec<Value>, ManifestError> {
    serde_saphyr::from_multiple(text).map_err(|error| {
        // Its page of text around the place is for a compiler.
        let words = error.to_string();
        let first = words.lines().next().unwrap_or_default().to_owned();
        ManifestError::Syntax(name(manifest), first)
    })
}

/// Those of the cluster: all of them as a person, as a host the one at the usual place.
pub(super) async fn daemon_sets(identity: Identity) -> Result<Found, ApiError> {
    let objects = match identity {
        Identity::Person(admin) => listed(&admin.client).await?,
        Identity::Host { coordinator, .. } => {
            let (namespace, name) = USUAL;
            let api: Api<Object> = Api::namespaced(coordinator, namespace);
            let what = format!("get DaemonSet {namespace}/{name}");
            match call(&what, CALL, api.get(name)).await {
                Ok(object) => vec![object],
                Err(ApiError::Gone { .. }) => Vec::new(),
                Err(error) => return Err(error),
            }
        }
    };
    let documents: Vec<Value> = objects.iter().map(document).collect();
    Ok(Found::of(&documents))
}

async fn listed(client: &Client) -> Result<Vec<Object>, ApiError> {
    let api: Api<Object> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = call("list DaemonSets", CALL, api.list(&params)).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

fn document(object: &Object) -> Value {
    json!({"kind": "DaemonSet", "spec": object.spec,
        "metadata": {"name": object.name_any(), "namespace": object.namespace()}})
}

/// One is migrated; of none or several it is said what there is.
fn told(found: &Found, namespace: &str, place: &str) -> ExitCode {
    let set = match &found.kured[..] {
        [set] => set,
        [] => {
            complain(&none(found, place));
            return ExitCode::from(exit::FAILED);
        }
        several => {
            let names: Vec<String> = several.iter().map(migrate::DaemonSet::path).collect();
            complain(&format!(
                "{place} has several DaemonSets of kured: {}; migrate one after the other: kubectl -n NAMESPACE get daemonset NAME -o yaml | kube-rebootd migrate \
                 kured --manifest -",
                names.join(", ")
            ));
            return ExitCode::from(exit::USAGE);
        }
    };
    if !is_dns_label(namespace) {
        complain(&format!("{namespace:?} is no name of a namespace"));
        return ExitCode::from(exit::USAGE);
    }
    let migration = migrate::kured(set, namespace);
    if let Err(error) = migration.check() {
        complain(&format!(
            "this is a fault of kube-rebootd, please report it with the manifest: {error}"
        ));
        return ExitCode::from(exit::FAILED);
    }
    print(&migration.config);
    for words in &migration.odd {
        complain(&format!("not understood: {words}"));
    }
    for words in &migration.todo {
        say(&format!("To be done by hand: {words}\n"));
    }
    say(&migration.hand_over);
    if migration.odd.is_empty() {
        return ExitCode::SUCCESS;
    }
    complain(
        &"the configuration has mode = \"observe\", as not all was understood: with it nothing is rebooted",
    );
    ExitCode::from(exit::CONFIGURATION)
}

fn none(found: &Found, place: &str) -> String {
    if found.values {
        return format!(
            "{place} looks like values for kured's Helm chart, and holds no DaemonSet; render them first: helm template kured kubereboot/kured -f FILE | kube-rebootd \
             migrate kured --manifest -"
        );
    }
    let there = match &found.others[..] {
        [] => "nothing".to_owned(),
        others => others.join(", "),
    };
    format!(
        "{place} has no DaemonSet with a container of kured; there is {there}. kured is known by the name of its image or of its program. Name its manifest with \
         --manifest FILE"
    )
}

/// To people, beside what goes into a file.
fn say(text: &str) {
    // Nobody is left to tell when stderr is gone; the exit code stays.
    let _ = std::io::stderr().write_all(printable(text).as_bytes());
}

#[cfg(test)]
mod tests;
