//! The built-in checks, by their names in `triggers.builtin` and in reasons.

/// A built-in check, by its name in `triggers.builtin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Builtin {
    /// The running kernel was removed, replaced or has a successor.
    Kernel,
    /// Processes of the host map files that were replaced.
    Libraries,
}

impl Builtin {
    /// All there are, with their names.
    pub const WORDS: &[(&str, Self)] = &[("kernel", Self::Kernel), ("libraries", Self::Libraries)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Libraries => "libraries",
        }
    }

    /// As it stands in reasons, which outlive a release: never changed.
    pub fn trigger(self) -> String {
        format!("builtin {}", self.name())
    }
}
