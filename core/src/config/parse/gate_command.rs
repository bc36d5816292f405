//! One `[[gates.command]]` (I12).

use super::trigger::required;
use crate::config::GateCommand;
use crate::config::file::{Item, Problem};
use crate::config::keys::{Table, gate_command as keys};
use crate::config::reader::Reader;

/// One `[[gates.command]]`, and how it was read.
pub(super) fn read(table: &Item, problems: &mut Vec<Problem>) -> (GateCommand, Table) {
    let mut r = Reader::new(&keys::SECTION, &table.keys, problems);
    let name = r.word_or(&keys::NAME, &table.name);
    let command = r.command(&keys::COMMAND, &[]);
    if command.is_empty() && r.sound(&["command"]) {
        let reason = "is empty; write it like [\"/usr/local/bin/gate\"]";
        required(&mut r, &keys::COMMAND, table, reason);
    }
    let command = GateCommand {
        name,
        command,
        timeout: r.duration(&keys::TIMEOUT),
        period: r.duration(&keys::PERIOD),
    };
    (command, r.table())
}
