//! Arrays of tables whose names may be left out (I12).

use crate::config::file::{Item, Problem, Tables, dotted};
use crate::config::keys::{Section, Table};
use crate::config::reader::Reader;

/// All tables of one, and how each was read. `take` gets the name that the table has, or its place, and answers with the
/// name that counts.
pub(super) fn read<T>(
    tables: &Tables,
    section: &'static Section,
    problems: &mut Vec<Problem>,
    take: impl Fn(&mut Reader<'_>, &Item, &str) -> (String, T),
) -> (Vec<T>, Vec<Table>) {
    let (mut all, mut names, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, item) in tables.of(section).enumerate() {
        let mut r = Reader::new(section, &item.keys, problems);
        let place = (nth + 1).to_string();
        let default = if item.name.is_empty() {
            &place
        } else {
            &item.name
        };
        let (name, one) = take(&mut r, item, default);
        read.push(r.table());
        if names.contains(&name) {
            let reason = format!("{name:?} is another table's; give this one a name");
            let key = dotted(section.name, "name");
            problems.push(Problem::at(&item.origin, key, reason));
        }
        names.push(name);
        all.push(one);
    }
    (all, read)
}
