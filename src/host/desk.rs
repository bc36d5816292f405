//! Questions on their way from a connection to the loop, and the loop's answers on their way back (I7): neither waits for the
//! other longer than it wants to. And what the journal is told of those who are not heard.

use std::fmt::Display;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::door::CONNECTIONS;

/// Between two refusals that are told in the journal.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// A question that waits for the loop.
#[derive(Debug)]
pub struct Given<Ask, Answer> {
    pub ask: Ask,
    answer: oneshot::Sender<Answer>,
}

impl<Ask, Answer> Given<Ask, Answer> {
    /// Nobody waits for an answer any more.
    pub fn late(&self) -> bool {
        self.answer.is_closed()
    }

    /// Whether somebody was there to hear it.
    pub fn answer(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Others wait already.
    Full,
    /// The daemon ends.
    Ends,
    /// It may be done all the same.
    Late,
}

/// What the loop says to it within `limit`.
pub(super) async fn ask<Ask, Answer>(
    desk: &mpsc::Sender<Given<Ask, Answer>>,
    ask: Ask,
    limit: Duration,
) -> Result<Answer, Unanswered> {
    let (answer, said) = oneshot::channel();
    match desk.try_send(Given { ask, answer }) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => return Err(Unanswered::Full),
        Err(TrySendError::Closed(_)) => return Err(Unanswered::Ends),
    }
    match timeout(limit, said).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Unanswered::Ends),
        Err(_) => Err(Unanswered::Late),
    }
}

/// The loop's end of a desk that is served once something was to be served.
#[derive(Debug)]
pub(super) struct LoopEnd<Place, Given>(Option<(watch::Sender<Place>, mpsc::Receiver<Given>)>);

impl<Place, Given> Default for LoopEnd<Place, Given> {
    fn default() -> Self {
        Self(None)
    }
}

impl<Place: Default + PartialEq, Given> LoopEnd<Place, Given> {
    /// This is served from now on. `serve` begins at the first that is not the default, which is nothing.
    pub(super) fn follow(
        &mut self,
        place: Place,
        serve: impl FnOnce(watch::Receiver<Place>, mpsc::Sender<Given>),
    ) {
        let nothing = Place::default();
        if self.0.is_none() && place != nothing {
            let (sender, receiver) = watch::channel(nothing);
            let (desk, given) = mpsc::channel(CONNECTIONS);
            serve(receiver, desk);
            self.0 = Some((sender, given));
        }
        if let Some((sender, _)) = &self.0 {
            sender.send_if_modified(|served| {
                let changed = *served != place;
                *served = place;
                changed
            });
        }
    }

    /// The next question; never where nothing is served. Cancel-safe.
    pub(super) async fn next(&mut self) -> Given {
        if let Some((_, given)) = &mut self.0
            && let Some(given) = given.recv().await
        {
            return given;
        }
        pending().await
    }
}

/// What was told of those who are not heard: at most once a minute, whoever it is.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<Option<Instant>>);

impl Trouble {
    /// What was asked at the place that this key names is refused.
    pub(super) fn tell(&self, key: &str, why: impl Display) {
        let Ok(mut last) = self.0.lock() else { return };
        if last.is_none_or(|last| last.elapsed() >= TOLD_AGAIN) {
            *last = Some(Instant::now());
            tracing::warn!("what was asked at {key} is refused: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// I7: a loop that stands still keeps nobody waiting, and can tell that nobody waits any more.
    #[tokio::test(start_paused = true)]
    async fn i7_each_question_has_an_answer_or_the_reason_why_not() {
        let (desk, mut given) = mpsc::channel::<Given<u8, u8>>(1);
        let loops = async {
            let one = given.recv().await.expect("a question");
            assert!(!one.late());
            let answer = one.ask + 1;
            assert!(one.answer(answer));
        };
        let (said, ()) = tokio::join!(ask(&desk, 1, LIMIT), loops);
        assert_eq!(said, Ok(2));
        let began = Instant::now();
        let (first, second) = tokio::join!(ask(&desk, 1, LIMIT), ask(&desk, 2, LIMIT));
        assert_eq!(
            (first, second),
            (Err(Unanswered::Late), Err(Unanswered::Full))
        );
        assert_eq!(began.elapsed(), LIMIT);
        let late = given.recv().await.expect("a question");
        assert!(late.late() && !late.answer(0));
        drop(given);
        assert_eq!(ask(&desk, 1, LIMIT).await, Err(Unanswered::Ends));
    }
}
