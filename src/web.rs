//! One HTTP request, by the client that speaks to the API server as well: without proxy, redirects and retries of its own.
//! Notices go out by it, and Prometheus is asked.
//!
//! Nothing of the URL is ever said: of many services it is a secret.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body::Body as _;
use kube::client::Body;
use kube::{Client, Config};
use kube_rebootd_core::config::Address;
use kube_rebootd_core::text::{MESSAGE, clean};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use crate::bounded::{self, ReadError};
use crate::host::beside::Beside;
use crate::root::Root;
use crate::trusted::{self, Untrusted};

/// Where the URL may stand. No value of a key that names a file is said: root may have written the secret itself there.
const URL_FILE: &str = "notify.webhook_file";

const AGENT: &str = concat!("kube-rebootd/", env!("CARGO_PKG_VERSION"));
/// Bytes of a file with a URL or a token.
const LARGEST: u64 = 16 * 1024;
/// Bytes of a file with certificates: a distribution's whole bundle has some 250,000.
const LARGEST_CA: u64 = 1024 * 1024;
/// Bytes of an answer: Alertmanager keeps silences for five days, each of some 600 bytes, and is asked for those of one node.
/// Of alerts that are active it is some thousands.
const ANSWER: usize = 2 * 1024 * 1024;

/// Makes clients, which read the host's certificates.
pub(crate) type Building = Beside<Result<Client, AskError>>;

/// Why it was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "the file of {key} is not used: it or a directory on the way to it belongs to uid {uid} and has mode {mode:04o}, so somebody else than root could change it; `namei -l` with its path shows which"
    )]
    Changeable {
        key: &'static str,
        uid: u32,
        /// The permission bits.
        mode: u32,
    },
    #[error("cannot see whether only root can change the file of {0}: {1}")]
    Unseen(&'static str, io::Error),
    #[error("the file of {0} cannot be read: {1}")]
    Read(&'static str, ReadError),
    #[error("it is no URL of http or https")]
    Url,
    #[error("the token is no value of an HTTP header")]
    Token,
    #[error("the file of {0} holds no certificate in PEM")]
    Certificate(&'static str),
    #[error("{0}")]
    Client(String),
    #[error("it answered {0}")]
    Answer(u16),
    #[error("its answer is longer than {ANSWER} bytes")]
    Long,
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a Method,
    pub(crate) to: &'a Address,
    /// Follows the URL.
    pub(crate) path: &'a str,
    pub(crate) who: Who<'a>,
    /// The certificates that are believed instead of the host's; and which key names that file.
    pub(crate) ca: Option<(&'a Path, &'static str)>,
    pub(crate) body: Option<&'a Value>,
}

/// Who asks. Each file is read anew; and which key names it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who<'a> {
    Nobody,
    Bearer(&'a Path, &'static str),
    Basic {
        user: &'a str,
        password: &'a Path,
        key: &'static str,
    },
}

impl Who<'_> {
    fn header(self, root: &Root) -> Result<Option<HeaderValue>, AskError> {
        let text = match self {
            Self::Nobody => return Ok(None),
            Self::Bearer(file, key) => format!("Bearer {}", first_line(root, key, file)?),
            Self::Basic {
                user,
                password,
                key,
            } => {
                let password = first_line(root, key, password)?;
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| AskError::Token)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Which of the files that a request reads cannot be used.
pub(crate) fn unusable(
    root: &Root,
    who: Who<'_>,
    ca: Option<(&Path, &'static str)>,
) -> Vec<AskError> {
    let header = who.header(root).err();
    let ca = ca.and_then(|(file, key)| certificates(root, key, file).err());
    header.into_iter().chain(ca).collect()
}

/// Sends it; the whole has to be bounded by the caller, `limit` is for what cannot be cancelled.
pub(crate) async fn send(
    root: &Root,
    building: &mut Building,
    ask: Ask<'_>,
    limit: Duration,
) -> Result<Response<Body>, AskError> {
    // Small files of root's own, as those of the configuration.
    let mut url = match ask.to {
        Address::Url(url) => url.clone(),
        Address::File(file) => first_line(root, URL_FILE, file)?,
    };
    if !ask.path.is_empty() {
        url = url.trim_end_matches('/').to_owned() + ask.path;
    }
    let url: Uri = url.parse().map_err(|_| AskError::Url)?;
    let (server, path) = parts(&url).ok_or(AskError::Url)?;
    let mut request = Request::builder()
        .method(ask.method)
        .uri(path)
        .header(USER_AGENT, AGENT);
    if let Some(who) = ask.who.header(root)? {
        request = request.header(AUTHORIZATION, who);
    }
    let ca = match ask.ca {
        Some((file, key)) => Some(certificates(root, key, file)?),
        None => None,
    };
    let request = match ask.body {
        Some(body) => request
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes())),
        None => request.body(Body::empty()),
    };
    let request = request.map_err(|_| AskError::Url)?;
    let client = building.look(limit, move || client(server, ca)).await;
    let client = client.ok_or(AskError::Late(limit))??;
    let answer = client.send(request).await.map_err(|error| unsent(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(AskError::Answer(status.as_u16()))
}

/// What was answered.
pub(crate) async fn read(answer: Response<Body>) -> Result<Vec<u8>, AskError> {
    let mut body = pin!(answer.into_body());
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|error| unsent(&error))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > ANSWER {
            return Err(AskError::Long);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// The server, and what is asked of it.
fn parts(url: &Uri) -> Option<(Uri, &str)> {
    let (scheme, authority) = (url.scheme()?.clone(), url.authority()?.clone());
    let server = Uri::builder().scheme(scheme).authority(authority);
    let server = server.path_and_query("/").build().ok()?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    Some((server, path))
}

fn client(server: Uri, ca: Option<Vec<Vec<u8>>>) -> Result<Client, AskError> {
    let plain = server.scheme() == Some(&Scheme::HTTP);
    let mut config = Config::new(server);
    // Without any kube asks for the host's own, and fails where there are none (a minimal image).
    config.root_cert = ca.or(plain.then(Vec::new));
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unsent(&error))
}

/// The last of its causes says what happened, and names no address.
fn unsent(error: &kube::Error) -> AskError {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    AskError::Client(clean(&last.to_string(), MESSAGE))
}

fn first_line(root: &Root, key: &'static str, file: &Path) -> Result<String, AskError> {
    let text = text(root, key, file, LARGEST)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Whoever could change them could be the server.
fn certificates(root: &Root, key: &'static str, file: &Path) -> Result<Vec<Vec<u8>>, AskError> {
    let pem = text(root, key, file, LARGEST_CA)?;
    let each = CertificateDer::pem_slice_iter(pem.as_bytes());
    let all: Result<Vec<Vec<u8>>, _> = each.map(|one| one.map(|der| der.to_vec())).collect();
    let all = all.unwrap_or_default();
    if all.is_empty() {
        return Err(AskError::Certificate(key));
    }
    Ok(all)
}

fn text(root: &Root, key: &'static str, file: &Path, most: u64) -> Result<String, AskError> {
    trusted::only_root_can_change(root, file).map_err(|why| match why {
        Untrusted::Changeable { uid, mode, .. } => AskError::Changeable { key, uid, mode },
        Untrusted::Unseen { source, .. } => AskError::Unseen(key, source),
    })?;
    let text = bounded::text(&root.path(file), most);
    text.map_err(|error| AskError::Read(key, error))
}
