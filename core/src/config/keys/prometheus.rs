//! `[[gates.prometheus]]`

use super::{
    Choice, Conditional, PATH, QUERY, Regular, SECOND, Span, UNIQUE, URL, USER, Word, choice,
};
use crate::alerts::OnError;
use std::time::Duration;

const TEN_SECONDS: Duration = Duration::from_secs(10);
/// An answer counts for three minutes, and may take two requests.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

keys! {
    /// Alerts of a Prometheus, as many as you like, while which no reboot begins.
    ///
    /// Each is asked while a reboot is wanted, every minute or more often, and anew after the slot was taken and before the
    /// reboot.
    /// One that cannot be asked closes as well, as `on_error` says, and delays nothing else.
    /// Alerts whose names begin with KubeRebootd never count.
    /// Asked without a proxy; Thanos, Mimir and VictoriaMetrics answer as well, with the prefix of their API in `url`.
    section "gates.prometheus" each AtWill;

    /// What it is called in messages; its number where it has none.
    /// A drop-in's table with the same name replaces the whole table, one without a name is added.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// Where it is, with the prefix of its paths if it has one.
    /// There is no default.
    URL_OF "url" secret: Word = Word { default: "", rule: URL, optional: true };

    /// The alerts that count, by a regular expression that is found anywhere in their names, as kured's is: for whole names
    /// write "^(A|B)$".
    /// Empty: all of them.
    ALERTS "alerts": Regular = Regular("");

    /// Alerts that never count, in the same way.
    /// The default are two of kube-prometheus that fire all the time and mean nothing bad; what you write replaces it.
    IGNORE "ignore": Regular = Regular("^(Watchdog|InfoInhibitor)$");

    /// Of these alerts those that have these labels, as amtool(1) takes matchers: `label=value`, with `!=`, `=~` or `!~` as
    /// well, several with commas between them, values in double quotes where they have commas.
    /// Regular expressions match whole values here.
    /// Of several items one has to match; without any all alerts do.
    MATCHERS "matchers": Conditional = Conditional;

    /// Whether alerts count that do not fire yet.
    PENDING "pending": bool = false;

    /// An expression in PromQL instead of alerts: closed while it returns a sample, whatever its value, as in the rule of an
    /// alert, or a number that is not 0.
    /// An expression about a metric that is gone returns nothing: add `or absent(METRIC)`.
    QUERY_OF "query": Word = Word { default: "", rule: QUERY, optional: true };

    /// The URL of an Alertmanager whose silences count: alerts that are silenced there do not.
    /// An alert that does not fire yet is not known there, and one counts while Alertmanager cannot be asked.
    ALERTMANAGER "alertmanager" secret: Word = Word { default: "", rule: URL, optional: true };

    /// A file with the certificates that are believed for both, in PEM, instead of the host's own.
    /// Only root can change it.
    CA "ca": Word = Word { default: "", rule: PATH, optional: true };

    /// The first line of this file, which only root can change, is sent to both as `Authorization: Bearer`.
    /// It is read each time.
    TOKEN_FILE "token_file" secret: Word = Word { default: "", rule: PATH, optional: true };

    /// Who asks both by basic authentication, with the password from `password_file`.
    USERNAME "username" secret: Word = Word { default: "", rule: USER, optional: true };

    /// The first line of this file, which only root can change, is the password.
    /// It is read each time.
    PASSWORD_FILE "password_file" secret: Word = Word { default: "", rule: PATH, optional: true };

    /// How long one request may take.
    TIMEOUT "timeout": Span = Span { default: TEN_SECONDS, least: SECOND, most: LONGEST_REQUEST, bound: "" };

    /// What it counts for while it cannot be asked.
    /// "closed": no reboot begins, as who cannot see whether something burns should not add to it.
    /// "open": as if nothing were active, for those to whom updates matter more than alerts; the journal says so.
    ON_ERROR "on_error": Choice<OnError> = choice(OnError::WORDS);
}
