//! How etcd, the API server, the controllers and the scheduler are started: beside the hosts of a bed, or on them.

/// Bodies of what tests follow (holders, cordons, evictions, deleted pods, and what budgets count), one line for everything else.
pub(crate) const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
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
- level: Request
  verbs: [delete]
  resources: [{group: "", resources: [pods]}]
- level: Request
  verbs: [update, patch]
  resources: [{group: "", resources: [pods/status, nodes/status]}, {group: policy, resources: [poddisruptionbudgets/status]}]
- level: Request
  verbs: [create, patch]
  namespaces: [default]
  resources: [{group: "", resources: [events]}]
- level: Metadata
"#;

/// The audit log of an API server that is on a host; a bed reads those of all its hosts.
pub(crate) const HOSTS_AUDIT_LOG: &str = "/var/lib/control-plane/audit.log";

/// Where API servers and other clients of this machine reach etcd.
pub(crate) const ETCD: &str = "http://127.0.0.1:2379";

/// Where the components find their files, and what they tell of themselves.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// Directory of certificates, keys and kubeconfigs.
    pub(crate) pki: String,
    pub(crate) audit_policy: String,
    pub(crate) audit_log: String,
    pub(crate) etcd_data: String,
    /// The address that others know it by.
    pub(crate) address: String,
    /// All members of etcd, `name=address of its peer port`, and which of them this is; none: it is alone.
    pub(crate) members: Option<(String, String)>,
}

impl Seat {
    fn pki(&self, file: &str) -> String {
        format!("{}/{file}", self.pki)
    }

    pub(crate) fn etcd(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--data-dir={}", self.etcd_data),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
            format!("--listen-client-urls={ETCD}"),
            format!("--advertise-client-urls={ETCD}"),
        ];
        match &self.members {
            None => flags.extend([
                "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
                "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
                "--initial-cluster=default=http://127.0.0.1:2380".to_owned(),
            ]),
            Some((own, all)) => flags.extend([
                format!("--name={own}"),
                format!("--listen-peer-urls=http://{}:2380", self.address),
                format!("--initial-advertise-peer-urls=http://{}:2380", self.address),
                format!("--initial-cluster={all}"),
            ]),
        }
        flags
    }

    pub(crate) fn api_server(&self) -> Vec<String> {
        vec![
            format!("--etcd-servers={ETCD}"),
            format!("--advertise-address={}", self.address),
            "--secure-port=6443".to_owned(),
            format!("--tls-cert-file={}", self.pki("server.crt")),
            format!("--tls-private-key-file={}", self.pki("server.key")),
            format!("--client-ca-file={}", self.pki("ca.crt")),
            format!("--token-auth-file={}", self.pki("tokens")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!(
                "--service-account-key-file={}",
                self.pki("service-accounts.pub")
            ),
            format!(
                "--service-account-signing-key-file={}",
                self.pki("service-accounts.key")
            ),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--audit-policy-file={}", self.audit_policy),
            format!("--audit-log-path={}", self.audit_log),
            "--audit-log-mode=blocking".to_owned(),
            // MB: never rotated, as what was rotated away would be judged by nobody.
            "--audit-log-maxsize=100000".to_owned(),
            // Nothing a bed does should wait for the throttling of a busy cluster.
            "--max-requests-inflight=2000".to_owned(),
            "--v=1".to_owned(),
        ]
    }

    pub(crate) fn controllers(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.pki("controllers.kubeconfig")),
            "--use-service-account-credentials".to_owned(),
            format!(
                "--service-account-private-key-file={}",
                self.pki("service-accounts.key")
            ),
            format!("--root-ca-file={}", self.pki("ca.crt")),
            // Kubelets may renew their certificates.
            format!("--cluster-signing-cert-file={}", self.pki("ca.crt")),
            format!("--cluster-signing-key-file={}", self.pki("ca.key")),
            self.leader_elect(),
        ]
    }

    pub(crate) fn scheduler(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.pki("scheduler.kubeconfig")),
            self.leader_elect(),
        ]
    }

    fn leader_elect(&self) -> String {
        format!("--leader-elect={}", self.members.is_some())
    }
}
