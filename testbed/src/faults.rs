//! What a test does to a bed: its API server, store and network fail, and come back.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::Bed;
use crate::{control_plane, ground};

/// A slow store stands still this long, many times as long as it runs: most requests meet it standing. Above 1.7 s,
/// where a daemon that believed an answer by its age never rebooted.
const STORE_STANDS: Duration = Duration::from_secs(3);
const STORE_RUNS: Duration = Duration::from_millis(150);

impl Bed {
    /// Kills the API server.
    pub fn stop_api_server(&self) -> Result<()> {
        self.signal("kube-apiserver", Signal::SIGKILL)?;
        self.wait_for("the API server to end", Duration::from_secs(10), || {
            Ok(self.pids("kube-apiserver")?.is_empty())
        })
    }

    /// Starts it again on the same data.
    pub fn start_api_server(&self) -> Result<()> {
        control_plane::api_server(self)
    }

    /// Processes of the control plane by name.
    fn pids(&self, name: &str) -> Result<Vec<i32>> {
        let procs = fs::read_to_string(ground::cgroup(self.name()).join("control/cgroup.procs"))?;
        let pids = procs.lines().filter_map(|line| line.parse().ok());
        let is = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| name.starts_with(comm.trim()))
        };
        Ok(pids.filter(is).collect())
    }

    /// Takes a host off the network, over reboots too, until it is mended.
    pub fn cut_network(&self, host: &str) -> Result<()> {
        ground::cut(self.name(), &self.host(host)?.address()?)
    }

    /// Puts it back.
    pub fn mend_network(&self, host: &str) -> Result<()> {
        ground::mend(self.name(), &self.host(host)?.address()?)
    }

    /// Loses 30 % of a host's packets, over reboots too, until `lose_no_packets`.
    pub fn lose_packets(&self, host: &str) -> Result<()> {
        ground::lose(self.name(), &self.host(host)?.address()?)
    }

    /// Loses none any more.
    pub fn lose_no_packets(&self, host: &str) -> Result<()> {
        ground::lose_none(self.name(), &self.host(host)?.address()?)
    }

    /// The store stands still: the API server waits for it.
    pub fn pause_store(&self) -> Result<()> {
        self.signal("etcd", Signal::SIGSTOP)
    }

    /// The store goes on.
    pub fn resume_store(&self) -> Result<()> {
        self.signal("etcd", Signal::SIGCONT)
    }

    /// Makes the store take seconds per write until `stop` is set: it stands still most of the time.
    pub fn slow_store(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.pause_store()?;
            thread::sleep(STORE_STANDS);
            self.resume_store()?;
            thread::sleep(STORE_RUNS);
        }
        Ok(())
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        for pid in self.pids(name)? {
            kill(Pid::from_raw(pid), signal)?;
        }
        Ok(())
    }
}
