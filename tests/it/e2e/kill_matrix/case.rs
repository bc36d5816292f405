//! One cell of the matrix: a cycle that is broken off at one point in one way, and what must come of it.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use super::Kind;
use super::station::{STATE, Station};
use crate::e2e::stop_points;

/// Longest wait for one step of a cycle on two busy cores: a cycle of these hosts takes 10 to 20 s.
const STEP: Duration = Duration::from_secs(150);

/// When the request of an undone cycle is withdrawn.
pub(super) const WITHDRAWN_AT: &str = "did Evict answered";

/// What happens to the daemon, or the host, at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// SIGKILL; systemd starts it again.
    Killed,
    /// The host's power goes, and comes back.
    PowerLoss,
    /// Killed, and the state directory is gone at the next start.
    StateGone,
    /// Killed, and the state file was cut off.
    StateCut,
    /// Killed, and the state file is a newer version's.
    StateNewer,
}

impl Mode {
    pub(super) const ALL: [(Self, &str); 5] = [
        (Self::Killed, "SIGKILL"),
        (Self::PowerLoss, "power loss"),
        (Self::StateGone, "state gone"),
        (Self::StateCut, "state cut off"),
        (Self::StateNewer, "state of a newer version"),
    ];

    /// Whether the point is one for it: a state file is lost where it was written. An updater's cycle is another one's but
    /// for who asks and who reboots: what a lost file does is tried where these differ.
    pub(super) fn is_for(self, kind: Kind, point: &str) -> bool {
        match (self, kind) {
            (Self::Killed, _) | (Self::PowerLoss, Kind::Rebooted | Kind::Undone) => true,
            (Self::PowerLoss, Kind::Updater) => point.starts_with("did "),
            (Self::StateGone, Kind::Updater) => point.starts_with("wrote rebooting"),
            (Self::StateCut | Self::StateNewer, Kind::Updater) => false,
            (Self::StateGone | Self::StateCut | Self::StateNewer, _) => point.starts_with("wrote "),
        }
    }
}

/// A point and what happens there.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) point: String,
    pub(super) mode: Mode,
}

/// A cycle from the request on; `push` gives it from outside what it waits for.
struct Cycle<'a> {
    station: &'a Station,
    began: Timestamp,
    boots: usize,
    freed: bool,
    withdrawn: bool,
    owned_too: bool,
}

impl<'a> Cycle<'a> {
    fn begin(station: &'a Station, why: &str, stop_at: Option<&str>) -> Result<Self, String> {
        station.wait("an idle host with a pod", STEP, || {
            station.left()?;
            station.peopled()
        })?;
        let boots = station.host.boots().map_err(words)?;
        station.hold_for_another().map_err(words)?;
        stop_points::record(&station.host, stop_at).map_err(words)?;
        // History is kept in whole microseconds at best: nothing of before may be later than this.
        let began = Timestamp::now();
        station.want(why).map_err(words)?;
        Ok(Self {
            station,
            began,
            boots,
            freed: false,
            withdrawn: false,
            owned_too: false,
        })
    }

    /// The slot becomes free when the host has queued; the label gets another owner once it is there; a
    /// request that is to be withdrawn is, once an eviction was answered.
    fn push(&mut self) -> Result<()> {
        let points = stop_points::passed(&self.station.host);
        let passed = |wanted: &str| points.iter().any(|point| point == wanted);
        if !self.freed && passed("did Mark no-hold") {
            self.station.hold("")?;
            self.freed = true;
        }
        if !self.owned_too && passed("did Apply claiming") {
            self.owned_too = self.station.own_label_too()?;
        }
        if self.station.kind == Kind::Undone && !self.withdrawn && passed(WITHDRAWN_AT) {
            self.station.withdraw()?;
            self.withdrawn = true;
        }
        Ok(())
    }

    /// Until the daemon has stopped itself: its process id. `may_miss`: a cycle may be over before it comes to the point.
    fn until_stopped(&mut self, may_miss: bool) -> Result<String, String> {
        let mut stopped = None;
        let station = self.station;
        station.wait("the daemon to stop itself", STEP, || {
            stopped = stop_points::stopped(&station.host);
            if stopped.is_none() {
                self.push()?;
            }
            Ok(stopped.is_some() || may_miss && self.is_over())
        })?;
        stopped.ok_or_else(|| MISSED.to_owned())
    }

    /// Whether the host has rebooted and nothing is left to do.
    fn is_over(&self) -> bool {
        let rebooted = self.station.host.boots().is_ok_and(|now| now > self.boots);
        rebooted && self.station.left().is_ok()
    }

    /// Until all is over: this many boots, nothing left.
    fn until_over(&mut self, boots: usize) -> Result<(), String> {
        let station = self.station;
        let undone = station.kind == Kind::Undone && boots == self.boots;
        station.wait("the cycle to be over", STEP, || {
            self.push()?;
            let now = station.host.boots()?;
            ensure!(now == boots, "{now} boots of {boots}");
            ensure!(
                !undone || self.withdrawn,
                "the request is not withdrawn yet"
            );
            station.left()?;
            Ok(true)
        })
    }

