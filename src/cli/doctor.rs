//! stub
use crate::root::Root;
use std::path::PathBuf;
use std::process::ExitCode;
pub fn main(_root: Root, _config: Option<PathBuf>) -> ExitCode {
    ExitCode::SUCCESS
}
