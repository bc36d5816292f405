//! What the kernel says about a process.

use std::fmt::Write;
use std::{fs, io};

use anyhow::{Context, Result};
use nix::errno::Errno;

/// One look at a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// Resident memory, MB.
    pub(crate) resident: f64,
    /// The most it ever was, MB.
    pub(crate) peak: f64,
    /// How often a thread gave up the CPU to wait: each is a wake-up to come.
    pub(crate) waits: u64,
    /// CPU time, seconds.
    pub(crate) cpu: f64,
}

/// Files of a process that [`Look::read`] wants, by a prefix: `status` of the process, `status` and
/// `schedstat` of its threads. Printed so on a host, or read here.
pub(crate) const SHOW: &str = "cat /proc/$pid/status; \
    for t in /proc/$pid/task/*; do sed 's/^/thread /' $t/status; sed 's/^/thread cpu: /' $t/schedstat; done";

impl Look {
    /// From what [`SHOW`] prints.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let megabytes = |key: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next());
            let kib: f64 = number.context("the kernel tells no memory")?.parse()?;
            Ok(kib * 1024.0 / 1e6)
        };
        let sum = |key: &str| -> u64 {
            text.lines()
                .filter_map(|line| {
                    line.strip_prefix(key)?
                        .split_whitespace()
                        .next()?
                        .parse::<u64>()
                        .ok()
                })
                .sum()
        };
        // Nanoseconds of a bench fit a double exactly enough: 2^53 ns are 104 days.
        #[allow(clippy::cast_precision_loss)]
        Ok(Self {
            resident: megabytes("VmRSS:")?,
            peak: megabytes("VmHWM:")?,
            waits: sum("thread voluntary_ctxt_switches:"),
            cpu: sum("thread cpu:") as f64 / 1e9,
        })
    }

    /// A process of this machine.
    pub(crate) fn at(pid: u32) -> Result<Self> {
        let mut text = fs::read_to_string(format!("/proc/{pid}/status"))?;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?.path();
            let read = |name| fs::read_to_string(task.join(name));
            let (status, times) = match (read("status"), read("schedstat")) {
                (Ok(status), Ok(times)) => (status, times),
                // A thread that ended since it was listed is no part of the look; anything else is no figure.
                (Err(error), _) | (_, Err(error)) if ended(&error) => continue,
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            for line in status.lines() {
                let _ = writeln!(text, "thread {line}");
            }
            let _ = write!(text, "thread cpu: {times}");
        }
        Self::read(&text)
    }
}

/// As /proc says that a thread is gone: when its file is opened, or when it is read.
fn ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read() {
        let text = "VmHWM:\t 9000 kB\nVmRSS:\t 8000 kB\nvoluntary_ctxt_switches:\t3\n\
            thread voluntary_ctxt_switches:\t3\nthread nonvoluntary_ctxt_switches:\t7\nthread cpu: 2000000000 5 6\n\
            thread voluntary_ctxt_switches:\t4\nthread cpu: 500000000 5 6\n";
        let look = Look::read(text).unwrap();
        assert_eq!(look.waits, 7);
        assert!((look.cpu - 2.5).abs() < 1e-9);
        assert!((look.resident - 8.192).abs() < 1e-9);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(Look::at(std::process::id()).unwrap().resident > 0.5);
    }
}
