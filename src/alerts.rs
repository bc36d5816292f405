//! Asks a Prometheus what speaks against a reboot, and Alertmanager which of that is silenced (I7, I8, I14). What counts is
//! `kube_rebootd_core::alerts`'.

use std::path::Path;

use http::Method;
use kube_rebootd_core::alerts::{
    Asks, Login, Source, Unclear, active, against, silences_path, unsilenced, words,
};
use kube_rebootd_core::config::Address;
use tokio::time::timeout;

use crate::root::Root;
use crate::web::{Ask, AskError, Building, Who, read, send, unusable};

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
enum NotKnown {
    #[error("it answered 400; does it understand gates.prometheus.query?")]
    Query,
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Unclear(#[from] Unclear),
}

/// Who asks one of them, one question at a time.
pub struct Asker {
    root: Root,
    source: Source,
    building: Building,
}

impl Asker {
    pub fn new(root: &Root, source: &Source) -> Self {
        Self {
            root: root.clone(),
            source: source.clone(),
            building: Building::default(),
        }
    }

    /// What speaks against a reboot, in words; none: nothing. Takes two requests at most.
    ///
    /// # Errors
    /// Why it is not known, in words.
    pub async fn look(&mut self) -> Result<Option<String>, String> {
        self.found().await.map_err(|why| why.to_string())
    }

    /// Which of the files that it names cannot be used, in words. Asks nobody.
    pub fn unusable(&self) -> Vec<String> {
        let urls = [Some(&self.source.url), self.source.alertmanager.as_ref()];
        let tls = urls.into_iter().flatten().any(|url| encrypted(url));
        let all = unusable(&self.root, who(&self.source), ca(&self.source, tls));
        all.iter().map(ToString::to_string).collect()
    }

    async fn found(&mut self) -> Result<Option<String>, NotKnown> {
        let asks = self.source.asks.clone();
        let url = self.source.url.clone();
        let answer = self.ask(url, &asks.path()).await;
        let alerts = match (&asks, answer) {
            (Asks::Query(_), Err(AskError::Answer(400))) => return Err(NotKnown::Query),
            (_, Err(why)) => return Err(why.into()),
            (Asks::Query(_), Ok(answer)) => return Ok(against(&answer)?),
            (Asks::Alerts(selection), Ok(answer)) => active(&answer, selection)?,
        };
        let all = words(&alerts);
        let asked = all
            .as_ref()
            .and(self.source.alertmanager.clone())
            .zip(silences_path(&alerts));
        let Some((url, path)) = asked else {
            return Ok(all);
        };
        // An alert whose silence nobody knows of counts (I8).
        let left = match self.ask(url, &path).await {
            Ok(answer) => unsilenced(alerts, &answer).map_err(NotKnown::from),
            Err(why) => Err(why.into()),
        };
        Ok(match left {
            Ok(left) => words(&left),
            Err(why) => all
                .map(|all| format!("{all}; gates.prometheus.alertmanager cannot be asked: {why}")),
        })
    }

    /// One request, within the time that one may take.
    async fn ask(&mut self, url: String, path: &str) -> Result<Vec<u8>, AskError> {
        let tls = encrypted(&url);
        let ask = Ask {
            method: &Method::GET,
            to: &Address::Url(url),
            path,
            who: who(&self.source),
            ca: ca(&self.source, tls),
            body: None,
        };
        let limit = self.source.timeout;
        let asked = async {
            let answer = send(&self.root, &mut self.building, ask, limit).await?;
            read(answer).await
        };
        let asked = timeout(limit, asked).await;
        asked.unwrap_or(Err(AskError::Late(limit)))
    }
}

fn who(source: &Source) -> Who<'_> {
    match &source.login {
        Login::Nobody => Who::Nobody,
        Login::Token(file) => Who::Bearer(file, "gates.prometheus.token_file"),
        Login::Password { user, file } => Who::Basic {
            user,
            password: file,
            key: "gates.prometheus.password_file",
        },
    }
}

fn ca(source: &Source, tls: bool) -> Option<(&Path, &'static str)> {
    let ca = source.ca.as_deref().filter(|_| tls)?;
    Some((ca, "gates.prometheus.ca"))
}

/// Plain HTTP has no certificates.
fn encrypted(url: &str) -> bool {
    url.starts_with("https://")
}
