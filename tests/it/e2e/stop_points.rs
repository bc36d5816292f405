//! The debug build's stop points, from outside the host: see `src/daemon/stop_point.rs`.

use std::fs;

use anyhow::Result;
use testbed::{Host, HostSpec};

const POINTS: &str = "/var/lib/kube-rebootd.points";
const STOP_AT: &str = "/var/lib/kube-rebootd.stop-at";

/// The program that has them.
pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-rebootd");

/// With this program, whose unit may write both files, as a release's may not.
pub(super) fn program(spec: HostSpec) -> HostSpec {
    let drop_in = "/etc/systemd/system/kube-rebootd.service.d/50-stop-points.conf";
    spec.program(PROGRAM)
        .file(drop_in, "[Service]\nReadWritePaths=/var/lib\n")
}

/// From now on points are written down, and the daemon stops at one of them: `WORDS`, or the first that
/// begins so with `WORDS*`.
pub(super) fn record(host: &Host, stop_at: Option<&str>) -> Result<()> {
    let _ = fs::remove_file(host.outer(STOP_AT));
    fs::write(host.outer(POINTS), "")?;
    if let Some(point) = stop_at {
        fs::write(host.outer(STOP_AT), point)?;
    }
    Ok(())
}

/// What was passed, in whole lines: the last may be half written.
pub(super) fn passed(host: &Host) -> Vec<String> {
    let text = fs::read_to_string(host.outer(POINTS)).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(str::to_owned).collect()
}

/// The process that stopped itself, once the kernel says so too.
pub(super) fn stopped(host: &Host) -> Option<String> {
    let points = passed(host);
    let pid = points
        .iter()
        .find_map(|line| line.strip_prefix("stopped "))?;
    let stat = fs::read_to_string(host.outer(&format!("/proc/{pid}/stat"))).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (state == 'T').then(|| pid.to_owned())
}
