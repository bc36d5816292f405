//! What the API server, the disk and logind answered, as facts (I2, I5, I7).
//!
//! A write whose answer did not come leaves in doubt what it was to change: only a consistent read tells.

use std::time::Duration;

use super::Machine;
use crate::beats;
use crate::decide::census_matters;
use crate::facts::{
    Applied, Fenced, Hidden, Mended, Point, Refusal, RefusedApply, Rehearsed, Waiters,
};
use crate::node::{Node, Seen};
use crate::node_fields::Leftovers;
use crate::now::Now;
use crate::peers::Peers;
use crate::shutdown::Scheduled;
use crate::slot::{Crowd, Lease, Mark, Shown, TakeSaid};
use crate::stale::{Found, Held, Look};

/// What comes back on the Node so long after it was taken off is another's doing each time.
const LATELY: Duration = Duration::from_secs(120);

/// Leases and rights.
impl Machine {
    /// The three reads of a start are merged.
    pub fn begin(&mut self) {
        self.facts.started = true;
    }

    /// The Leases and the mark of a start, by consistent reads; whatever was known of them stays known.
    pub fn read_start(&mut self, leases: Vec<Lease>, mark: Option<Shown>, seen: Duration) {
        let follow = |new: Lease| {
            let known = self.facts.leases.get(&new.name);
            let lease = new.follow(known, seen);
            (lease.name.clone(), lease)
        };
        self.facts.leases = leases.into_iter().map(follow).collect();
        self.facts.listed = Ok(());
        self.facts.denied = None;
        self.facts.mark = mark.into();
    }

    /// The Leases cannot be had, and why.
    pub fn no_leases(&mut self, why: String) {
        self.facts.listed = Err(why);
    }

    /// They are in another namespace now: what is known of them is void.
    pub fn moved(&mut self) {
        self.facts.leases.clear();
        self.no_leases("asking the API server".to_owned());
    }

    /// Whether a request for a Lease was refused for lack of rights: in words, with the cure.
    pub fn denied(&mut self, why: Option<String>) {
        self.facts.denied = why;
    }

    /// A Lease by an answer that came at `seen`; when it became free is what the watch saw.
    pub fn know(&mut self, lease: Lease, seen: Duration) {
        self.facts.absent.remove(&lease.name);
        let known = self.facts.leases.get(&lease.name);
        let lease = lease.follow(known, seen);
        self.facts.leases.insert(lease.name.clone(), lease);
    }

    /// The Lease `name`, or that there is none, by a consistent read that was asked for at `asked`.
    pub fn read_lease(&mut self, name: &str, lease: Option<Lease>, asked: Now, seen: Duration) {
        if let Some(lease) = lease {
            return self.know(lease, seen);
        }
        self.facts.leases.remove(name);
        self.facts.absent.insert(name.to_owned(), asked.boot);
    }

    /// A write of this Lease failed: it must be read again.
    pub fn doubt_lease(&mut self, name: &str) {
        self.facts.leases.remove(name);
    }

    /// Making the Lease `default` was refused, and why.
    pub fn not_created(&mut self, why: String) {
        self.facts.create_refused = Some(why);
    }

    /// A take that was sent at `sent` was answered (`said`), or not at all.
    pub fn took(&mut self, said: Option<TakeSaid>, unanswered: bool, sent: Now) {
        if let Some(said) = said {
            self.facts.take.said = Some(said);
        }
        if unanswered {
            self.facts.take.unanswered = Some(sent.boot);
        }
    }
}

/// The own Node, and its Lease in kube-node-lease.
impl Machine {
    /// The own Node, or that there is none, by an answer.
    pub fn read_node(&mut self, node: Option<Node>) {
        self.facts.node = node.map_or(Seen::Absent, |node| Seen::Present(Box::new(node)));
    }

    /// A write of the own Node failed, or another doubt: it must be read again.
    pub fn doubt_node(&mut self) {
        self.facts.node = Seen::Unknown;
    }

    /// An apply was done, and its answer came at `answered`; `dropped`: what of it did not stay. Whether the same was done
    /// not long ago: then somebody changes it back each time.
    pub fn applied(
        &mut self,
        node: Node,
        point: Point,
        dropped: Option<String>,
        answered: Duration,
    ) -> bool {
        let again = self.facts.applied.is_some_and(|before| {
            before.point == point && answered.saturating_sub(before.at) <= LATELY
        });
        self.facts.refused = dropped.map(|why| RefusedApply { point, why });
        self.read_node(Some(node));
        self.facts.applied = Some(Applied {
            point,
            at: answered,
        });
        again
    }

    /// An apply failed; `refused`: for good, and why. What was refused once is not forgotten for a later lack of an answer.
    pub fn not_applied(&mut self, point: Point, refused: Option<String>) {
        self.doubt_node();
        let before = self.facts.refused.take().filter(|one| one.point == point);
        let refused = refused.map(|why| RefusedApply { point, why });
        self.facts.refused = refused.or(before);
    }

    /// What the dry run of an apply said that was asked for at `asked`; whether that is news.
    pub fn rehearsed(&mut self, said: Result<(), String>, asked: Now) -> bool {
        let before = self.facts.rehearsed.as_ref().map(|last| &last.said);
        let news = before != Some(&said);
        self.facts.rehearsed = Some(Rehearsed {
            at: asked.boot,
            said,
        });
        news
    }

