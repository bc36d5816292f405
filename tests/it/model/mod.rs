//! Every state that a few hosts can get the lock into (I1, I13).
use search::Explored;

mod local;
mod moves;
mod search;
mod state;

use moves::Model;

const CALM: Model = Model {
    hosts: 3, accidents: None, slots: 1, quorum: false, late: false, refusals: false, crashes: false, power_loss: false, moods: false,
    clears: false, unlocks: false, hostile: false, labels: false, lost_disks: false, blind: false,
};

fn try_it(name: &str, model: Model, most: usize) -> Explored {
    let t = std::time::Instant::now();
    let e = model.explore(most);
    println!("{name}: {} states, depth {}, {} decisions, {:?} broken {}", e.states, e.depth, e.decisions, t.elapsed(), e.broken.as_deref().unwrap_or("no"));
    e
}

#[test]
fn scratch() {
    let most: usize = std::env::var("MOST").map_or(300_000, |most| most.parse().unwrap());
    let what = std::env::var("WHAT").unwrap();
    let has = |word: &str| what.split(',').any(|w| w == word);
    let hosts = if has("3") { 3 } else if has("1") { 1 } else { 2 };
    let model = Model { hosts, accidents: what.split(',').find_map(|w| w.strip_prefix("k")?.parse().ok()), slots: if has("s2") { 2 } else { 1 }, quorum: has("quorum"), late: has("late"), refusals: has("refusals"), crashes: has("crash"), power_loss: has("power"), moods: has("moods"), clears: has("clears"), unlocks: has("unlocks"), hostile: has("hostile"), labels: has("labels"), lost_disks: has("disks"), blind: has("blind") };
    try_it(&what, model, most);
}
