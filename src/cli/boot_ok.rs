//! `kube-rebootd boot-ok`: whether this boot brought a kubelet that is alive, for what finds boots good or bad.
//!
//! Neither the API server nor the configuration nor the daemon has a say: none of them may make a boot count as bad (I7). What is
//! not known is no sign of life (I8).

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use kube_rebootd_core::alive::{Look, Signs, WHOLE};
use kube_rebootd_core::text::span;
use tokio::time::sleep;

use super::{block_on, complain, exit, print};
use crate::clock::Clock;
use crate::cluster::credentials;
use crate::host::{Bus, Store, healthz, systemd};
use crate::root::Root;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits so long for a kubelet that is alive.
pub fn main(root: &Root, at: SocketAddr, wait: Duration) -> ExitCode {
    // An image that was never joined is no bad boot. One that was, and lost its kubeconfig, is.
    if !credentials::is_node(root) && !Store::state(root).path().exists() {
        print(
            "this host is no node yet: there is no kubeconfig of a kubelet, and nothing to prove\n",
        );
        return ExitCode::SUCCESS;
    }
    block_on(async {
        let (bus, clock) = (Bus::system(), Clock::Real);
        let begun = clock.now().boot;
        let (mut signs, mut told) = (Signs::default(), String::new());
        loop {
            let healthz = healthz::ask(root, at).await;
            // Any user can listen at the port before the kubelet does: that must not make a boot a bad one. Its process that
            // stays will have to do.
            let unheard = healthz.is_err() && healthz::contended(root, at);
            let whole = systemd::main_processes(&bus, &WHOLE).await;
            let services = match whole {
                Ok(mut services) if unheard => {
                    let kubelets = systemd::kubelets(&bus).await;
                    kubelets.map(|kubelets| {
                        services.extend(kubelets);
                        services
                    })
                }
                services => services,
            };
            let look = Look {
                healthz,
                services: services.map_err(|error| error.to_string()),
            };
            let now = clock.now().boot;
            match signs.look(look, now) {
                Ok(words) => {
                    print(&format!("the kubelet of this boot is alive: {words}\n"));
                    return ExitCode::SUCCESS;
                }
                Err(missing) if now.saturating_sub(begun) >= wait => {
                    let waited = span(wait);
                    complain(&format!("no kubelet is alive within {waited}: {missing}"));
                    return ExitCode::from(exit::FAILED);
                }
                Err(missing) => {
                    if missing != told {
                        complain(&format!("waiting for the kubelet of this boot: {missing}"));
                        told = missing;
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    })
}
