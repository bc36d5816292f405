//! Reading files beside the loop, one reading at a time: a dead network mount costs one thread and some seconds,
//! not a thread for each look (I7).

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// One kind of reading.
#[derive(Debug)]
pub struct Beside<T> {
    pub(super) running: Option<JoinHandle<T>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { running: None }
    }
}

impl<T: Send + 'static> Beside<T> {
    /// What `work` answers; none when that takes longer than `limit`. Cancel safe.
    pub async fn look(
        &mut self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let looking = async {
            if let Some(earlier) = &mut self.running {
                // It began before whatever is asked about now: its answer may be old.
                let _ = earlier.await;
            }
            let found = self.running.insert(spawn_blocking(work)).await;
            self.running = None;
            found
        };
        timeout(limit, looking).await.ok()?.ok()
    }
}
