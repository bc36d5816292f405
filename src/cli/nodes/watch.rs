//! `nodes --watch`: the same again whenever it changes.
//!
//! Slots and Nodes are watched. A Node changes with each status of its kubelet, every five minutes: of 5,000 Nodes that is
//! some hundred KiB a second, where a list of them that is read every ten seconds would be ten times as much, and metadata alone
//! have no conditions. Of each Node only what is shown is kept. The heartbeat Leases, which change every ten seconds, are listed now
//! and then instead: those who wait, and their metadata alone. What is lost is said, and tried again by [`Watch`].

use std::io::Write;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client};
use kube_rebootd_core::names;
use kube_rebootd_core::slot::{Lease, Waiter};
use kube_rebootd_core::text::printable;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::fleet::PAGE;
use super::{Group, Parts, Shown, report, table, together, unhealthy};
use crate::cli::complain;
use crate::clock::Clock;
use crate::cluster::answer::ApiError;
use crate::cluster::heartbeat;
use crate::cluster::lean::Node as Object;
use crate::cluster::lease::{self, Leases};
use crate::cluster::watch::{Select, Signs, View, Watch};

mod changes;

use changes::Lines;

/// Between two times that it is shown.
const PAUSE: Duration = Duration::from_secs(2);
/// Who waits is read again so often, and ages are shown anew.
const WAITERS: Duration = Duration::from_secs(10);

/// What is watched, and how it is shown.
pub struct Follow<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    pub group: &'a str,
    /// The slots and nodes of this group alone.
    pub only: bool,
    pub unhealthy: bool,
    pub json: bool,
    /// How far the API server's clock is ahead of this one.
    pub ahead: SignedDuration,
}

/// Why it ended.
pub enum Ended {
    /// Nobody reads any more.
    Closed,
    /// The credential has ended.
    Unauthorized(ApiError),
    /// The Nodes may not be seen.
    Refused(ApiError),
}

/// Follows the group until it ends, and shows it on `out`; `terminal`: that can be drawn anew.
pub async fn follow(this: &Follow<'_>, out: impl Write, terminal: bool) -> Ended {
    let select = |labels: Option<&str>| Select {
        labels: labels.map(str::to_owned),
        page: Some(PAGE),
        ..Select::default()
    };
    let clock = || Clock::Real;
    let leases = Leases::new(this.client.clone(), this.namespace, "").api();
    let mut slots = Watch::start(
        "watch Leases",
        leases,
        select(Some(names::GROUP)),
        Signs::Bookmarks,
        clock(),
        |object| lease::read(object, None),
    );
    let nodes: Api<Object> = Api::all(this.client.clone());
    let (all, signs) = (select(None), Signs::Bookmarks);
    let mut nodes = Watch::start("watch Nodes", nodes, all, signs, clock(), Shown::read);
    let mut screen = Screen {
        this,
        out,
        terminal: terminal && !this.json,
        shown: None,
        said: String::new(),
        denied: false,
    };
    let mut waiters = Waiters::default();
    loop {
        let (seen, open) = (nodes.view(), slots.view());
        waiters.look(this).await;
        let troubles = [&seen.trouble, &open.trouble, &waiters.trouble];
        let troubles: Vec<&ApiError> = troubles.into_iter().flatten().collect();
        if let Some(ended) = troubles.iter().find(|error| error.unauthorized()) {
            return Ended::Unauthorized((*ended).clone());
        }
        match (&seen.items, &seen.trouble) {
            (None, Some(error)) if error.refused() => return Ended::Refused(error.clone()),
            _ => {}
        }
        screen.trouble(&troubles);
        let group = group(this, seen, open, &waiters, this.now());
        if let Some(group) = group
            && !screen.show(&group)
        {
            return Ended::Closed;
        }
        sleep(PAUSE).await;
        tokio::select! {
            () = nodes.changed() => {}
            () = slots.changed() => {}
            () = sleep_until(waiters.next) => {}
        }
    }
}

impl Follow<'_> {
    fn now(&self) -> Timestamp {
        let here = Timestamp::now();
        here.checked_add(self.ahead).unwrap_or(here)
    }
}

/// Who waits, as it was read last; none: it was not read yet.
struct Waiters {
    all: Option<Vec<Waiter>>,
    trouble: Option<ApiError>,
    next: Instant,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            all: None,
            trouble: None,
            next: Instant::now(),
        }
    }
}

impl Waiters {
    /// Reads them again when it is time.
    async fn look(&mut self, this: &Follow<'_>) {
        if Instant::now() < self.next {
            return;
        }
        let list = heartbeat::list(this.client, this.group, "");
        // A server that is silent keeps nothing else from being shown for longer.
        match timeout_at(Instant::now() + PAUSE, list).await {
            Ok(Ok(all)) => {
                self.all = Some(all);
                self.trouble = None;
            }
            Ok(Err(error)) => self.trouble = Some(error),
            Err(_) => {
                self.trouble = Some(ApiError::Unreachable {
                    what: "list who waits".to_owned(),
                    message: format!("within {PAUSE:?}"),
                });
            }
        }
        self.next = Instant::now() + WAITERS;
    }
}

