//! An own certificate authority: every identity of the bed is a client certificate, as in a real
//! cluster, so that rotation can be tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// Address of the API server inside a bed's network namespace.
pub(crate) const SERVER: &str = "10.123.0.1";

/// Of certificates that end.
const LIFE: Duration = Duration::from_secs(3600);

/// When a certificate ends, from now.
#[derive(Debug, Clone, Copy)]
pub enum End {
    In(Duration),
    Ago(Duration),
}

/// The CA of one bed, in its directory.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
}

impl Authority {
    /// Makes the CA, the server's certificate and the key for service account tokens.
    pub fn make(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let key = KeyPair::generate()?;
        let cert = root()?.self_signed(&key)?;
        fs::write(dir.join("ca.crt"), cert.pem())?;
        fs::write(dir.join("ca.key"), key.serialize_pem())?;
        let tokens = KeyPair::generate()?;
        fs::write(dir.join("service-accounts.key"), tokens.serialize_pem())?;
        fs::write(dir.join("service-accounts.pub"), tokens.public_key_pem())?;
        let authority = Self {
            dir: dir.to_owned(),
        };
        authority.server(None)?;
        Ok(authority)
    }

    /// A certificate for the server, in place of the one before; it reads its files again by itself.
    /// `end`: none is never.
    pub fn server(&self, end: Option<End>) -> Result<()> {
        self.server_at(&[], end)
    }

    /// The same for servers at these addresses, too.
    pub(crate) fn server_at(&self, addresses: &[String], end: Option<End>) -> Result<()> {
        let everywhere = [SERVER, "127.0.0.1", "localhost"].map(str::to_owned);
        let names = [everywhere.as_slice(), addresses].concat();
        let params = lasting(CertificateParams::new(names)?, end);
        self.sign("server", params, "kube-apiserver", "")
    }

    pub(crate) fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// A client certificate for `user` in `group` (empty: none), as NAME.crt and NAME.key.
    pub fn client(&self, name: &str, user: &str, group: &str) -> Result<()> {
        self.client_until(name, user, group, None)
    }

    /// The same, that ends.
    pub fn client_until(
        &self,
        name: &str,
        user: &str,
        group: &str,
        end: Option<End>,
    ) -> Result<()> {
        let params = lasting(CertificateParams::new(Vec::new())?, end);
        self.sign(name, params, user, group)
    }

    fn sign(
        &self,
        name: &str,
        mut params: CertificateParams,
        user: &str,
        group: &str,
    ) -> Result<()> {
        let read = |file: &str| {
            fs::read_to_string(self.path(file))
                .with_context(|| format!("cannot read {file} of the bed"))
        };
        let issuer = Issuer::new(root()?, KeyPair::from_pem(&read("ca.key")?)?);
        let key = KeyPair::generate()?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        if !group.is_empty() {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let cert = params.signed_by(&key, &issuer)?;
        fs::write(self.path(&format!("{name}.crt")), cert.pem())?;
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem())?;
        Ok(())
    }

    /// A kubeconfig that names its files by absolute path below `files`.
    pub(crate) fn kubeconfig(user: &str, ca: &str, cert: &str, key: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bed\n\
             clusters: [{{name: bed, cluster: {{server: \"https://{SERVER}:6443\", certificate-authority: {ca}}}}}]\n\
             contexts: [{{name: bed, context: {{cluster: bed, user: \"{user}\"}}}}]\n\
             users: [{{name: \"{user}\", user: {{client-certificate: {cert}, client-key: {key}}}}}]\n"
        )
    }
}

fn lasting(mut params: CertificateParams, end: Option<End>) -> CertificateParams {
    let now = SystemTime::now();
    let moment = match end {
        None => return params,
        Some(End::In(left)) => now + left,
        Some(End::Ago(gone)) => now - gone,
    };
    params.not_before = (moment - LIFE).into();
    params.not_after = moment.into();
    params
}

/// What the CA's own certificate says.
fn root() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-rebootd test bed");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(params)
}
