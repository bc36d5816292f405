//! The verdict: computed from boot ids, the audit log, the budgets and what is left over; and, when it is
//! bad, everything needed to see why.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use testbed::budgets::Seen;
use testbed::{Bed, Host, Request, verdict};

use crate::paper::Paper;
use crate::{GROUP, HOSTS, NAMESPACE};

/// "In the same moment": what issue and title promise.
const TOGETHER_MS: i128 = 100;

/// A host's boot before the demo asked for another.
pub(crate) struct Booted {
    pub(crate) host: String,
    /// `boot_id` as the journal writes it: without dashes.
    pub(crate) id: String,
    /// Boots of the firmware so far.
    pub(crate) boots: usize,
}

/// What is judged.
pub(crate) struct Case<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) hosts: &'a [Host],
    pub(crate) leases: &'a [String],
    pub(crate) before: Vec<Booted>,
    pub(crate) touched: Vec<Timestamp>,
    pub(crate) budgets: Result<BTreeMap<String, Seen>>,
}

pub(crate) fn boots(hosts: &[Host]) -> Result<Vec<Booted>> {
    let booted = |host: &Host| {
        Ok(Booted {
            host: host.name().to_owned(),
            id: boot_id(host)?,
            boots: host.boots()?,
        })
    };
    hosts.iter().map(booted).collect()
}

fn boot_id(host: &Host) -> Result<String> {
    Ok(host.boot_id()?.replace('-', ""))
}

/// Prints each finding; whether all are good.
pub(crate) fn verdict(case: &Case<'_>, paper: &Paper) -> bool {
    paper.title("Verdict");
    let log = case.bed.requests_by("").map_err(|err| format!("{err:#}"));
    let from_log = |judge: &dyn Fn(&[Request]) -> Result<String, String>| {
        log.as_ref()
            .map_err(String::clone)
            .and_then(|log| judge(log))
    };
    let findings = [
        ("asked in the same moment", together(case)),
        ("each host has exactly one new boot", one_boot(case)),
        (
            "no Lease had two holders or was taken from one",
            from_log(&|log| holders(case, log)),
        ),
        ("no node was cordoned without holding", from_log(&cordons)),
        (
            "every cordon was gone before its slot was given up",
            from_log(&|log| {
                verdict::uncordoned_before_give_up(log).map(|()| "by the audit log".to_owned())
            }),
        ),
        ("no budget was violated", budgets(case, &log)),
        ("nothing is left but the history", left(case)),
    ];
    for (what, found) in &findings {
        paper.verdict(what, found);
    }
    findings.iter().all(|(_, found)| found.is_ok())
}

fn together(case: &Case<'_>) -> Result<String, String> {
    let (Some(first), Some(last)) = (case.touched.iter().min(), case.touched.iter().max()) else {
        return Err("no host was asked".to_owned());
    };
    let apart = last.duration_since(*first).as_millis();
    let words = format!("{} sentinels within {apart} ms", case.touched.len());
    if apart <= TOGETHER_MS {
        Ok(words)
    } else {
        Err(words)
    }
}

fn one_boot(case: &Case<'_>) -> Result<String, String> {
    let mut words = Vec::new();
    let mut good = true;
    for (host, before) in case.hosts.iter().zip(&case.before) {
        let boots = host.boots().map_err(|err| format!("{err:#}"))?;
        let id = boot_id(host).map_err(|err| format!("{err:#}"))?;
        good &= boots == before.boots + 1 && id != before.id;
        words.push(format!(
            "{} {:.6} -> {id:.6} ({} by the firmware)",
            before.host,
            before.id,
            boots - before.boots
        ));
    }
    let words = words.join(", ");
    if good { Ok(words) } else { Err(words) }
}

fn holders(case: &Case<'_>, log: &[Request]) -> Result<String, String> {
    let mut words = Vec::new();
    for lease in case.leases {
        verdict::one_holder_at_a_time(log, lease)?;
        let held: Vec<String> = verdict::holders(log, lease)
            .into_iter()
            .filter_map(|change| change.to)
            .collect();
        words.push(format!("{lease} held by {}", held.join(", then ")));
    }
    let most = verdict::most_held_at_once(log, case.leases);
    words.push(format!("at most {most} at once"));
    let words = words.join("; ");
    // Slots that nobody needs are no fault; slots that nobody used when all wait are.
    if most == case.leases.len() {
        Ok(words)
    } else {
        Err(words)
    }
}

fn cordons(log: &[Request]) -> Result<String, String> {
    let cordons = verdict::cordons_while_holding(log)?;
    if cordons < HOSTS.len() {
        return Err(format!("only {cordons} cordons were seen at all"));
    }
    Ok(format!(
        "{cordons} writes with a cordon, each within its node's hold"
    ))
}

fn budgets(case: &Case<'_>, log: &Result<Vec<Request>, String>) -> Result<String, String> {
    let seen = case.budgets.as_ref().map_err(|err| format!("{err:#}"))?;
    let evicted = |code: u16| {
        let log = log.iter().flatten();
        log.filter(|request| request.resource == "pods/eviction" && request.code == code)
            .filter(|request| !request.uri.contains("dryRun="))
            .count()
    };
    let mut words: Vec<String> = seen
        .iter()
        .map(|(name, seen)| {
            format!(
                "{name} never below {} healthy of {} demanded ({} states)",
                seen.lowest, seen.desired, seen.states
            )
        })
        .collect();
    words.push(format!(
        "evictions: {} granted, {} refused by a budget",
        evicted(201),
        evicted(429)
    ));
    let words = words.join("; ");
    if seen.len() == 2 && evicted(201) > 0 && !seen.values().any(|seen| seen.violated) {
        Ok(words)
    } else {
        Err(words)
    }
}

fn left(case: &Case<'_>) -> Result<String, String> {
    verdict::nothing_left(case.bed, &HOSTS, GROUP)?;
    Ok("no cordon, label, annotation, waiting record or holder".to_owned())
}

/// Everything needed to understand what went wrong.
pub(crate) fn evidence(bed: &Bed, hosts: &[Host]) {
    let say = |what: &str, said: Result<String>| {
        println!("\n--- {what}");
        println!("{}", said.unwrap_or_else(|err| format!("{err:#}")));
    };
    for host in hosts {
        let name = host.name();
        say(&format!("journal of {name}"), host.journal("kube-rebootd"));
        say(&format!("STATUS of {name}"), host.status());
        say(
            &format!("Node {name}"),
            bed.kubectl(&["get", "node", name, "-o", "yaml"]),
        );
    }
    let leases = ["get", "leases", "-o", "yaml", "-n"];
    say("slots", bed.kubectl(&[&leases[..], &[NAMESPACE]].concat()));
    say(
        "pods",
        bed.kubectl(&["get", "pods,pdb", "-A", "-o", "wide"]),
    );
    let beats = ["-n", "kube-node-lease", "get", "leases", "--show-labels"];
    say("waiting records", bed.kubectl(&beats));
}
