# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_kube_rebootd_global_optspecs
    string join \n config= root= h/help V/version
end

function __fish_kube_rebootd_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_kube_rebootd_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_kube_rebootd_using_subcommand
    set -l cmd (__fish_kube_rebootd_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -s V -l version -d 'Print version'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "run" -d 'Run the daemon; systemd starts it'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "status" -d 'What this node does and why; exits 3 when the daemon does not run, 1 when systemd does not answer'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "explain" -d 'Why a node is where it is: its triggers, gates and limits, its place in the queue, and what would become of its pods'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "check" -d 'What the triggers say now; exits 75 while a package manager works or something inhibits a shutdown, 1 when one does not answer'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "doctor" -d 'Look for everything that would keep this node from rebooting well, and name the cures; exits 1 on a failure'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "boot-ok" -d 'Whether this boot brought a kubelet that is alive; waits for it, and exits 1 when it does not come'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "drain" -d 'Take a slot, drain this node and keep it so for maintenance, over reboots as well, until `undrain` (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "undrain" -d 'End a `drain`: the host is proved healthy, then the node is uncordoned and its slot freed (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "hold" -d 'As `drain`, for scripts that reboot or repair the host themselves; until `release` (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "release" -d 'End a `hold`: the host is proved healthy, then the node is uncordoned and its slot freed (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "nodes" -d 'The group and all nodes, from anywhere: who holds a slot, who waits, who needs a person'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "pause" -d 'Keep nodes, a group, or all groups from beginning a reboot, until `resume`'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "resume" -d 'End a pause, whoever made it, or open new slots'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "reboot" -d 'Ask for a reboot when it is this host\'s turn, or that of the nodes: gates, slot and drain as ever'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "cancel" -d 'Take a `reboot` back, also in the middle of its drain'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "retry" -d 'End this host\'s wait after a failed attempt (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "unlock" -d 'Free the slot of a node that will not give it back by itself (as an admin)'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "manifests" -d 'Print the manifests that a cluster needs'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "migrate" -d 'Carry the settings of another reboot daemon over'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "config" -d 'Look at or check the configuration'
complete -c kube-rebootd -n "__fish_kube_rebootd_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand run" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand run" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand run" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand status" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand status" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand status" -l json -d 'For programs: one stable JSON object'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand status" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -l json -d 'For programs: one stable JSON object; without NODE with all keys of `status --json`'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand check" -l builtin -d 'Only this built-in check, configured or not' -r -f -a "kernel\t''
libraries\t''"
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand check" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand check" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand check" -l json -d 'For programs: one stable JSON object'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand check" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand doctor" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand doctor" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand doctor" -l json -d 'For programs: one stable JSON object'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand boot-ok" -l healthz -d 'Where the kubelet answers: `healthzBindAddress` and `healthzPort` of its configuration' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand boot-ok" -l wait -d 'Wait so long for it' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand boot-ok" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand boot-ok" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand boot-ok" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand drain" -l reason -d 'Why, for whoever looks [default: who, and when]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand drain" -l wait -d 'Wait so long until the node is drained; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0 at once' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand drain" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand drain" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -l timeout -d 'Give up trying to release after this many seconds; hooks of undo.d that run then are waited for, as long as they may take' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -l wait -d 'Wait so long until the slot is given up; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0 at once' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -l release -d 'With the daemon stopped: uncordon, take the label off, free the slot, without a look at the host\'s health'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand undrain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand hold" -l reason -d 'Why, for whoever looks [default: who, and when]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand hold" -l wait -d 'Wait so long until the node is drained; exits 75 when it is not, and takes the wish back. Without it the verb asks, and exits 0 at once' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand hold" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand hold" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand hold" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand release" -l wait -d 'Wait so long until the slot is given up; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0 at once' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand release" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand release" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand release" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l group -d 'The slots and nodes of this group alone [default: the slots of the node\'s group, with its own credential, else of the configured one, and all nodes]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l slo -d 'How many nodes were rebooted and proved within this time since the first reason was seen (`14d`, `36h`), which were not or wait for longer, and what held them' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l unhealthy -d 'Only nodes that a person has to look at; exit code 1 if there is one, and also if not all can be seen (not with --watch)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l json -d 'Print JSON; keys are added, never renamed or removed'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -l watch -d 'Show it again whenever it changes, until Ctrl-C: on a terminal drawn anew, else what changed, a line each with a time; with --json a whole document on each line'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand nodes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l group -d 'All slots of this group' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l reason -d 'Why, for whoever looks [default: who, and when]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -l all -d 'All slots of all groups'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l group -d 'All slots of this group' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l reason -d 'Only what is paused for this reason' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -l all -d 'All slots of all groups'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand resume" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l kind -d '`reboot` is a full one, `soft-reboot` one of the userspace alone; what else asks for a full one gets it [default: reboot.kind]' -r -f -a "reboot\t''
soft-reboot\t''"
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l reason -d 'Why, for whoever looks [default: who, and when]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -l now -d 'Do not wait for a window, for users, for `gates.min_uptime`, or after a failed attempt; a pause, inhibitors, package managers, the slot and budgets are waited for as ever'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand reboot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand cancel" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand retry" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand retry" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand retry" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -l force -d 'Also when the node is Ready, so that its own daemon could give the slot back, or said that it goes down now'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand unlock" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l group -d 'Print slots as well, of this group [default: default]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l slots -d 'Print so many slots as well: how many nodes of the group may be down at once [default: 1]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l strict -d 'These nodes prove who they are (`coordination.prove_node = true` there), and write only their own name into a slot' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l constrained -d 'Nodes act as the coordinator for the daemon\'s requests only; servers from 1.36'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -l capacity -d 'Nodes may list the pods of all namespaces as well: for `gates.capacity_wait`'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand manifests" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and not __fish_seen_subcommand_from kured help" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and not __fish_seen_subcommand_from kured help" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and not __fish_seen_subcommand_from kured help" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and not __fish_seen_subcommand_from kured help" -f -a "kured" -d 'Print what the flags of a kured become: a configuration, what has no equivalent, and the order of the hand-over'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and not __fish_seen_subcommand_from kured help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l manifest -d 'The DaemonSet of kured in this file, YAML or JSON, among others as well; - is standard input [default: that of the cluster]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l kubeconfig -d 'Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config]' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l context -d 'Use this context of the kubeconfig [default: its current one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l namespace -d 'The namespace of the slots [default: the configured one]' -r
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from kured" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from help" -f -a "kured" -d 'Print what the flags of a kured become: a configuration, what has no equivalent, and the order of the hand-over'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand migrate; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "show" -d 'Print the effective values, each with the file it came from'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "check" -d 'Check files alone, or this host\'s own configuration'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and not __fish_seen_subcommand_from show check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from show" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from show" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from check" -l config -d 'Use this file instead of config.toml (drop-ins still apply)' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from check" -l root -d 'Look for every host path below this directory, for tests and images' -r -F
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print the effective values, each with the file it came from'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check files alone, or this host\'s own configuration'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "run" -d 'Run the daemon; systemd starts it'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "status" -d 'What this node does and why; exits 3 when the daemon does not run, 1 when systemd does not answer'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "explain" -d 'Why a node is where it is: its triggers, gates and limits, its place in the queue, and what would become of its pods'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "check" -d 'What the triggers say now; exits 75 while a package manager works or something inhibits a shutdown, 1 when one does not answer'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "doctor" -d 'Look for everything that would keep this node from rebooting well, and name the cures; exits 1 on a failure'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "boot-ok" -d 'Whether this boot brought a kubelet that is alive; waits for it, and exits 1 when it does not come'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "drain" -d 'Take a slot, drain this node and keep it so for maintenance, over reboots as well, until `undrain` (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "undrain" -d 'End a `drain`: the host is proved healthy, then the node is uncordoned and its slot freed (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "hold" -d 'As `drain`, for scripts that reboot or repair the host themselves; until `release` (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "release" -d 'End a `hold`: the host is proved healthy, then the node is uncordoned and its slot freed (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "nodes" -d 'The group and all nodes, from anywhere: who holds a slot, who waits, who needs a person'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "pause" -d 'Keep nodes, a group, or all groups from beginning a reboot, until `resume`'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "resume" -d 'End a pause, whoever made it, or open new slots'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "reboot" -d 'Ask for a reboot when it is this host\'s turn, or that of the nodes: gates, slot and drain as ever'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "cancel" -d 'Take a `reboot` back, also in the middle of its drain'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "retry" -d 'End this host\'s wait after a failed attempt (as root)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "unlock" -d 'Free the slot of a node that will not give it back by itself (as an admin)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "manifests" -d 'Print the manifests that a cluster needs'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "migrate" -d 'Carry the settings of another reboot daemon over'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "config" -d 'Look at or check the configuration'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and not __fish_seen_subcommand_from run status explain check doctor boot-ok drain undrain hold release nodes pause resume reboot cancel retry unlock manifests migrate config help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and __fish_seen_subcommand_from migrate" -f -a "kured" -d 'Print what the flags of a kured become: a configuration, what has no equivalent, and the order of the hand-over'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Print the effective values, each with the file it came from'
complete -c kube-rebootd -n "__fish_kube_rebootd_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check files alone, or this host\'s own configuration'