    /// Reboots in the history, on the Node and on disk. Where the state was taken away, the daemon that comes after
    /// writes it anew, and nothing else may have been left to do.
    fn history(&self, wanted: usize) -> Result<(), String> {
        let told = || {
            let (node, disk) = self.station.history(self.began)?;
            ensure!(
                node == wanted && disk == wanted,
                "{node} reboots on the Node and {disk} on disk, not {wanted}"
            );
            Ok(true)
        };
        self.station.wait("the history", STEP, told)
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn words(err: anyhow::Error) -> String {
    format!("{err:#}")
}

/// A cycle nobody disturbs; the points it passed, each once.
pub(super) fn undisturbed(station: &Station) -> Result<Vec<String>, String> {
    let mut cycle = Cycle::begin(station, "undisturbed", None)?;
    let rebooted = match station.kind {
        Kind::Rebooted | Kind::Updater => 1,
        Kind::Undone => 0,
    };
    if rebooted > 0 {
        // Else the shutdown may end the daemon before it passes that point.
        delay_shutdown(station)?;
        station.wait("the reboot to be asked for", STEP, || {
            cycle.push()?;
            let points = stop_points::passed(&station.host);
            Ok(points.iter().any(|point| point.starts_with(ASKED)))
        })?;
        let_shut_down(station)?;
    }
    cycle.until_over(cycle.boots + rebooted)?;
    cycle.history(rebooted)?;
    let mut points: Vec<String> = Vec::new();
    for point in stop_points::passed(&station.host) {
        if !points.contains(&point) && !point.starts_with(TOLD) {
            points.push(point);
        }
    }
    Ok(points)
}

/// Which points of these a cycle comes to hangs on how long its phases take.
const TOLD: &str = "did Tell ";
/// A cycle that was over before the daemon came to the point.
const MISSED: &str = "the cycle was over, and the daemon had not passed the point";
/// Cycles until a point is passed that need not be: an eviction may be answered after its pod is gone and
/// the host goes down.
const TRIES: usize = 3;
/// From logind's yes on: the host is about to go down.
const ASKED: &str = "did AskReboot";

/// The shutdown waits for a process of the host's own.
fn delay_shutdown(station: &Station) -> Result<(), String> {
    station.host.delay_shutdowns().map_err(words)
}

fn let_shut_down(station: &Station) -> Result<(), String> {
    let stopped = station.host.sh("systemctl stop late");
    stopped.map(|_| ()).map_err(words)
}

impl Case {
    /// Every way for a point.
    pub(super) fn all(kind: Kind, point: &str) -> Vec<Self> {
        let modes = Mode::ALL.iter().map(|(mode, _)| *mode);
        let case = |mode| Self {
            kind,
            point: point.to_owned(),
            mode,
        };
        let modes = modes.filter(|mode| mode.is_for(kind, point));
        modes.map(case).collect()
    }

    pub(super) fn name(&self) -> String {
        format!("{:?} at \"{}\" {:?}", self.kind, self.point, self.mode)
    }

    /// Runs it; what was wrong, with what the daemon passed and said.
    pub(super) fn run(&self, station: &Station) -> Result<(), String> {
        let began = Timestamp::now();
        self.tried(station).map_err(|why| {
            let (points, journal) = (
                stop_points::passed(&station.host).join("\n  "),
                station.journal(began),
            );
            eprintln!("{}: {why}\n  {points}\n{journal}", self.name());
            why
        })
    }

    fn tried(&self, station: &Station) -> Result<(), String> {
        let why = format!("{}-{:?}", self.point.replace(' ', "-"), self.mode);
        let asked = self.point.starts_with(ASKED);
        let may_miss = self.point == WITHDRAWN_AT;
        let mut tries = TRIES;
        let (mut cycle, pid) = loop {
            let mut cycle = Cycle::begin(station, &why, Some(&self.point))?;
            if asked {
                delay_shutdown(station)?;
            }
            tries -= 1;
            match cycle.until_stopped(may_miss) {
                Err(why) if why == MISSED && tries > 0 => {}
                stopped => break (cycle, stopped?),
            }
        };
        let at_stop = station.host.boots().map_err(words)?;
        let held = stop_points::passed(&station.host)
            .iter()
            .any(|point| point.starts_with("wrote taking"));
        self.strike(station, &pid).map_err(words)?;
        if asked && self.mode == Mode::Killed {
            station.wait("it to know that logind was asked", STEP, || {
                Ok(station.host.status()?.starts_with("rebooting: accepted"))
            })?;
            let_shut_down(station)?;
        }
        let (boots, history) = match (self.mode, self.kind) {
            // The power loss is a new boot: it does what the reboot was for, when there was a hold.
            (Mode::PowerLoss, _) => (at_stop + 1, usize::from(held)),
            (_, Kind::Rebooted | Kind::Updater) => (cycle.boots + 1, 1),
            (_, Kind::Undone) => (cycle.boots, 0),
        };
        cycle.until_over(boots)?;
        if self.mode == Mode::PowerLoss
            && self.kind == Kind::Undone
            && self.point.starts_with("wrote no-hold")
        {
            return cycle.history(0);
        }
        cycle.history(history)
    }

    /// What the mode does, while the daemon stands still.
    fn strike(&self, station: &Station, pid: &str) -> Result<()> {
        let state = station.host.outer(&format!("{STATE}/state.json"));
        match self.mode {
            Mode::PowerLoss => {
                station.host.power_cut()?;
                station.host.power_on()?;
                // It may have been waiting in the queue: whoever it waited for is done.
                if station.held_by_another()? {
                    station.hold("")?;
                }
                return Ok(());
            }
            Mode::Killed => {}
            Mode::StateGone => fs::remove_dir_all(station.host.outer(STATE))?,
            Mode::StateCut => {
                let text = fs::read(&state)?;
                fs::write(&state, &text[..text.len() / 2])?;
            }
            Mode::StateNewer => {
                let text = fs::read_to_string(&state)?;
                let newer = text.replacen("\"version\": 1", "\"version\": 2,\n  \"news\": true", 1);
                ensure!(newer != text, "no version in {text}");
                fs::write(&state, newer)?;
            }
        }
        station.host.sh(&format!("kill -KILL {pid}")).map(|_| ())
    }
}
