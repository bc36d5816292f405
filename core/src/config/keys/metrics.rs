//! `[metrics]`

use super::{LISTEN, PROM_FILE, Word};

keys! {
    /// What Prometheus is shown: the names, and rules for alerts, stand in docs/operating.md, "Metrics and alerts".
    /// Nothing is shown unless one of these keys is set.
    section "metrics";

    /// Where the metrics are served over HTTP, at /metrics: `unix:` and the path of a socket, or an IP address and a port,
    /// as in `127.0.0.1:9797` or `[::1]:9797`.
    /// There is no TLS and no password: an address that other machines reach shows the metrics to all of them.
    /// A port below 1024 is refused by the sandbox of the unit.
    /// The socket can be used by every user who may enter its directory, which only root may write to.
    LISTEN_ON "listen": Word = Word { default: "", rule: LISTEN, optional: true };

    /// The file that the metrics are written to, for the textfile collector of node_exporter: it must stand in the directory
    /// that node_exporter's option `--collector.textfile.directory` names.
    /// It is replaced as a whole, after a change and once a minute; a daemon that was stopped leaves a file that says so.
    /// The sandbox of the unit allows directories of root below /run and /var/lib.
    TEXTFILE "textfile": Word = Word { default: "", rule: PROM_FILE, optional: true };
}
