//! What people are told of a node's way, as data, and as a webhook or a command takes it (I14). `condition` says when.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::text::{MESSAGE, clean};
use crate::topic::{Template, Topic};

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
