//! The audit log: what was really asked of the API server, by whom, and what it answered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One request that was answered.
#[derive(Debug, Clone)]
pub struct Request {
    /// When it arrived.
    pub at: jiff::Timestamp,
    /// When it was answered.
    pub done: jiff::Timestamp,
    pub user_agent: String,
    pub user: String,
    /// The identity acted as, when it is another.
    pub impersonated: Option<String>,
    pub verb: String,
    /// `resource/subresource`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uri: String,
    pub code: u16,
    /// Bodies, for writes that the policy logs whole.
    pub request: Option<Arc<Value>>,
    pub response: Option<Arc<Value>>,
}

/// What was read of a log so far. That of a whole suite has 60 MB, and tests that wait for a request look again and again.
#[derive(Default)]
struct Known {
    /// The length of all whole lines.
    end: u64,
    requests: Vec<Request>,
}

/// Path, device, inode and agent. A file system may give the inode of a file that is gone to the next one, and then the log
/// of another bed would be read on in the middle: hence the path.
type Key = (PathBuf, u64, u64, String);

/// Not for everybody's requests at once, which nobody asks for again and again.
static KNOWN: Mutex<BTreeMap<Key, Known>> = Mutex::new(BTreeMap::new());

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(rename = "requestURI")]
    uri: Option<String>,
    #[serde(default)]
    user_agent: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    request_object: Option<Value>,
    response_object: Option<Value>,
    request_received_timestamp: jiff::Timestamp,
    stage_timestamp: jiff::Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// Every request by User-Agents that begin with `agent`, in order of arrival.
pub(crate) fn read(log: &Path, agent: &str) -> Result<Vec<Request>> {
    let mut file = File::open(log).context("cannot read the audit log")?;
    let of = file.metadata()?;
    let mut requests = if agent.is_empty() {
        let mut all = Known::default();
        all.go_on(&mut file, agent)?;
        all.requests
    } else {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (log.to_owned(), of.dev(), of.ino(), agent.to_owned());
        let known = known.entry(key).or_default();
        // It was written anew under the same path.
        if of.len() < known.end {
            *known = Known::default();
        }
        known.go_on(&mut file, agent)?;
        known.requests.clone()
    };
    requests.sort_by_key(|request| request.at);
    Ok(requests)
}

/// Forgets the logs below the directory of a bed that is gone: one that is made again may have the same path and inode.
pub(crate) fn forget(dir: &Path) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|(log, ..), _| !log.starts_with(dir));
}

impl Known {
    /// Reads what was written since.
    fn go_on(&mut self, file: &mut File, agent: &str) -> Result<()> {
        file.seek(SeekFrom::Start(self.end))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // The last line may be half written.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |at| at + 1));
        self.end += u64::try_from(bytes.len())?;
        let text = String::from_utf8_lossy(&bytes);
        self.requests.extend(by(agent, &text));
        Ok(())
    }
}

fn by<'a>(agent: &'a str, text: &'a str) -> impl Iterator<Item = Request> + 'a {
    text.lines().filter_map(move |line| {
        // Parsing every body of a long log is slow; the agent stands in the line as it is.
        if !line.contains(agent) {
            return None;
        }
        let line = serde_json::from_str::<Line>(line).ok()?;
        line.user_agent.starts_with(agent).then(|| request(line))
    })
}

fn request(line: Line) -> Request {
    let object = line.object_ref.unwrap_or_default();
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        subresource => format!("{}/{subresource}", object.resource),
    };
    Request {
        at: line.request_received_timestamp,
        done: line.stage_timestamp,
        user_agent: line.user_agent,
        user: line.user.username,
        impersonated: line.impersonated_user.map(|user| user.username),
        verb: line.verb,
        resource,
        namespace: object.namespace,
        name: object.name,
        uri: line.uri.unwrap_or_default(),
        code: line.response_status.map_or(0, |status| status.code),
        request: line.request_object.map(Arc::new),
        response: line.response_object.map(Arc::new),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bed::Bed;

    /// A log of one user's requests for Nodes of these names.
    fn log(nodes: &[&str]) -> String {
        let line = |node: &&str| {
            let time = "2026-01-01T00:00:00Z";
            let line = serde_json::json!({
                "verb": "get", "userAgent": "tester/1", "user": {"username": "one"},
                "objectRef": {"resource": "nodes", "name": node},
                "requestReceivedTimestamp": time, "stageTimestamp": time,
            });
            format!("{line}\n")
        };
        nodes.iter().map(line).collect()
    }

    fn names(log: &Path) -> Vec<String> {
        let requests = read(log, "tester/").unwrap();
        requests.into_iter().map(|request| request.name).collect()
    }

    #[test]
    fn a_log_that_has_the_inode_of_one_that_is_gone_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let [gone, new] = ["gone.log", "new.log"].map(|name| dir.path().join(name));
        fs::write(&gone, log(&["a", "b"])).unwrap();
        assert_eq!(names(&gone), ["a", "b"]);
        // Whether a new file gets the inode, the file system decides; one that is moved keeps its own.
        let inode = fs::metadata(&gone).unwrap().ino();
        fs::rename(&gone, &new).unwrap();
        fs::write(&new, log(&["c", "d", "e"])).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().ino(), inode);
        assert_eq!(names(&new), ["c", "d", "e"]);
    }

    #[test]
    fn a_log_is_read_on_and_anew_where_it_is_shorter_than_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        fs::write(&path, log(&["a", "b"])).unwrap();
        assert_eq!(names(&path), ["a", "b"]);
        // The last line is half written.
        let whole = log(&["a", "b", "c"]);
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        assert_eq!(names(&path), ["a", "b"]);
        fs::write(&path, &whole).unwrap();
        assert_eq!(names(&path), ["a", "b", "c"]);
        fs::write(&path, log(&["d"])).unwrap();
        assert_eq!(names(&path), ["d"]);
    }

    #[test]
    fn nothing_is_kept_of_the_logs_of_a_bed_that_is_taken_down() {
        let name = format!("no-log-{}", std::process::id());
        let dir = Bed::at(&name).unwrap().path("");
        let keep = |dir: &Path| {
            let key = (dir.join("audit.log"), 1, 2, "tester/".to_owned());
            KNOWN.lock().unwrap().insert(key, Known::default());
        };
        let beside = dir.with_file_name(format!("{name}-beside"));
        keep(&dir);
        keep(&beside);
        Bed::down(&name).unwrap();
        let known = KNOWN.lock().unwrap();
        let kept = |dir: &Path| known.keys().any(|(log, ..)| log.starts_with(dir));
        assert!(!kept(&dir));
        assert!(kept(&beside));
    }
}
