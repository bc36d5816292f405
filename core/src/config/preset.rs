//! What well-known tools answer when asked whether a reboot is required (I8).

/// `triggers.check.preset`: command and exit codes of a known tool; explicit keys override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// dnf 4: 1 = reboot, 0 = no (needs-restarting(1)). dnf's own errors are 1 too, a plugin that is not installed
    /// among them (dnf 4.23; `packagers::presets`): it must say what it means in words as well. `-C` asks no mirror.
    NeedsRestarting,
    /// dnf 5: the same codes; `-r` is the default there.
    NeedsRestartingDnf5,
    /// zypper(8): 102 = `ZYPPER_EXIT_INF_REBOOT_NEEDED`, 0 = no, below 100 an error.
    Zypper,
    /// needrestart(1) as a Nagios check of the kernel: 1 = ABI-compatible upgrade, 2 = version
    /// upgrade, both are cured only by a reboot; 3 = it could not tell, so unknown.
    Needrestart,
    /// kured's `rebootSentinelCommand`: 0 = reboot, 1 = no. kured takes every other code as no;
    /// here it is unknown. The command is the admin's.
    Kured,
}

impl Preset {
    /// Their names; `""` is none.
    pub const WORDS: &[(&str, Option<Self>)] = &[
        ("", None),
        ("needs-restarting", Some(Self::NeedsRestarting)),
        ("needs-restarting-dnf5", Some(Self::NeedsRestartingDnf5)),
        ("zypper", Some(Self::Zypper)),
        ("needrestart", Some(Self::Needrestart)),
        ("kured", Some(Self::Kured)),
    ];

    /// The argument vector; `None` when the admin has to give one.
    pub fn command(self) -> Option<&'static [&'static str]> {
        match self {
            Self::NeedsRestarting => Some(&["dnf", "-C", "needs-restarting", "-r"]),
            Self::NeedsRestartingDnf5 => Some(&["dnf5", "-C", "needs-restarting"]),
            Self::Zypper => Some(&["zypper", "needs-rebooting"]),
            Self::Needrestart => Some(&["needrestart", "-p", "-k"]),
            Self::Kured => None,
        }
    }

    /// What standard output contains, in the C locale, where a reboot code is an answer and no error of the tool.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::NeedsRestarting | Self::NeedsRestartingDnf5 => Some("Reboot is required"),
            Self::Zypper | Self::Needrestart | Self::Kured => None,
        }
    }

    /// Exit codes that require a reboot.
    pub fn reboot_exit_codes(self) -> &'static [u8] {
        match self {
            Self::NeedsRestarting | Self::NeedsRestartingDnf5 => &[1],
            Self::Zypper => &[102],
            Self::Needrestart => &[1, 2],
            Self::Kured => &[0],
        }
    }

    /// Exit codes that say no reboot is required.
    pub fn ok_exit_codes(self) -> &'static [u8] {
        match self {
            Self::Kured => &[1],
            _ => &[0],
        }
    }
}
