//! Keeps alerts about this node silenced in Alertmanager while it is down on purpose, as `kube_rebootd_core::silence` decides.
//!
//! A task beside the loop, which leaves there what is wanted now and never waits (I7). Which silences there are is asked of
//! Alertmanager before each write, so that nothing has to be remembered over a restart or a reboot, and no second one is made.
//! What cannot be ended ends by itself.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::matcher::{Matcher, Matchers, filter, is_own_name};
use kube_rebootd_core::silence::{self, NotUnderstood, Own, Silence};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, debug, info, warn};

use crate::bounded;
use crate::root::Root;
use crate::web::{Ask, AskError, Building, Who, read, send};

/// After a failure, doubled with each.
const PAUSE: Duration = Duration::from_secs(5);
/// Short beside the shortest silence, of three minutes.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// `proc_sys_kernel(5)`
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// The longest is 64 characters.
const HOSTNAME_MAX: u64 = 256;
const SILENCES: &str = "/api/v2/silences";

/// The loop's end; the task ends with it.
#[derive(Debug)]
pub struct Silences(watch::Sender<Option<Silence>>);

/// Why Alertmanager does not have what it is to have.
#[derive(Debug, thiserror::Error)]
enum NotSilenced {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("it answered 400; is the clock of this host right?")]
    Refused,
    #[error(transparent)]
    Answer(#[from] NotUnderstood),
    #[error("it knows no negative matchers: Alertmanager 0.22 or newer is needed")]
    Old,
    #[error("the name of the host cannot be read: {0}")]
    Hostname(String),
    #[error(
        "no silence that has {{hostname}}: the name of the host, as it was when the daemon started, is no DNS name or is localhost, and alerts of other hosts may have it; set it with hostnamectl and restart the daemon"
    )]
    Anybody,
}

impl Silences {
    /// Begins the task.
    pub fn start(root: &Root) -> Self {
        let (sender, wanted) = watch::channel(None);
        let keeper = Keeper {
            root: root.clone(),
            building: Building::default(),
            kept: None,
        };
        tokio::spawn(keeper.run(wanted).in_current_span());
        Self(sender)
    }

    /// From now on; none: what there is is to end. Never waits.
    pub fn want(&self, silence: Option<Silence>) {
        self.0.send_if_modified(|wanted| {
            let changed = *wanted != silence;
            *wanted = silence;
            changed
        });
    }
}

/// The task.
struct Keeper {
    root: Root,
    building: Building,
    kept: Option<Kept>,
}

/// What Alertmanager may have, and until when.
struct Kept {
    silence: Silence,
    until: Instant,
}

