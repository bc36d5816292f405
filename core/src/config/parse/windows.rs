//! `[[windows]]`, and the dates that `[gates]` excludes (I12).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::array;
use crate::config::duration::show;
use crate::config::file::{Item, Problem, Raw, Tables, dotted};
use crate::config::keys::{Table, gates, windows};
use crate::config::reader::Reader;
use crate::windows::{Clock, Window, Windows};

/// The rules of the time zones that a configuration names; none: this host does not know them.
pub(super) type Zones = BTreeMap<String, Option<TimeZone>>;

/// Looks up every zone that `tables` name.
pub(super) fn zones(tables: &Tables, look: impl Fn(&str) -> Option<TimeZone>) -> Zones {
    let named = tables.of(&windows::SECTION).filter_map(|item| {
        match &item.keys.get(windows::ZONE.name)?.raw {
            Raw::Text(name) if (windows::ZONE.kind.rule.allows)(name) => Some(name.clone()),
            _ => None,
        }
    });
    named.map(|name| (name.clone(), look(&name))).collect()
}

/// All of them, and how each was read.
pub(super) fn read(
    tables: &Tables,
    zones: &Zones,
    problems: &mut Vec<Problem>,
) -> (Vec<Window>, Vec<Table>) {
    array::read(tables, &windows::SECTION, problems, |r, _, name| {
        let window = window(r, name, zones);
        (window.name.clone(), window)
    })
}

fn window(r: &mut Reader<'_>, name: &str, zones: &Zones) -> Window {
    let name = r.word_or(&windows::NAME, name);
    let days = r.days(&windows::DAYS);
    let [start, end] =
        [&windows::START, &windows::END].map(|key| Clock::new(&r.word(key)).unwrap_or_default());
    if start.ends_day() && r.sound(&["start"]) {
        r.fault(
            &windows::START,
            "is the end of a day; write \"00:00\" for its beginning",
        );
    } else if start == end && r.sound(&["start", "end"]) {
        let key = if r.given(&windows::END) {
            &windows::END
        } else {
            &windows::START
        };
        r.fault(
            key,
            "leaves no time between start and end; for a whole day write \"00:00\" and \"24:00\"",
        );
    }
    let named = r.word(&windows::ZONE);
    let zone = match zones.get(&named) {
        _ if named == "UTC" => TimeZone::UTC,
        Some(Some(zone)) => zone.clone(),
        _ => {
            let reason = format!(
                "{named:?} is not in this host's /usr/share/zoneinfo; write a name that is, or install tzdata"
            );
            r.fault(&windows::ZONE, reason);
            TimeZone::UTC
        }
    };
    Window {
        name,
        days,
        start,
        end,
        zone,
    }
}

/// Excluded dates that leave nothing of a window.
pub(super) fn check_dates(
    tables: &Tables,
    windows: &Windows,
    need: Duration,
    problems: &mut Vec<Problem>,
) {
    let left_out = windows.left_out(need);
    let written = tables.sections.get(gates::SECTION.name);
    let dates = written.and_then(|keys| keys.get(gates::EXCLUDE_DATES.name));
    let (Some(dates), [_, ..]) = (dates, left_out.as_slice()) else {
        return;
    };
    let names: Vec<String> = left_out.iter().map(|it| format!("{:?}", it.name)).collect();
    let reason = format!(
        "leaves in no year an opening of window {} that is as long as a drain and a boot may take ({}): no reboot would ever \
         begin there; take dates away{}",
        names.join(", "),
        show(need),
        if tables.of(&windows::SECTION).next().is_none() {
            ""
        } else {
            ", or that window"
        }
    );
    problems.push(Problem::at(
        &dates.origin,
        dotted(gates::SECTION.name, gates::EXCLUDE_DATES.name),
        reason,
    ));
}

/// Those that can never hold `need`, which is what the time-outs come to.
pub(super) fn check(
    tables: &Tables,
    windows: &Windows,
    need: Duration,
    problems: &mut Vec<Problem>,
) {
    let items: Vec<&Item> = tables.of(&windows::SECTION).collect();
    for short in windows.too_short(need) {
        let Some(at) = windows.each.iter().position(|window| window == short) else {
            continue;
        };
        let Some(item) = items.get(at) else {
            continue;
        };
        let written = [windows::END.name, windows::START.name];
        let written = written
            .into_iter()
            .find_map(|key| Some((key, item.keys.get(key)?)));
        let (key, origin) = match written {
            Some((key, value)) => (key, &value.origin),
            None => (windows::END.name, &item.origin),
        };
        let reason = format!(
            "makes a window that is never as long as drain.timeout, the longer of drain.cordon_only and drain.load_balancer_wait, reboot.delay and health.timeout together ({}); make it longer, \
             or one of those shorter",
            show(need)
        );
        problems.push(Problem::at(
            origin,
            dotted(windows::SECTION.name, key),
            reason,
        ));
    }
}
