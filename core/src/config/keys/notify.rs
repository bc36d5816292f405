//! `[notify]`

use super::{
    Choice, Choices, Command, PATH, SECOND, Silences, Span, URL, Word, choice, hours, minutes,
};
use crate::topic::{Template, Topic};

const TEN_SECONDS: std::time::Duration = std::time::Duration::from_secs(10);

keys! {
    /// Who is told of a reboot: people by a webhook, a command, or both, and whoever logs in on the host; and whose
    /// alerts are silent meanwhile.
    ///
    /// A notice goes out where the reason of the Node's condition `RebootRequired` becomes another one, once that is written
    /// on the Node: where the API server takes no conditions from this node, there are none.
    /// Of a node that somebody keeps drained only "person" is told.
    /// Nothing waits for one.
    /// Each is tried up to five times; what is not delivered when the daemon ends or the host goes down is lost.
    section "notify";

    /// An HTTP POST goes there, without a proxy.
    /// `config show` prints it, and no message does: where it holds a secret, as those of Slack do, write `webhook_file`.
    WEBHOOK "webhook" secret: Word = Word { default: "", rule: URL, optional: true };

    /// The same, from the first line of a file that only root can change.
    WEBHOOK_FILE "webhook_file" secret: Word = Word { default: "", rule: PATH, optional: true };

    /// The first line of this file, which only root can change, is sent as `Authorization: Bearer`.
    TOKEN_FILE "token_file" secret: Word = Word { default: "", rule: PATH, optional: true };

    /// What is sent.
    /// "json": the keys `event`, `node`, `group`, `reason`, `message` and `time`.
    /// "slack": a `text`, for Slack, Mattermost, Rocket.Chat and Google Chat.
    /// "teams": an Adaptive Card, for a workflow of Microsoft Teams.
    /// "discord": a `content`, for Discord.
    TEMPLATE "template": Choice<Template> = choice(&[
        ("json", Template::Json),
        ("slack", Template::Slack),
        ("teams", Template::Teams),
        ("discord", Template::Discord),
    ]);

    /// A program that only root can change, and its arguments, run as a check command is: by root, outside of the daemon's
    /// sandbox, without a shell.
    /// It finds what "json" sends in the variables `KUBE_REBOOTD_EVENT`, `KUBE_REBOOTD_NODE` and so on, which any user of the
    /// host can see meanwhile.
    /// Any exit code but 0 has it run again.
    /// As an argument may be a secret, a reload says only that it changed; but while the program runs, any user sees its arguments.
    COMMAND "command" secret: Command = Command;

    /// What is told; empty: all of it.
    /// "required": a reboot is wanted; "draining": it has begun; "rebooting": the host is about to go down; "rebooted": it is
    /// back and healthy; "failed": an attempt was given up, and there will be another; "person": somebody has to look at the
    /// node.
    ON "on": Choices<Topic> = Choices { words: Topic::WORDS, what: "events", default: &[] };

    /// How long one try may take.
    TIMEOUT "timeout": Span = Span { default: TEN_SECONDS, least: SECOND, most: minutes(5), bound: "" };

    /// Whether `/run/motd.d/kube-rebootd` says, to everybody who logs in, that the host requires a reboot, is about to reboot, or
    /// needs somebody, and what the daemon waits for: the words of `systemctl status`.
    /// The file is there only as long as there is something to say; pam_motd(8) shows it.
    /// Not by default: what a host says at its login is up to whoever runs it.
    // And like all of this table, it tells nobody of anything before somebody wrote that it should.
    MOTD "motd": bool = false;

    /// The URL of an Alertmanager (0.22 or newer), with the prefix of its paths if it has one: alerts about this node are
    /// silenced there while it drains, reboots and proves its boot, and while somebody keeps it drained.
    /// The silence ends with that, and when the node is not healthy within `health.timeout`.
    /// It never covers alerts whose names begin with KubeRebootd: those that say that a node does not come back.
    /// Asked as a webhook is: without a proxy, within `timeout` for each request, and nothing waits for it.
    ALERTMANAGER "alertmanager" secret: Word = Word { default: "", rule: URL, optional: true };

    /// The first line of this file, which only root can change, is sent there as `Authorization: Bearer`.
    ALERTMANAGER_TOKEN_FILE "alertmanager_token_file" secret: Word = Word { default: "", rule: PATH, optional: true };

    /// What is silenced: one silence for each item, whose matchers all have to match, as amtool(1) takes them:
    /// `label=value`, with `!=`, `=~` or `!~` as well, several with commas between them, values in double quotes where they
    /// have commas.
    /// Where one Alertmanager serves several clusters, add the label that tells them apart: "node={node},cluster=prod".
    /// {node} stands for the name of the Node and {hostname} for that of the host, with which an item has to name this
    /// node; in regular expressions, which match whole values, their dots match dots alone.
    /// Right after either there is no `.*` and no `.+`: n10 begins with n1.
    /// The host's name is the one at the daemon's start; where that is `localhost` or no DNS name, no item with {hostname} is silenced.
    /// For alerts that have only an address in the label `instance`: "instance=~{hostname}(:[0-9]+)?".
    SILENCE "silence": Silences = Silences(&["node={node}"]);

    /// How long a silence lasts that is not renewed, as the daemon was killed or the host does not come back.
    /// It is renewed whenever a third of it is over and right before the reboot: shutdown and boot should take no longer than
    /// two thirds of it.
    SILENCE_FOR "silence_for": Span = Span { default: minutes(15), least: minutes(3), most: hours(6), bound: "" };
}
