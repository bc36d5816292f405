//! etcd, the API server, the controllers and the scheduler of one bed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bed::Bed;
use crate::certs::{Authority, SERVER};

/// Bodies of what tests follow (holders, cordons, evictions), one line for everything else.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  namespaces: [kube-rebootd]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [nodes, pods/eviction]}]
- level: Metadata
"#;

const ETCD: &str = "http://127.0.0.1:2379";

/// Starts all four and waits until they answer.
pub(crate) fn up(bed: &Bed) -> Result<()> {
    let pki = bed.path("pki");
    let authority = Authority::make(&pki)?;
    authority.client("admin", "admin", "system:masters")?;
    authority.client("controllers", "system:kube-controller-manager", "")?;
    authority.client("scheduler", "system:kube-scheduler", "")?;
    for name in ["admin", "controllers", "scheduler"] {
        write_kubeconfig(&pki, name)?;
    }
    fs::write(bed.path("audit-policy.yaml"), AUDIT_POLICY)?;
    bed.spawn("etcd", &["etcd"], &etcd(bed))?;
    api_server(bed)?;
    controllers(bed)
}

/// The host that may prove itself by [`TOKEN`] as well.
pub const TOKEN_HOST: &str = "tokened";
/// Its token.
pub const TOKEN: &str = "the-token-of-tokened";

fn write_kubeconfig(pki: &Path, name: &str) -> Result<()> {
    let file = |name: &str| pki.join(name).display().to_string();
    let text = Authority::kubeconfig(
        name,
        &file("ca.crt"),
        &file(&format!("{name}.crt")),
        &file(&format!("{name}.key")),
    );
    fs::write(pki.join(format!("{name}.kubeconfig")), text)?;
    Ok(())
}

fn etcd(bed: &Bed) -> Vec<String> {
    vec![
        format!("--data-dir={}", bed.path("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-cluster=default=http://127.0.0.1:2380".to_owned(),
    ]
}

/// The server reads it once: the one host whose kubelet may also show a token is named beforehand.
fn tokens(bed: &Bed) -> Result<String> {
    let file = bed.path("pki").join("tokens");
    let line = format!("{TOKEN},system:node:{TOKEN_HOST},{TOKEN_HOST},system:nodes\n");
    fs::write(&file, line).context("cannot write the bed's token")?;
    Ok(file.display().to_string())
}

/// Starts the API server alone (again) and waits until it is ready.
pub(crate) fn api_server(bed: &Bed) -> Result<()> {
    let pki = |file: &str| bed.path("pki").join(file).display().to_string();
    let args = vec![
        format!("--etcd-servers={ETCD}"),
        format!("--advertise-address={SERVER}"),
        "--secure-port=6443".to_owned(),
        format!("--tls-cert-file={}", pki("server.crt")),
        format!("--tls-private-key-file={}", pki("server.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--token-auth-file={}", tokens(bed)?),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki("service-accounts.pub")),
        format!(
            "--service-account-signing-key-file={}",
            pki("service-accounts.key")
        ),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!(
            "--audit-policy-file={}",
            bed.path("audit-policy.yaml").display()
        ),
        format!("--audit-log-path={}", bed.path("audit.log").display()),
        "--audit-log-mode=blocking".to_owned(),
        // MB: never rotated, as what was rotated away would be judged by nobody.
        "--audit-log-maxsize=100000".to_owned(),
        // Nothing a bed does should wait for the throttling of a busy cluster.
        "--max-requests-inflight=2000".to_owned(),
        "--v=1".to_owned(),
    ];
    bed.spawn("kube-apiserver", &["kube-apiserver"], &args)?;
    bed.wait_for(
        "the API server to be ready",
        Duration::from_secs(90),
        || {
            Ok(bed
                .kubectl(&["get", "--raw", "/readyz"])
                .is_ok_and(|said| said == "ok"))
        },
    )
    .with_context(|| bed.log_tail("kube-apiserver"))
}

fn controllers(bed: &Bed) -> Result<()> {
    let pki = |file: &str| bed.path("pki").join(file).display().to_string();
    let manager = vec![
        format!("--kubeconfig={}", pki("controllers.kubeconfig")),
        "--use-service-account-credentials".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            pki("service-accounts.key")
        ),
        format!("--root-ca-file={}", pki("ca.crt")),
        "--leader-elect=false".to_owned(),
    ];
    bed.spawn(
        "kube-controller-manager",
        &["kube-controller-manager"],
        &manager,
    )?;
    let scheduler = vec![
        format!("--kubeconfig={}", pki("scheduler.kubeconfig")),
        "--leader-elect=false".to_owned(),
    ];
    bed.spawn("kube-scheduler", &["kube-scheduler"], &scheduler)?;
    bed.wait_for("the controllers to work", Duration::from_secs(60), || {
        Ok(bed
            .kubectl(&["-n", "default", "get", "serviceaccount", "default"])
            .is_ok())
    })
    .with_context(|| bed.log_tail("kube-controller-manager"))
}
