//! Evictions that are only tried (I9): what the API server would answer to each of them now.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kube_rebootd_core::drain::Try;
use kube_rebootd_core::pod::EvictAnswer;
use tokio::time::{Instant, timeout_at};

use super::OwnPods;

/// All of them together; what is not answered by then is not known.
const WITHIN: Duration = Duration::from_secs(30);
/// So many are on their way at once: nobody is in a hurry.
const AT_ONCE: usize = 5;

/// What was answered to each.
pub type Tried = Vec<(Try, EvictAnswer)>;

impl OwnPods {
    /// Tries all of them as dry runs, each alone: where a budget allows one, each of its pods is accepted.
    pub async fn try_all(&self, tries: Vec<Try>) -> Tried {
        let end = Instant::now() + WITHIN;
        let asked = tries.into_iter().map(|one| async {
            let answer = self.would_evict(&one.pod).await;
            (one, answer)
        });
        let mut asked = Box::pin(stream::iter(asked).buffer_unordered(AT_ONCE));
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = timeout_at(end, asked.next()).await {
            answers.push(answer);
        }
        answers
    }
}
