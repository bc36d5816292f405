//! A changed configuration while the daemon runs: all of it or nothing, in any phase (I12).

use std::future::pending;
use std::sync::Arc;

use kube_rebootd_core::config::{Effective, changes};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::alerts::Alerts;
use super::{Daemon, credential};
use crate::layers;

/// Somebody in this process who asks for a reload, as SIGHUP does from outside.
#[derive(Debug, Default)]
pub(super) struct Asked(Option<Arc<Notify>>);

impl Asked {
    /// Resolves when it is asked for. Cancel-safe.
    pub(super) async fn next(&self) {
        match &self.0 {
            Some(asked) => asked.notified().await,
            None => pending().await,
        }
    }
}

impl Daemon {
    /// Reads its configuration again also whenever this is notified.
    #[must_use]
    pub fn reloads_by(mut self, asked: Arc<Notify>) -> Self {
        self.asked = Asked(Some(asked));
        self
    }

    /// Reads the files again. What is wrong with them is shown until they are right; how it went is
    /// `Facts::config_error`.
    pub(super) async fn reload(&mut self) {
        self.notify.reloading();
        let loaded = layers::load_for_root(&self.root, self.config_file.as_deref());
        self.counters.reloaded(loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                if let Err(err) = self.last_valid.keep(&loaded.text) {
                    warn!("cannot keep the configuration beside the state: {err}");
                }
                info!("configuration reloaded{}", self.differs(&loaded));
                self.configure(loaded).await;
            }
            Err(err) => {
                error!("configuration not reloaded, the old one stays in force:\n{err}");
                self.machine.refuse(err);
            }
        }
        self.notify.ready();
    }

    /// Key by key, a line each.
    fn differs(&self, loaded: &Effective) -> String {
        let changes = changes(&self.keys, &loaded.tables, self.machine.bound());
        if changes.is_empty() {
            return ", nothing has changed".to_owned();
        }
        let lines = changes.iter().map(|change| format!("\n{change}"));
        format!(":{}", lines.collect::<String>())
    }

    /// Also where nothing has changed: checks run anew, and credentials are read again.
    async fn configure(&mut self, loaded: Effective) {
        let Effective { config, tables, .. } = loaded;
        self.triggers
            .configure(&self.root, &self.bus, &config)
            .await;
        self.commands.configure(&config);
        let access = credential::held_access(&self.root, &config, &self.machine.facts().record);
        self.api.configure(access);
        self.alerts = Alerts::new(&self.root, &config);
        self.questions.follow(config.fleet_lock.as_ref());
        self.rebootmgr.follow(config.triggers.rebootmgr);
        self.machine.configure(config);
        self.keys = tables;
    }
}
