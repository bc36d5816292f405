//! What people are told of a node's way: which change of it is which notice, and the notice as data (I7, I14).
//!
//! A notice goes out where the reason that the Node shows becomes another one (`condition`), as an Event does. What a Node
//! shows outlives the daemon: a restart repeats nothing, and what comes and goes is told no more often than the Node is.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::condition::Reason;
use crate::text::{MESSAGE, clean};

/// A moment that can be told, by its name in `notify.on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// A reboot is required, and has not begun.
    Required,
    /// A slot is held, and pods leave.
    Draining,
    /// The host is about to go down.
    Rebooting,
    /// It has rebooted, and is healthy.
    Rebooted,
    /// An attempt was given up; there will be another.
    Failed,
    /// Somebody has to look at the node.
    Person,
}

impl Topic {
    /// All there are, with their names.
    pub const WORDS: &[(&str, Self)] = &[
        ("required", Self::Required),
        ("draining", Self::Draining),
        ("rebooting", Self::Rebooting),
        ("rebooted", Self::Rebooted),
        ("failed", Self::Failed),
        ("person", Self::Person),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Draining => "draining",
            Self::Rebooting => "rebooting",
            Self::Rebooted => "rebooted",
            Self::Failed => "failed",
            Self::Person => "person",
        }
    }

    /// What to tell where a node's reason was `before`, as far as it showed one, and is `now`. Only what is certain: a reboot
    /// that was about to begin may have been given up.
    pub(crate) fn of(before: Option<Reason>, now: Reason) -> Option<Self> {
        let before = before.unwrap_or(Reason::Idle);
        let topic = Self::at(now);
        if now.needs_person() {
            return topic.filter(|_| before != now);
        }
        // What comes after the proof may be there before the proof was told.
        if matches!(before, Reason::Verifying | Reason::Unhealthy) && !now.of_a_hold() {
            return Some(Self::Rebooted);
        }
        // That a node goes on waiting, or draining, is no news.
        topic.filter(|_| topic != Self::at(before))
    }

    /// What a node with this reason is in the middle of.
    fn at(reason: Reason) -> Option<Self> {
        match reason {
            _ if reason.needs_person() => Some(Self::Person),
            Reason::Idle
            | Reason::Maintenance
            | Reason::ShuttingDown
            | Reason::Undoing
            | Reason::Verifying => None,
            Reason::Draining | Reason::Claiming | Reason::BlockedByBudget => Some(Self::Draining),
            Reason::Rebooting => Some(Self::Rebooting),
            Reason::Releasing => Some(Self::Rebooted),
            Reason::BackingOff => Some(Self::Failed),
            _ => Some(Self::Required),
        }
    }

    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::Required => "a reboot is required",
            Self::Draining => "draining before a reboot",
            Self::Rebooting => "rebooting",
            Self::Rebooted => "rebooted and healthy",
            Self::Failed => "an attempt to reboot was given up",
            Self::Person => "somebody has to look at this node",
        }
    }
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub topic: Topic,
    /// Name of the Node.
    pub node: String,
    pub group: String,
    /// Of the condition `RebootRequired`, as its message is.
    pub reason: String,
    /// One line of at most 1,000 characters.
    pub message: String,
    /// By the host's clock.
    pub at: Timestamp,
}

/// What a webhook takes, by its name in `notify.template`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// All of it, for programs.
    Json,
    /// Slack's, which Mattermost, Rocket.Chat and Google Chat take as well.
    Slack,
    /// An Adaptive Card, for a workflow of Microsoft Teams.
    Teams,
    Discord,
}

impl Notice {
    /// One sentence for a chat.
    fn sentence(&self) -> String {
        let (node, group, words) = (&self.node, &self.group, self.topic.words());
        let all = format!("{node} (group {group}): {words}: {}", self.message);
        clean(&all, MESSAGE)
    }

    /// What is sent. What others wrote stands in the message: it mentions nobody and links to nothing in a chat (I14).
    pub fn body(&self, template: Template) -> Value {
        match template {
            Template::Json => json!({
                "event": self.topic.name(),
                "node": self.node,
                "group": self.group,
                "reason": self.reason,
                "message": self.message,
                "time": self.at,
            }),
            Template::Slack => {
                let text = self.sentence().replace('&', "&amp;");
                json!({"text": text.replace('<', "&lt;").replace('>', "&gt;")})
            }
            Template::Teams => json!({
                "type": "message",
                "attachments": [{
                    "contentType": "application/vnd.microsoft.card.adaptive",
                    "content": {
                        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                        "type": "AdaptiveCard",
                        "version": "1.2",
                        // A TextBlock would read Markdown.
                        "body": [{
                            "type": "RichTextBlock",
                            "inlines": [{"type": "TextRun", "text": self.sentence()}],
                        }],
                    },
                }],
            }),
            Template::Discord => json!({
                "content": self.sentence(),
                "allowed_mentions": {"parse": []},
                // No previews of links.
                "flags": 4,
            }),
        }
    }

