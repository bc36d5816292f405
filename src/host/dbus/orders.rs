//! Orders on their way from the bus to the loop, and what became of them on their way back.
//!
//! The loop takes one when it comes to it; the bus waits for no order before it answers the next call.

use std::collections::VecDeque;
use std::time::Duration;

use kube_rebootd_core::order::{Order, OrderError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use zbus::Message;

use super::objects::Refused;

/// Clients of D-Bus wait 25 s for an answer, unless they were told otherwise.
const ANSWER: Duration = Duration::from_secs(20);
/// Orders that wait: people give one at a time.
const WAITING: usize = 4;

/// What was done, a line each.
type Done = Result<Vec<String>, OrderError>;

/// An order that waits for the loop.
#[derive(Debug)]
pub struct Given {
    pub order: Order,
    answer: oneshot::Sender<Done>,
}

impl Given {
    /// Nobody waits for an answer any more: whoever asked was told that it may not be done.
    pub fn late(&self) -> bool {
        self.answer.is_closed()
    }

    /// What came of it.
    pub fn answer(self, done: Done) {
        // Whoever asked may have gone meanwhile; it is done all the same.
        let _ = self.answer.send(done);
    }
}

/// The loop's end; where nothing is served nothing comes.
#[derive(Debug, Default)]
pub struct Orders(Option<mpsc::Receiver<Given>>);

impl Orders {
    /// The next order; never where nobody can give one.
    pub async fn next(&mut self) -> Given {
        if let Some(receiver) = &mut self.0
            && let Some(given) = receiver.recv().await
        {
            return given;
        }
        self.0 = None;
        std::future::pending().await
    }
}

/// The bus' end.
#[derive(Debug)]
pub(super) struct Desk(mpsc::Sender<Given>);

/// A place for orders, and who takes them from there.
pub(super) fn desk() -> (Desk, Orders) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Desk(sender), Orders(Some(receiver)))
}

/// Calls whose orders the loop has, oldest first: it answers them in that order.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<(Message, oneshot::Receiver<Done>, Instant)>);

impl Pending {
    /// Leaves an order for the loop.
    pub(super) fn give(&mut self, desk: &Desk, call: Message, order: Order) -> Result<(), Refused> {
        let (answer, done) = oneshot::channel();
        match desk.0.try_send(Given { order, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Refused::Busy),
            Err(TrySendError::Closed(_)) => return Err(Refused::Ends),
        }
        self.0.push_back((call, done, Instant::now() + ANSWER));
        Ok(())
    }

    /// What became of the oldest; never as long as there is none.
    pub(super) async fn next(&mut self) -> (Message, Result<Vec<String>, Refused>) {
        let Some((_, done, until)) = self.0.front_mut() else {
            return std::future::pending().await;
        };
        let done = match timeout_at(*until, done).await {
            Ok(Ok(done)) => done.map_err(Refused::Order),
            Ok(Err(_)) => Err(Refused::Ends),
            Err(_) => Err(Refused::Late(ANSWER)),
        };
        match self.0.pop_front() {
            Some((call, ..)) => (call, done),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Message {
        let call = Message::method_call("/", "Retry").sender(":1.7");
        call.build(&()).expect("a call")
    }

    fn given(pending: &mut Pending, desk: &Desk) -> Result<(), Refused> {
        pending.give(desk, call(), Order::Retry)
    }

    #[tokio::test(start_paused = true)]
    async fn each_order_is_answered_in_its_turn() {
        let ((desk, mut orders), mut pending) = (desk(), Pending::default());
        given(&mut pending, &desk).expect("left");
        given(&mut pending, &desk).expect("left");
        let done: Done = Ok(vec!["done".to_owned()]);
        orders.next().await.answer(done.clone());
        orders.next().await.answer(Err(OrderError::Proving));
        assert_eq!(pending.next().await.1, Ok(vec!["done".to_owned()]));
        assert_eq!(
            pending.next().await.1,
            Err(Refused::Order(OrderError::Proving))
        );
    }

    /// I7: a loop that stands still keeps nobody waiting, and does nothing of it when it goes on.
    #[tokio::test(start_paused = true)]
    async fn i7_what_the_loop_does_not_come_to_is_said_and_not_done_later() {
        let ((desk, mut orders), mut pending) = (desk(), Pending::default());
        for _ in 0..WAITING {
            given(&mut pending, &desk).expect("left");
        }
        assert_eq!(given(&mut pending, &desk), Err(Refused::Busy));
        let begin = Instant::now();
        for _ in 0..WAITING {
            assert_eq!(pending.next().await.1, Err(Refused::Late(ANSWER)));
        }
        assert_eq!(begin.elapsed(), ANSWER);
        for _ in 0..WAITING {
            assert!(orders.next().await.late());
        }
        given(&mut pending, &desk).expect("left");
        drop(orders);
        assert_eq!(pending.next().await.1, Err(Refused::Ends));
        assert_eq!(given(&mut pending, &desk), Err(Refused::Ends));
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_is_served_nothing_comes() {
        let limit = Duration::from_secs(3600);
        let mut none = Orders::default();
        assert!(tokio::time::timeout(limit, none.next()).await.is_err());
        let (desk, mut orders) = desk();
        drop(desk);
        assert!(tokio::time::timeout(limit, orders.next()).await.is_err());
        let mut pending = Pending::default();
        assert!(tokio::time::timeout(limit, pending.next()).await.is_err());
    }
}
