//! A bus with a fake logind and a fake systemd, for hosts that are directory trees.

use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};

use crate::fake_bus::FakeHostBus;

/// The bus, served by a thread of its own.
pub(crate) struct Bus {
    bus: FakeHostBus,
}

impl Bus {
    /// Starts it. A reboot that is asked for is counted, and begins no shutdown: the bench ends the daemon.
    pub(crate) fn start() -> Result<Self> {
        let (send, receive) = mpsc::channel();
        thread::Builder::new()
            .name("bus".to_owned())
            .spawn(move || -> Result<()> {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async move {
                    let bus = FakeHostBus::start().await;
                    bus.knobs().prepare_on_reboot = false;
                    let _ = send.send(bus);
                    std::future::pending::<()>().await;
                });
                Ok(())
            })?;
        let bus = receive.recv().context("the fake bus did not start")?;
        Ok(Self { bus })
    }

    /// For `DBUS_SYSTEM_BUS_ADDRESS`.
    pub(crate) fn address(&self) -> String {
        self.bus.address()
    }

    /// How often logind was asked for a reboot.
    pub(crate) fn reboots(&self) -> usize {
        self.bus.knobs().reboots
    }
}