    /// The same for a command, as `NAME=VALUE`.
    pub fn environment(&self) -> Vec<String> {
        let all = [
            ("EVENT", self.topic.name()),
            ("NODE", &self.node),
            ("GROUP", &self.group),
            ("REASON", &self.reason),
            ("MESSAGE", &self.message),
        ];
        let all = all.into_iter();
        let all = all.map(|(name, value)| format!("KUBE_REBOOTD_{name}={value}"));
        all.chain([format!("KUBE_REBOOTD_TIME={}", self.at)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told on the way through these reasons, each shown by the Node in turn.
    fn told(reasons: &[Reason]) -> Vec<&'static str> {
        let mut before = None;
        let mut told = Vec::new();
        for reason in reasons {
            told.extend(Topic::of(before, *reason).map(Topic::name));
            before = Some(*reason);
        }
        told
    }

    #[test]
    fn each_moment_is_told_once() {
        use Reason::{
            BackingOff, BlockedByBudget, Claiming, Draining, Failing, Idle, LimitReached, Paused,
            Pending, Queued, Rebooting, Releasing, TriggerUnknown, Undoing, Unhealthy, Verifying,
        };
        for (reasons, expected) in [
            (&[Idle][..], &[][..]),
            (
                &[
                    Idle,
                    Pending,
                    Paused,
                    Queued,
                    Claiming,
                    Draining,
                    BlockedByBudget,
                    Draining,
                ],
                &["required", "draining"],
            ),
            (
                &[Draining, Rebooting, Verifying, Releasing, Idle],
                &["draining", "rebooting", "rebooted"],
            ),
            // The end of it was not seen on the Node.
            (&[Rebooting, Verifying, Idle], &["rebooting", "rebooted"]),
            (&[Verifying, Unhealthy, Queued], &["person", "rebooted"]),
            (
                &[Verifying, Unhealthy, Verifying, Releasing],
                &["person", "rebooted"],
            ),
            (&[Rebooting, Idle], &["rebooting"]),
            (
                &[Draining, Undoing, BackingOff, Queued],
                &["draining", "failed", "required"],
            ),
            // Each thing that a person has to look at is another one.
            (
                &[BackingOff, Failing, LimitReached],
                &["failed", "person", "person"],
            ),
            (&[Idle, TriggerUnknown, Idle], &["person"]),
        ] {
            assert_eq!(told(reasons), expected, "{reasons:?}");
        }
    }

    /// Whatever a daemon finds on its Node at a start is not told again.
    #[test]
    fn a_restart_repeats_nothing() {
        for reason in Reason::ALL {
            assert_eq!(
                Topic::of(Some(reason), reason).filter(|topic| *topic != Topic::Rebooted),
                None,
                "{reason:?}"
            );
        }
    }

    fn notice(message: &str) -> Notice {
        Notice {
            topic: Topic::Draining,
            node: "n1".to_owned(),
            group: "default".to_owned(),
            reason: "Draining".to_owned(),
            message: message.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn i14_who_writes_a_reason_neither_calls_nor_links_anybody_in_a_chat() {
        let notice = notice("<!channel> [x](http://e) @everyone & more");
        let slack = notice.body(Template::Slack);
        let sentence = "n1 (group default): draining before a reboot: <!channel> [x](http://e) @everyone & more";
        let escaped = sentence
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert_eq!(slack, json!({"text": escaped}));
        let discord = notice.body(Template::Discord);
        assert_eq!(discord["content"], sentence);
        assert_eq!(discord["allowed_mentions"], json!({"parse": []}));
        let teams = notice.body(Template::Teams);
        let block = &teams["attachments"][0]["content"]["body"][0];
        assert_eq!(block["type"], "RichTextBlock");
        assert_eq!(block["inlines"][0]["text"], sentence);
    }

    #[test]
    fn programs_get_the_facts() {
        let notice = notice("it drains");
        assert_eq!(
            notice.body(Template::Json),
            json!({
                "event": "draining", "node": "n1", "group": "default", "reason": "Draining",
                "message": "it drains", "time": "1970-01-01T00:00:00Z",
            })
        );
        assert_eq!(
            notice.environment(),
            [
                "KUBE_REBOOTD_EVENT=draining",
                "KUBE_REBOOTD_NODE=n1",
                "KUBE_REBOOTD_GROUP=default",
                "KUBE_REBOOTD_REASON=Draining",
                "KUBE_REBOOTD_MESSAGE=it drains",
                "KUBE_REBOOTD_TIME=1970-01-01T00:00:00Z",
            ]
        );
    }
}
