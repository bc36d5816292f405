//! Which alerts of Prometheus speak against a reboot, and which answers to an expression do (I8, I14).
//!
//! Alerts are read as samples of `ALERTS`, which Prometheus writes for each that is active: the list of its API is empty after
//! a restart until the rules are evaluated again, these are not, and servers that only store them have no such list. What is
//! silenced says Alertmanager, which knows the alert with the external labels that silences name as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::matcher::{self, ALERT, Matcher, NoMatchers, OWN, filter, literal};
use crate::pattern::Pattern;
use crate::text::{NAME, WORDS, clean};

#[cfg(test)]
mod tests;

/// `alertstate` of the samples.
const STATE: &str = "alertstate";
/// Alerts that are named to people; Prometheus shows them all.
const NAMED: usize = 5;
/// Of so many alerts nobody asks which are silenced.
const MANY: usize = 500;

/// One Prometheus, and what is asked of it: a `[[gates.prometheus]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A label value, unique.
    pub name: String,
    /// With the prefix of its paths.
    pub url: String,
    pub asks: Asks,
    /// Whose silences count.
    pub alertmanager: Option<String>,
    /// Absolute path of the certificates that are believed, instead of the host's.
    pub ca: Option<PathBuf>,
    pub login: Login,
    /// For one request.
    pub timeout: Duration,
    pub on_error: OnError,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    Nobody,
    /// Absolute path of a file whose first line is a bearer token.
    Token(PathBuf),
    Password {
        user: String,
        /// Absolute path of a file whose first line it is.
        file: PathBuf,
    },
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    Alerts(Selection),
    /// In `PromQL`, closed as a rule of an alert would be.
    Query(String),
}

/// What a server counts for that cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    Closed,
    Open,
}

impl OnError {
    /// In the configuration; the first is the default.
    pub const WORDS: &[(&str, Self)] = &[("closed", Self::Closed), ("open", Self::Open)];
}

/// Which alerts count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Names that have it alone; none: all.
    pub only: Option<Pattern>,
    /// Names that have it never count.
    pub ignore: Option<Pattern>,
    /// One of these has to match; none: all alerts do.
    pub matchers: Vec<Conditions>,
    /// Also those that do not fire yet.
    pub pending: bool,
}

/// Matchers that all have to match the labels of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    given: String,
    all: Vec<(Matcher, Option<Pattern>)>,
}

/// Why a text is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoConditions {
    #[error(transparent)]
    Matchers(#[from] NoMatchers),
    #[error("has {value:?}, which {why}")]
    Pattern { value: String, why: String },
}

type Labels = BTreeMap<String, String>;

/// One that is active and counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    labels: Labels,
    pending: bool,
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("its answer is none of Prometheus' API v1")]
    Prometheus,
    #[error("its answer is none of Alertmanager's API v2")]
    Alertmanager,
    #[error("the query has another result than samples of one moment or a number")]
    Kind,
    #[error("its answer may lack something: {0}")]
    Lacks(String),
}

impl FromStr for Conditions {
    type Err = NoConditions;

    fn from_str(given: &str) -> Result<Self, NoConditions> {
        let compiled = |matcher: Matcher| {
            if !matcher.is_regex {
                return Ok((matcher, None));
            }
            match Pattern::whole(&matcher.value) {
                Ok(pattern) => Ok((matcher, Some(pattern))),
                Err(why) => {
                    let value = matcher.value;
                    Err(NoConditions::Pattern { value, why })
                }
            }
        };
        let all = matcher::conditions(given)?;
        Ok(Self {
            given: given.to_owned(),
            all: all.into_iter().map(compiled).collect::<Result<_, _>>()?,
        })
    }
}

impl Conditions {
    /// As the configuration has it.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    /// A label that is missing is empty, as everywhere in Prometheus.
    fn match_all(&self, labels: &Labels) -> bool {
        self.all.iter().all(|(matcher, pattern)| {
            let value = labels.get(&matcher.name).map_or("", String::as_str);
            let matches = match pattern {
                Some(pattern) => pattern.matches(value),
                None => matcher.value == value,
            };
            matches == matcher.is_equal
        })
    }
}

impl Selection {
    /// Our own alerts never do: a node that waits too long would wait for the alert which says so.
    fn counts(&self, alert: &Alert) -> bool {
        let name = alert.name();
        let has = |pattern: &Pattern| pattern.matches(name);
        let (only, ignore) = (&self.only, &self.ignore);
        !name.starts_with(OWN)
            && only.as_ref().is_none_or(has)
            && !ignore.as_ref().is_some_and(has)
            && (self.matchers.is_empty()
                || self.matchers.iter().any(|one| one.match_all(&alert.labels)))
            && (self.pending || !alert.pending)
    }
}

impl Asks {
    /// Follows the URL of the server.
    pub fn path(&self) -> String {
        let query = match self {
            Self::Query(query) => query,
            Self::Alerts(selection) if selection.pending => "ALERTS",
            Self::Alerts(_) => "ALERTS{alertstate=\"firing\"}",
        };
        let bytes = query.bytes().map(|byte| format!("%{byte:02X}"));
        format!("/api/v1/query?query={}", bytes.collect::<String>())
    }
}

impl Alert {
    fn of(mut labels: Labels) -> Self {
        labels.remove("__name__");
        let state = labels.remove(STATE);
        Self {
            labels,
            // A state of a later Prometheus is taken for the worse one.
            pending: state.as_deref() == Some("pending"),
        }
    }

    fn name(&self) -> &str {
        self.labels.get(ALERT).map_or("", String::as_str)
    }

    /// `labels` are those of this alert, and external ones.
    fn is(&self, labels: &Labels) -> bool {
        let same = |(name, value)| labels.get(name) == Some(value);
        self.labels.iter().all(same)
    }
}