    /// Remembers what was taken off; whether the same was not long ago.
    pub fn mended(&mut self, left: &Leftovers, at: Duration) -> bool {
        let point = Point::of_record(&self.facts.record);
        let mended = &mut self.facts.mended;
        mended.retain(|one| one.point == point && at.saturating_sub(one.at) <= LATELY);
        if let Some(before) = mended.iter_mut().find(|one| one.left.same(left)) {
            before.at = at;
            return true;
        }
        let left = left.clone();
        mended.push(Mended { point, at, left });
        false
    }

    /// What the own heartbeat Lease shows, by a consistent read.
    pub fn read_mark(&mut self, shown: Option<Shown>) {
        self.facts.mark = shown.into();
    }

    /// It was written, and shows this now.
    pub fn marked(&mut self, shown: Option<Shown>) {
        self.unmarks(shown.as_ref());
        self.facts.hidden = None;
        self.facts.mark = shown.into();
    }

    /// It could not be written; `hidden`: where that was definite, it is tried again later.
    pub fn not_marked(&mut self, shown: Option<&Shown>, hidden: Option<Hidden>) {
        self.unmarks(shown);
        self.facts.hidden = hidden;
        self.facts.mark = Mark::Unknown;
    }

    fn unmarks(&mut self, shown: Option<&Shown>) {
        if shown.is_none() {
            self.facts.crowd = None;
        }
    }
}

/// The others.
impl Machine {
    /// Whether the Nodes must be counted as well, although their labels are known.
    pub fn counts(&self, peers: &Peers, me: &str) -> bool {
        census_matters(&self.facts, &self.policy(Some(me)), peers)
    }

    /// The others, by a list that came at `came`.
    pub fn see_peers(&mut self, mut peers: Peers, beats: &beats::Read, came: Duration) {
        peers.came = came;
        self.facts.beats.see(beats, peers.asked, came);
        self.facts.peers = Some(peers);
    }

    /// Who waits. None: new credentials may list it.
    pub fn see_waiters(&mut self, waiters: Option<Waiters>) {
        self.facts.waiters = waiters;
    }

    /// How many wait.
    pub fn see_crowd(&mut self, crowd: Crowd) {
        self.facts.crowd = Some(crowd);
    }

    /// The Node of a holder, as it was found by a consistent read; none: no answer, which counts as little as finding it.
    pub fn see_holder(&mut self, held: Held, found: Option<Found>, asked: Now) {
        let name = held.lease.clone();
        let before = self.facts.looks.get(&name);
        let look = Look::next(before, held, asked.boot, found);
        self.facts.looks.insert(name, look);
    }

    /// A hold that was looked into is cleared now, or not: the count starts again.
    pub fn forget_look(&mut self, lease: &str) {
        self.facts.looks.remove(lease);
    }
}

/// The last look, the fence and logind.
impl Machine {
    /// All that a reboot rests on was answered; it was asked for then.
    pub fn confirmed(&mut self, asked: Now) {
        self.facts.confirmed = Some(asked.boot);
    }

    /// The fence is about to be asked for. None: there is no hold.
    pub fn fences(&mut self) -> Option<Point> {
        let hold = self.facts.record.hold.as_ref()?;
        let point = Point::of(hold);
        self.facts.fenced = Some(Fenced {
            hold: hold.take.acquire_time,
            asks: hold.asks,
            at: None,
        });
        Some(point)
    }

    /// The fence was answered at `answered`.
    pub fn fenced(&mut self, lease: Lease, answered: Duration) {
        self.know(lease, answered);
        if let Some(fenced) = &mut self.facts.fenced {
            fenced.at = Some(answered);
        }
    }

    /// It may have been done, or somebody changed the Lease: all is read again (I2). `refused`: for good, and why.
    pub fn not_fenced(&mut self, lease: &str, point: Point, refused: Option<String>) {
        self.doubt_lease(lease);
        self.facts.confirmed = None;
        self.facts.refused = refused.map(|why| RefusedApply { point, why });
    }

    /// logind is about to be asked: what was confirmed serves once.
    pub fn asks_reboot(&mut self) {
        self.facts.ask = None;
        self.facts.ask_accepted = None;
        self.facts.fenced = None;
        self.facts.confirmed = None;
    }

    /// The reboot was accepted that was asked for at `asked`.
    pub fn accepted(&mut self, asked: Duration) {
        self.facts.ask_accepted = Some(asked);
    }

    /// It was refused at `at`.
    pub fn not_accepted(&mut self, why: String, at: Duration) {
        self.facts.ask = Some(Refusal { at, why });
    }

    /// The scheduled shutdown that is to be cancelled now, as it has become a request.
    pub fn cancels(&mut self) -> Option<Scheduled> {
        self.facts.adopts.take()
    }

    /// Whether the state file can be written; whether it could before.
    pub fn writable(&mut self, can: bool) -> bool {
        std::mem::replace(&mut self.facts.writable, can)
    }

    /// For who only gives back: triggers do not matter, a request stays as it is on record.
    pub fn keep_request(&mut self) {
        let (seen, record) = (&mut self.facts.observed, &self.facts.record);
        seen.request.clone_from(&record.request);
        seen.settled.clone_from(&record.settled);
    }
}
