//! What Prometheus is shown of a whole cycle.

use std::time::{Duration, Instant};

use super::world::{HOUR, Plan, World};

/// Far above the pause between two writes of the textfile.
const PATIENCE: Duration = Duration::from_secs(30);

/// The thread that writes the file goes by the real clock.
fn shows(world: &World, lines: &[&str]) {
    let file = world.hosts[0].path("/run/kube-rebootd.prom");
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let missing = lines
            .iter()
            .find(|line| !text.contains(&format!("{line}\n")));
        let Some(missing) = missing else { return };
        let late = start.elapsed() > PATIENCE;
        world.require(!late, &format!("{missing} is not in:\n{text}"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_counted_by_the_daemon_that_proves_it() {
    let world = World::with(Plan {
        hosts: 1,
        slots: 1,
        quorum: 0,
        config: "[metrics]\ntextfile = \"/run/kube-rebootd.prom\"\n",
    })
    .await;
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    shows(
        &world,
        &[
            "kube_rebootd_running 1.0",
            "kube_rebootd_phase{phase=\"Draining\"} 1.0",
            "kube_rebootd_reboot_required 1.0",
            "kube_rebootd_reboots_total{outcome=\"proved\",reason=\"automatic\"} 0",
        ],
    );
    world.until_rebooted(&[0], 1, HOUR).await;
    shows(
        &world,
        &[
            "kube_rebootd_phase{phase=\"Idle\"} 1.0",
            "kube_rebootd_reboot_required 0.0",
            "kube_rebootd_holding_seconds 0.0",
            "kube_rebootd_reboots_total{outcome=\"proved\",reason=\"automatic\"} 1",
            // The hosts of these tests are down for so long.
            "kube_rebootd_last_reboot_seconds{stage=\"boot\"} 45.0",
            "kube_rebootd_configuration_last_reload_successful 1.0",
        ],
    );
}