/// Few of them by name, for people; none: there is none.
pub fn words(alerts: &[Alert]) -> Option<String> {
    // One that fires counts before those of its name that do not.
    let mut names: BTreeMap<String, bool> = BTreeMap::new();
    for alert in alerts {
        let pending = names.entry(clean(alert.name(), NAME)).or_insert(true);
        *pending &= alert.pending;
    }
    let shown = names
        .iter()
        .take(NAMED)
        .map(|(name, pending)| match pending {
            true => format!("{name} (pending)"),
            false => name.clone(),
        });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("active alerts: {shown}{more}"))
}

#[derive(Debug, Deserialize)]
struct Answer {
    data: Data,
    #[serde(default)]
    warnings: Vec<String>,
    /// As `VictoriaMetrics` calls it when one of its stores is away.
    #[serde(default, rename = "isPartial")]
    partial: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
    Scalar(Value),
    Matrix(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Sample {
    metric: Labels,
    /// A histogram has none.
    value: Option<Value>,
}

/// When, and a number in words.
type Value = (IgnoredAny, String);

/// Samples, or a number; and what the answer lacks, if anything: with that it never says that nothing is active (I8).
fn read(answer: &[u8]) -> Result<(Data, Result<(), Unclear>), Unclear> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|_| Unclear::Prometheus)?;
    let whole = match answer.warnings.first() {
        Some(first) => Err(Unclear::Lacks(clean(first, WORDS))),
        None if answer.partial => Err(Unclear::Lacks("the answer is partial".to_owned())),
        None => Ok(()),
    };
    Ok((answer.data, whole))
}

/// A number that says no.
fn zero(value: &Value) -> bool {
    value.1.parse() == Ok(0.0)
}

/// The alerts of an answer that count.
pub fn active(answer: &[u8], selection: &Selection) -> Result<Vec<Alert>, Unclear> {
    let (Data::Vector(samples), whole) = read(answer)? else {
        return Err(Unclear::Prometheus);
    };
    let there = samples
        .into_iter()
        .filter(|one| !one.value.as_ref().is_some_and(zero));
    let alerts = there.map(|one| Alert::of(one.metric));
    let alerts: Vec<Alert> = alerts.filter(|one| selection.counts(one)).collect();
    if alerts.is_empty() {
        whole?;
    }
    Ok(alerts)
}

/// What an answer to a query says against a reboot, for people: as in a rule of an alert each sample does, whatever its
/// value, and so does every number but 0.
pub fn against(answer: &[u8]) -> Result<Option<String>, Unclear> {
    let (data, whole) = read(answer)?;
    let samples = match data {
        Data::Vector(samples) => samples,
        Data::Scalar(value) if zero(&value) => return whole.map(|()| None),
        Data::Scalar((_, value)) => {
            return Ok(Some(format!("the query is {}", clean(&value, NAME))));
        }
        Data::Matrix(_) | Data::String(_) => return Err(Unclear::Kind),
    };
    let Some(first) = samples.first() else {
        return whole.map(|()| None);
    };
    let label = |(name, value): (&String, &String)| format!("{name}={value:?}");
    let labels: Vec<String> = first.metric.iter().map(label).collect();
    let value = first.value.as_ref().map_or("", |(_, value)| value);
    let sample = clean(&format!("{{{}}} {value}", labels.join(",")), WORDS);
    Ok(Some(match samples.len() {
        1 => format!("the query returns {sample}"),
        all => format!("the query returns {all} samples, the first is {sample}"),
    }))
}

/// What Alertmanager is asked about these, after its URL; none: nothing, as it does not know alerts that do not fire, or as
/// there are too many.
pub fn silences_path(alerts: &[Alert]) -> Option<String> {
    if alerts.len() > MANY || alerts.iter().any(|one| one.pending) {
        return None;
    }
    let names: BTreeSet<&str> = alerts.iter().map(Alert::name).collect();
    let names: Vec<String> = names.into_iter().map(literal).collect();
    let matcher = Matcher {
        name: ALERT.to_owned(),
        value: names.join("|"),
        is_regex: true,
        is_equal: true,
    };
    let filter = filter(&[matcher]);
    Some(format!(
        "/api/v2/alerts?active=true&silenced=true&inhibited=true&unprocessed=true&filter={filter}"
    ))
}

/// As Alertmanager lists it.
#[derive(Debug, Deserialize)]
struct Known {
    labels: Labels,
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    silenced_by: Vec<IgnoredAny>,
}

/// Those of `alerts` that no silence covers, by what Alertmanager lists. It may list one several times, once for each
/// Prometheus that sent it with external labels of its own: each of them has to be silenced.
pub fn unsilenced(alerts: Vec<Alert>, answer: &[u8]) -> Result<Vec<Alert>, Unclear> {
    let known: Vec<Known> = serde_json::from_slice(answer).map_err(|_| Unclear::Alertmanager)?;
    let (mut silenced, mut loud) = (BTreeSet::new(), BTreeSet::new());
    for one in &known {
        // It may be one that has more labels than another of its name: it is the one that has most of them.
        let fits = alerts.iter().enumerate().filter(|(_, alert)| {
            alert.labels.get(ALERT) == one.labels.get(ALERT) && alert.is(&one.labels)
        });
        let Some((at, _)) = fits.max_by_key(|(_, alert)| alert.labels.len()) else {
            continue;
        };
        if one.status.silenced_by.is_empty() {
            loud.insert(at);
        } else {
            silenced.insert(at);
        }
    }
    let alerts = alerts.into_iter().enumerate();
    let left = alerts.filter(|(at, _)| loud.contains(at) || !silenced.contains(at));
    Ok(left.map(|(_, alert)| alert).collect())
}
