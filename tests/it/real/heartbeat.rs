//! What the real kubelet does with its heartbeat, the Lease in kube-node-lease: whoever counts on seeing the next one
//! (I13), or puts its place in the queue on it, rests on that.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use testbed::HostSpec;

use crate::e2e::Site;
use crate::e2e::workload::string;

/// A quarter of `nodeLeaseDurationSeconds`, and 4 % more at most by the kubelet's own clock; it waits longer where the
/// machine is busy, never less.
const BEAT: SignedDuration = SignedDuration::from_secs(10);
/// For the answer of the server, which differs from beat to beat.
const SLACK: SignedDuration = SignedDuration::from_secs(2);
/// Ours for one that waits is `kube-rebootd/waiting`; any other is kept as well.
const MARK: &str = "test.example/mark";

#[test]
fn i2_i13_a_real_kubelet_renews_its_lease_every_ten_seconds_and_keeps_what_is_on_it() {
    let site = Site::new("real-beat", 1);
    let host = site
        .bed
        .boot(&HostSpec::real("beat-r").config(site.config("")))
        .unwrap();
    let lease = |args: &[&str]| {
        let of = ["-n", "kube-node-lease"];
        site.kubectl(&[&of, args].concat())
    };
    let read = || -> Value {
        let text = lease(&["get", "lease", host.name(), "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    site.bed.wait_ready(host.name()).unwrap();
    // A Node is Ready a moment before.
    site.wait("the first heartbeat", || {
        let get = ["-n", "kube-node-lease", "get", "lease", host.name()];
        site.bed.kubectl(&get).map(|_| true)
    });
    assert_eq!(read()["spec"]["leaseDurationSeconds"], 40);
    lease(&["annotate", "lease", host.name(), &format!("{MARK}=kept")]);
    let mut beats: Vec<Timestamp> = Vec::new();
    site.wait("three heartbeats after that", || {
        let renewed = string(&read()["spec"]["renewTime"]).parse()?;
        if beats.last() != Some(&renewed) {
            beats.push(renewed);
        }
        Ok(beats.len() == 4)
    });
    let apart = beats.windows(2).map(|two| two[1].duration_since(two[0]));
    let shortest = apart.min().unwrap();
    assert!((shortest - BEAT).abs() <= SLACK, "{beats:?}");
    assert_eq!(read()["metadata"]["annotations"][MARK], "kept");
}
