//! What the journal tells of one cycle: it must be understood without the source.

use std::time::Duration;

use jiff::Timestamp;

use super::cluster::{Pod, make_budget};
use super::world::{HOUR, MINUTE, World};

const CATALOG: &str = include_str!("../../../packaging/kube-rebootd.catalog");

/// The subject that `journalctl -x` shows with this id.
fn subject(id: &str) -> &'static str {
    let mut entries = CATALOG.split("\n-- ").skip(1);
    let entry = entries
        .find(|entry| entry.starts_with(id))
        .unwrap_or_default();
    let mut lines = entry.lines();
    lines
        .find_map(|line| line.strip_prefix("Subject: "))
        .unwrap_or("no explanation")
}

/// With `T` for how long something took and for when: both depend on how fast the machine is.
fn timeless(text: &str) -> String {
    let time = |word: &str| {
        let word = word.trim_matches(['(', ')', ',', ';', ':']);
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
        (unit.len() < word.len() && ["h", "m", "s"].contains(&unit))
            || word.parse::<Timestamp>().is_ok()
    };
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        if !time(word) {
            words.push(word.to_owned());
            continue;
        }
        // `1m 5s` is one.
        words.pop_if(|before| before.ends_with('T'));
        let end = &word[word.trim_end_matches([')', ',', ';', ':']).len()..];
        words.push(format!(
            "{}T{end}",
            if word.starts_with('(') { "(" } else { "" }
        ));
    }
    words.join(" ")
}

/// The journal of a host, each record below the subject of its explanation.
fn journal(world: &World, host: usize) -> String {
    let records = world.log.of(&world.hosts[host].name);
    let records = records.iter().filter(|record| !record.id.is_empty());
    let mut lines = Vec::new();
    let mut before = "";
    for record in records {
        let subject = subject(&record.id);
        if subject != before {
            lines.push(format!("-- {subject}"));
            before = subject;
        }
        lines.push(timeless(&record.text));
    }
    lines.join("\n")
}

#[tokio::test(start_paused = true)]
async fn the_journal_of_a_cycle_is_a_story() {
    let world = World::new(2, 1).await;
    for name in ["web-0", "web-1"] {
        Pod {
            app: "web",
            ..Pod::new(name, "n0")
        }
        .make(&world.server);
    }
    make_budget(&world.server, "web", "web", 2);
    Pod {
        ends: 20,
        ..Pod::new("slow", "n1")
    }
    .make(&world.server);
    world.want(1);
    world.until_phase(1, "Draining", MINUTE).await;
    world.hosts[0].write("/run/reboot-required.pkgs", "linux-image-6.12\nlibc6\n");
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    // A third one elsewhere: the budget lets one after the other go.
    world.pass(2 * MINUTE + Duration::from_secs(5)).await;
    Pod {
        app: "web",
        ..Pod::new("web-2", "n1")
    }
    .make(&world.server);
    world.until_rebooted(&[0, 1], 1, HOUR).await;
    insta::assert_snapshot!(journal(&world, 0));
}