impl Keeper {
    async fn run(mut self, mut wanted: watch::Receiver<Option<Silence>>) {
        let mut failures = 0;
        loop {
            let now = wanted.borrow_and_update().clone();
            let again = match self.follow(now.as_ref()).await {
                Ok(()) => {
                    // Without one it may have ended by itself.
                    if failures > 0 && now.is_some() {
                        info!("notify.alertmanager takes silences again");
                    }
                    failures = 0;
                    now.map(|silence| silence.at.length / 3)
                }
                Err(why) => {
                    // Said once, until it works again.
                    if failures == 0 {
                        warn!(
                            "silences of alerts are not changed, which changes nothing else: notify.alertmanager: {why}; tried again"
                        );
                    }
                    failures += 1;
                    Some(doubled(PAUSE, failures - 1, PAUSE_MAX))
                }
            };
            let pause = async {
                match again {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = pause => {}
            }
        }
    }

    /// Makes Alertmanager have this, and nothing else of ours that this process knows of.
    async fn follow(&mut self, now: Option<&Silence>) -> Result<(), NotSilenced> {
        if let Some(kept) = self.kept.take()
            && now.is_none_or(|now| !now.covers_what(&kept.silence))
            && let Err(why) = self.end(&kept.silence).await
        {
            // With another in its place it ends by itself; so it does after its time.
            if now.is_none() && Instant::now() < kept.until {
                self.kept = Some(kept);
                return Err(why);
            }
            debug!("a silence is left to end by itself: {why}");
        }
        let Some(now) = now else { return Ok(()) };
        // Also one whose answer is lost may be there.
        self.kept = Some(Kept {
            silence: now.clone(),
            until: Instant::now() + now.at.length,
        });
        let mut nameless = Ok(());
        for matchers in &now.at.silences {
            match self.filled(now, matchers) {
                Ok(matchers) => self.put(now, &matchers).await?,
                Err(why) => nameless = Err(why),
            }
        }
        nameless
    }

    fn filled(&self, silence: &Silence, matchers: &Matchers) -> Result<Vec<Matcher>, NotSilenced> {
        if !matchers.names_host() {
            return Ok(matchers.of(&silence.node, ""));
        }
        let name = bounded::text(&self.root.path(HOSTNAME), HOSTNAME_MAX);
        let name = name.map_err(|error| NotSilenced::Hostname(error.to_string()))?;
        let name = name.trim();
        if !is_own_name(name) {
            return Err(NotSilenced::Anybody);
        }
        Ok(matchers.of(&silence.node, name))
    }

    /// Renews it, or makes it.
    async fn put(&mut self, silence: &Silence, matchers: &[Matcher]) -> Result<(), NotSilenced> {
        let mut ours = self.own(silence, matchers).await?.into_iter();
        let old = ours.next();
        let body = silence.body(matchers, old.as_ref(), Timestamp::now());
        let answer = self
            .ask(silence, &Method::POST, SILENCES, Some(&body))
            .await;
        let answer = answer.map_err(|error| match error {
            AskError::Answer(400) => NotSilenced::Refused,
            error => error.into(),
        })?;
        let id = silence::made(&answer)?;
        if old.is_none() {
            self.check(silence, matchers, &id).await?;
        }
        for double in ours.filter(|double| double.id != id) {
            self.delete(silence, &double.id).await?;
        }
        Ok(())
    }

    /// It was made as it was meant.
    async fn check(
        &mut self,
        silence: &Silence,
        matchers: &[Matcher],
        id: &str,
    ) -> Result<(), NotSilenced> {
        let path = format!("/api/v2/silence/{id}");
        let shown = self.ask(silence, &Method::GET, &path, None).await;
        // Another replica may not have heard of it yet.
        if shown.is_ok_and(|shown| silence::differs(&shown, matchers)) {
            self.delete(silence, id).await?;
            return Err(NotSilenced::Old);
        }
        Ok(())
    }

    async fn end(&mut self, silence: &Silence) -> Result<(), NotSilenced> {
        for matchers in &silence.at.silences {
            // Without the host's name none was made.
            let Ok(matchers) = self.filled(silence, matchers) else {
                continue;
            };
            for own in self.own(silence, &matchers).await? {
                self.delete(silence, &own.id).await?;
            }
        }
        Ok(())
    }

    async fn own(
        &mut self,
        silence: &Silence,
        matchers: &[Matcher],
    ) -> Result<Vec<Own>, NotSilenced> {
        let path = format!("{SILENCES}?filter={}", filter(matchers));
        let listed = self.ask(silence, &Method::GET, &path, None).await?;
        Ok(silence::own(&listed, &silence.author(), matchers)?)
    }

    async fn delete(&mut self, silence: &Silence, id: &str) -> Result<(), NotSilenced> {
        let path = format!("/api/v2/silence/{id}");
        match self.ask(silence, &Method::DELETE, &path, None).await {
            // Somebody else ended it.
            Err(AskError::Answer(404)) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// One request, within the time that one may take.
    async fn ask(
        &mut self,
        silence: &Silence,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, AskError> {
        let token = silence.at.token_file.as_deref();
        let who = token.map_or(Who::Nobody, |file| {
            Who::Bearer(file, "notify.alertmanager_token_file")
        });
        let ask = Ask {
            method,
            to: &silence.at.to,
            path,
            who,
            ca: None,
            body,
        };
        let limit = silence.at.timeout;
        let asked = async {
            let answer = send(&self.root, &mut self.building, ask, limit).await?;
            read(answer).await
        };
        let asked = timeout(limit, asked).await;
        asked.unwrap_or(Err(AskError::Late(limit)))
    }
}

#[cfg(test)]
mod tests;
