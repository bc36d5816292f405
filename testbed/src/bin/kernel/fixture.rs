//! What a run left behind, for the tests of the parsers: bounded, and readable by people.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::node::Machine;

/// A file of the fixture, and what prints it on the machine.
const FILES: [(&str, &str); 3] = [
    (
        "daemon.json",
        "journalctl --quiet --no-pager -b -u kube-rebootd -n 60 -o json \
         --output-fields=MESSAGE,PRIORITY,PHASE,REASON,_PID,_BOOT_ID",
    ),
    (
        "boot.txt",
        "journalctl --quiet --no-pager -b -o short-monotonic -k -n +3; journalctl --quiet --no-pager -b -n 20 \
         -o short-monotonic -u boot-complete.target -u good.service -u systemd-bless-boot.service",
    ),
    (
        "kernels.txt",
        "cat /proc/sys/kernel/osrelease /proc/sys/kernel/version; grep btime /proc/stat; cd /boot && \
         stat -c '%Z %n' /usr/lib/modules /usr/lib/modules/* vmlinuz-* && ls efi/loader/entries",
    ),
];

pub(crate) fn write(machine: &Machine, below: Option<&Path>, name: &str) -> Result<()> {
    let Some(place) = below.map(|below| below.join(name)) else {
        return Ok(());
    };
    fs::create_dir_all(&place)?;
    for (file, line) in FILES {
        fs::write(place.join(file), machine.sh(line)?)?;
    }
    Ok(())
}
