//! Every reachable state, breadth first: the shortest story that breaks an invariant, if there is one.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::local::Act;
use super::moves::{Decisions, Model, Move};
use super::state::{HOSTS, State};

/// What a search went through.
#[derive(Debug)]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) depth: usize,
    /// Different things that a decision rested on.
    pub(super) decisions: usize,
    /// logind was asked in some of them.
    pub(super) reboots: bool,
    /// The first state that breaks an invariant: which, and how it came about.
    pub(super) broken: Option<String>,
}

/// 64 bits stand for a state: with five million states two fall together once in a million searches.
fn mark(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Model {
    /// The one form of a state; where hosts are alike, their order is none.
    fn form(&self, state: State) -> (State, u64, [usize; HOSTS]) {
        let orders: &[[usize; HOSTS]] = match (self.hosts, self.quorum || self.slots > 1) {
            (2, false) => &[[0, 1, 2], [1, 0, 2]],
            (3, false) => &[
                [0, 1, 2],
                [0, 2, 1],
                [1, 0, 2],
                [1, 2, 0],
                [2, 0, 1],
                [2, 1, 0],
            ],
            _ => &[[0, 1, 2]],
        };
        let state = state.canonical();
        let forms = orders.iter().map(|order| {
            let other = state.permuted(*order);
            (other, mark(&other), *order)
        });
        forms.min_by_key(|form| form.1).unwrap()
    }

    pub(super) fn explore(&self, most: usize) -> Explored {
        let mut known = Decisions::default();
        let (start, first, _) = self.form(self.start());
        let mut seen = HashSet::from([first]);
        let mut came: Vec<(u32, Move)> = vec![(0, Move::HostileLabel)];
        let mut level = vec![(start, 0_u32)];
        let mut depth = 0;
        let mut found = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for (state, place) in &level {
                self.next(state, &mut known, &mut found);
                for (what, to) in found.drain(..) {
                    let (to, mark, _) = self.form(to);
                    if !seen.insert(mark) {
                        continue;
                    }
                    let here = u32::try_from(came.len()).unwrap();
                    came.push((*place, what));
                    if let Some(broken) = self.broken(&to) {
                        return Explored {
                            states: seen.len(),
                            depth: depth + 1,
                            decisions: known.asked(),
                            reboots: known.reboots(),
                            broken: Some(format!("{broken}\n{}", self.story(&came, here))),
                        };
                    }
                    next.push((to, here));
                }
            }
            assert!(
                seen.len() <= most,
                "more than {most} states at depth {depth}"
            );
            depth += usize::from(!next.is_empty());
            level = next;
        }
        Explored {
            states: seen.len(),
            depth,
            decisions: known.asked(),
            reboots: known.reboots(),
            broken: None,
        }
    }

    /// I1 and I13 in a state, if they do not hold.
    fn broken(&self, state: &State) -> Option<String> {
        if state.claimed {
            return Some("I1: a host labels itself for a slot that it does not hold".to_owned());
        }
        let down: Vec<(usize, u8)> = (0..usize::from(self.hosts))
            .filter_map(|host| Some((host, state.hosts[host].down?)))
            .collect();
        for (place, (one, slot)) in down.iter().enumerate() {
            for (other, others) in &down[place + 1..] {
                if slot == others {
                    return Some(format!("I1: n{one} and n{other} are down on slot {slot}"));
                }
                if self.quorum {
                    return Some(format!("I13: n{one} and n{other} are down"));
                }
            }
        }
        None
    }

    /// The moves that lead to a state, told again from the start.
    fn story(&self, came: &[(u32, Move)], mut place: u32) -> String {
        let mut places = Vec::new();
        while place > 0 {
            places.push(place);
            place = came[usize::try_from(place).unwrap()].0;
        }
        let mut known = Decisions::default();
        let (mut state, _, mut names) = self.form(self.start());
        let mut told = Vec::new();
        for place in places.into_iter().rev() {
            let what = came[usize::try_from(place).unwrap()].1;
            let mut found = Vec::new();
            self.next(&state, &mut known, &mut found);
            let (_, to) = found.into_iter().find(|found| found.0 == what).unwrap();
            let act = match what {
                Move::Turn(host, mood) | Move::Unanswered(host, mood) => {
                    self.act_of(&state, host, mood, &mut known)
                }
                _ => Act::Nothing,
            };
            let who = what.host().map_or(String::new(), |host| {
                format!("n{} ", names[usize::from(host)])
            });
            told.push(format!("{who}{what:?} {act:?}"));
            let order;
            (state, _, order) = self.form(to);
            names = order.map(|old| names[old]);
        }
        told.join("\n")
    }
}
