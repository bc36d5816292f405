//! The one binary: everything is in the library.

use std::process::ExitCode;

use kube_rebootd::cli;

fn main() -> ExitCode {
    // kube's clients need a crypto provider; only one is compiled in, so that this cannot fail twice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main(cli::parse())
}