/// What is known now; none: the Nodes, the slots or those who wait were not read yet.
fn group(
    this: &Follow<'_>,
    nodes: View<Shown>,
    slots: View<Lease>,
    waiters: &Waiters,
    now: Timestamp,
) -> Option<Group> {
    let denied = |trouble: &Option<ApiError>| trouble.clone().filter(ApiError::refused);
    let hidden = denied(&slots.trouble).filter(|_| slots.items.is_none());
    if slots.items.is_none() && hidden.is_none() {
        return None;
    }
    let unseen = denied(&waiters.trouble);
    // That nobody waits is not said before it is known.
    if waiters.all.is_none() && unseen.is_none() {
        return None;
    }
    let parts = Parts {
        leases: slots.items.map(|slots| slots.into_values().collect()),
        nodes: nodes.items?.into_values().collect(),
        waiters: waiters.all.clone().unwrap_or_default(),
        hidden: hidden.into_iter().chain(unseen).collect(),
    };
    let group = together(this.namespace, this.group, parts, now);
    Some(if this.only { group.only() } else { group })
}

/// Where it is shown, and what was.
struct Screen<'a, W> {
    this: &'a Follow<'a>,
    out: W,
    terminal: bool,
    shown: Option<Lines>,
    /// What is wrong, as it was said.
    said: String,
    /// A right is missing for some of it.
    denied: bool,
}

impl<W: Write> Screen<'_, W> {
    /// Says what is wrong where it is news; a terminal has it above the page.
    fn trouble(&mut self, troubles: &[&ApiError]) {
        let words: Vec<String> = troubles.iter().map(ToString::to_string).collect();
        let words = words.join("; ");
        // Who may list and not watch is refused again after each list.
        if words == self.said || words.is_empty() && self.denied {
            return;
        }
        if !self.terminal || self.shown.is_none() {
            let now = self.this.now();
            let says = if words.is_empty() {
                "it is seen again".to_owned()
            } else {
                format!("{words}; it is tried again")
            };
            complain(&format!("{now:.0} {says}"));
        }
        self.said = words;
        let denied = |trouble: &&ApiError| matches!(trouble, ApiError::Denied { .. });
        self.denied = troubles.iter().any(denied);
    }

    /// Shows the group where it has changed; false: nobody reads any more.
    fn show(&mut self, group: &Group) -> bool {
        let lines = Lines::of(group, self.this.unhealthy);
        let changed = self.shown.as_ref().map(|before| lines.since(before));
        let now = self.this.now();
        let text = match changed {
            _ if self.terminal => self.drawn(group, now),
            Some(changed) if changed.is_empty() => return true,
            _ if self.this.json => format!("{}\n", report(group, self.this.unhealthy)),
            None => self.page(group, now),
            Some(changed) => {
                let changed = changed.iter().map(|line| format!("{now:.0} {line}\n"));
                changed.collect()
            }
        };
        self.shown = Some(lines);
        let text = printable(&text);
        let clear = if self.terminal { CLEAR } else { "" };
        let done = self.out.write_all(clear.as_bytes());
        let done = done.and_then(|()| self.out.write_all(text.as_bytes()));
        done.and_then(|()| self.out.flush()).is_ok()
    }

    fn page(&self, group: &Group, now: Timestamp) -> String {
        if self.this.unhealthy {
            unhealthy(group, now)
        } else {
            table(group, now)
        }
    }

    /// The page with what is wrong above it, as far as the terminal has room.
    fn drawn(&self, group: &Group, now: Timestamp) -> String {
        let hidden = group.hidden.iter().map(ToString::to_string);
        let mut head = vec![format!("{now:.0}")];
        if self.said.is_empty() {
            head.extend(hidden);
        } else {
            head.push(format!("! {}; it is tried again", self.said));
        }
        // A long table is cut off below, where one of them may be.
        let people = group.nodes.iter().filter(|node| node.person.is_some());
        let people: Vec<&str> = people.map(|node| node.node.as_str()).collect();
        if !people.is_empty() {
            head.push(format!("! need a person: {}", people.join(", ")));
        }
        let text = format!("{}\n{}", head.join("\n"), self.page(group, now));
        match terminal_size::terminal_size() {
            Some((width, height)) => fit(&text, width.0.into(), height.0.into()),
            None => text,
        }
    }
}

/// To the upper left, and nothing below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// The first lines that a terminal of this size shows, and how many more there are; the cursor stands on the last line.
fn fit(text: &str, width: usize, height: usize) -> String {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1);
    if lines.len() <= room {
        return lines.iter().map(|line| cut(line) + "\n").collect();
    }
    let room = room.saturating_sub(1);
    let more = lines.len() - room;
    let mut shown: Vec<String> = lines.iter().take(room).map(|line| cut(line)).collect();
    shown.push(cut(&format!(
        "and {more} lines more: without --watch all are shown"
    )));
    shown.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn what_a_terminal_has_no_room_for_is_counted() {
        let text = "one line\ntwo\nthree\nfour\n";
        assert_eq!(fit(text, 80, 5), text);
        assert_eq!(fit(text, 3, 5), "one\ntwo\nthr\nfou\n");
        let short = fit(text, 80, 4);
        assert_eq!(
            short,
            "one line\ntwo\nand 2 lines more: without --watch all are shown\n"
        );
        assert!(fit(text, 0, 0).lines().count() <= 1);
    }
}
