//! Which other daemons that reboot hosts are seen on this node, before the cordon (I1, I8).

use super::Machine;
use super::gates::cordoned;
use crate::gates::Rivals;
use crate::rivals::{Sign, of_pods, of_units};

impl Machine {
    /// Whether they close a gate, so that units and pods are to be looked at. Also while nothing is wanted, when the host is
    /// looked at seldom: what begins to ask for a reboot is not to wait for the next look.
    pub fn rivals_matter(&self) -> bool {
        self.config.gates.rivals
    }

    /// What shows them. After the cordon it is not asked any more: whoever is seen then sees a node that takes no pods, and what has
    /// been evicted would only be evicted twice; the reboot is the shortest way to have this node back.
    pub(super) fn rivals(&self) -> Rivals {
        let hold = self.facts.record.hold.as_ref();
        if !self.rivals_matter() || hold.is_some_and(|hold| cordoned(&hold.stage)) {
            return Rivals::Ignored;
        }
        let host = self.memory.host.as_ref();
        let units = host.and_then(|host| host.rivals.as_ref());
        let pods: Option<Vec<Sign>> = match (hold, &self.memory.pods, &self.memory.blocking) {
            (Some(_), Some(pods), _) => Some(of_pods(pods)),
            (_, _, Some(_)) => Some(self.memory.rivals.clone()),
            // After a restart: there is no cordon before the watch has listed them.
            (Some(_), None, None) => Some(Vec::new()),
            (None, _, None) => None,
        };
        let unknown = match (&units, &pods) {
            (None, _) => Some("systemd did not say which units are active"),
            (_, None) => Some("the pods of this node are not listed yet"),
            _ => None,
        };
        let units = units.map(|units| of_units(units));
        let signs = [pods, units].into_iter().flatten().flatten();
        Rivals::Seen {
            signs: signs.collect(),
            unknown,
        }
    }
}
