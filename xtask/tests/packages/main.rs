//! Packages: what they hold, what is written about them, and what the packagers' own tools say.

#![allow(clippy::unwrap_used)] // helpers of tests as well

mod built;
mod checks;
mod held;
mod images;
mod lint;
mod pages;
mod programs;
mod scripts;
mod shell;
mod spec;
mod supply;
