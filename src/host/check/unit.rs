//! The transient unit of a check: what its properties say about how the command ended (I8).

use std::collections::HashMap;

use zbus::{
    Connection, OwnedObjectPath, OwnedVariant, Proxy,
    fdo::PropertiesProxy,
    names::InterfaceName,
    proxy::{self, CacheProperties},
};

use super::Exit;
use crate::host::{bus::bounded, systemd};

const SERVICE: &str = "org.freedesktop.systemd1";
const UNIT: InterfaceName<'_> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.systemd1.Unit");
const EXEC: InterfaceName<'_> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.systemd1.Service");
/// `CLD_EXITED` of waitid(2): the process ended by itself. 2 and 3 are signals.
const CLD_EXITED: i32 = 1;

/// One reading of the unit's properties, in systemd's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) load_state: String,
    pub(super) active_state: String,
    /// Job number; 0 when none waits.
    pub(super) job: u32,
    /// Zeros or empty before the first start.
    pub(super) invocation_id: Vec<u8>,
    /// Monotonic microseconds; 0 when it never was active.
    pub(super) active_exit: u64,
    pub(super) result: String,
    /// `si_code` of waitid(2); 0 when no process has ended.
    pub(super) exit_code: i32,
    pub(super) exit_status: i32,
    /// Monotonic microseconds.
    pub(super) exit_time: u64,
}

/// What was seen of the unit so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    invocation: Option<Vec<u8>>,
}

impl Progress {
    /// Takes in one reading; answers once the command has ended.
    pub(super) fn see(&mut self, state: &Reading) -> Option<Exit> {
        let lost = |why: &str| Some(Exit::Lost(why.to_owned()));
        if state.load_state != "loaded" {
            // A unit that is gone reads as inactive with result success and status 0 (seen on systemd 257; `host_check`
            // plays it).
            return lost("its unit is gone, and its answer with it");
        }
        let started = state.invocation_id.iter().any(|byte| *byte != 0);
        match &self.invocation {
            Some(ours) if *ours != state.invocation_id => {
                return lost("its unit was started again by somebody else");
            }
            None if started => self.invocation = Some(state.invocation_id.clone()),
            _ => {}
        }
        if !matches!(state.active_state.as_str(), "inactive" | "failed") || state.job != 0 {
            return None;
        }
        if self.invocation.is_none() {
            return lost("systemd did not start it");
        }
        Some(exit(state))
    }
}

fn exit(state: &Reading) -> Exit {
    // First, because a command that ends itself on SIGTERM has an exit code too, often 1.
    match state.result.as_str() {
        "timeout" => return Exit::Lost("it took longer than its timeout".to_owned()),
        "success" | "exit-code" | "signal" | "core-dump" => {}
        other => return Exit::Lost(format!("systemd ended it: {other}")),
    }
    match state.exit_code {
        CLD_EXITED => {}
        0 => return Exit::Lost("it never ran".to_owned()),
        _ => return Exit::Lost(format!("it was killed by signal {}", state.exit_status)),
    }
    if state.active_exit != 0 && state.active_exit < state.exit_time {
        // The unit left `active` before its process ended: somebody stopped it, which systemd
        // calls a success when the process then exits by itself.
        return Exit::Lost("it was stopped before it had an answer".to_owned());
    }
    match u8::try_from(state.exit_status) {
        Ok(code) => Exit::Code(code),
        Err(_) => Exit::Lost(format!("exit code {} is none", state.exit_status)),
    }
}

/// The unit's object on the bus.
pub(super) struct Unit {
    connection: Connection,
    path: OwnedObjectPath,
}

impl Unit {
    pub(super) async fn find(connection: &Connection, name: &str) -> zbus::Result<Self> {
        let path = systemd::manager(connection).await?.load_unit(name).await?;
        Ok(Self {
            connection: connection.clone(),
            path,
        })
    }

    pub(super) async fn state(&self) -> zbus::Result<Reading> {
        let properties = PropertiesProxy::builder(&self.connection)
            .destination(SERVICE)
            .path(&self.path)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let unit = properties.get_all(UNIT).await?;
        let exec = properties.get_all(EXEC).await?;
        let (job, _): (u32, OwnedObjectPath) = take(&unit, "Job")?;
        Ok(Reading {
            load_state: take(&unit, "LoadState")?,
            active_state: take(&unit, "ActiveState")?,
            job,
            invocation_id: take(&unit, "InvocationID")?,
            active_exit: take(&unit, "ActiveExitTimestampMonotonic")?,
            result: take(&exec, "Result")?,
            exit_code: take(&exec, "ExecMainCode")?,
            exit_status: take(&exec, "ExecMainStatus")?,
            exit_time: take(&exec, "ExecMainExitTimestampMonotonic")?,
        })
    }

    /// Lets systemd forget the unit. Failing is harmless: the end of the connection does it too.
    pub(super) async fn unref(&self) {
        let done = bounded("letting go of a check's unit", async {
            let unit: Proxy<'_> = proxy::Builder::new(&self.connection)
                .destination(SERVICE)
                .path(&self.path)
                .interface(UNIT)
                .cache_properties(CacheProperties::No)
                .build()
                .await?;
            unit.call::<_, _, ()>("Unref", &()).await
        });
        if let Err(error) = done.await {
            tracing::debug!(%error, "A check's unit is kept until the connection ends");
        }
    }
}

/// A property, or an error that names it: a missing one must not read as a default.
fn take<T>(properties: &HashMap<String, OwnedVariant>, name: &'static str) -> zbus::Result<T>
where
    T: TryFrom<OwnedVariant, Error = zbus::Error>,
{
    let value = properties
        .get(name)
        .ok_or_else(|| zbus::Error::Failure(format!("systemd sent no property {name}")))?;
    T::try_from(value.try_clone()?)
        .map_err(|error| zbus::Error::Failure(format!("property {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn reading()(load in prop_oneof![9 => Just("loaded".to_owned()), 1 => ".{0,9}"],
                     active in prop::sample::select(vec!["inactive", "failed", "active", "activating", "deactivating", ""]),
                     job in prop_oneof![4 => Just(0u32), 1 => any::<u32>()],
                     id in prop_oneof![4 => Just(vec![7; 16]), 1 => Just(vec![0; 16]), 1 => prop::collection::vec(any::<u8>(), 0..17)],
                     result in prop::sample::select(vec!["success", "exit-code", "signal", "core-dump", "timeout", "oom-kill", "protocol", ""]),
                     code in prop_oneof![3 => Just(CLD_EXITED), 1 => any::<i32>()],
                     status in prop_oneof![3 => 0..256i32, 1 => any::<i32>()],
                     exits in (0..3u64, 0..3u64)) -> Reading {
            Reading { load_state: load, active_state: active.to_owned(), job, invocation_id: id, active_exit: exits.0,
                result: result.to_owned(), exit_code: code, exit_status: status, exit_time: exits.1 }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn i8_a_code_comes_only_from_a_command_that_ended_by_itself(states in prop::collection::vec(reading(), 1..4)) {
            let mut progress = Progress::default();
            let last = states.iter().find_map(|state| Some((progress.see(state)?, state)));
            let Some((Exit::Code(code), state)) = last else { return Ok(()) };
            prop_assert_eq!(i32::from(code), state.exit_status);
            prop_assert_eq!((state.load_state.as_str(), state.job, state.exit_code), ("loaded", 0, CLD_EXITED));
            prop_assert!(matches!(state.active_state.as_str(), "inactive" | "failed"));
            prop_assert!(matches!(state.result.as_str(), "success" | "exit-code" | "signal" | "core-dump"));
            prop_assert!(state.active_exit == 0 || state.active_exit >= state.exit_time, "stopped by somebody");
            prop_assert!(state.invocation_id.iter().any(|byte| *byte != 0), "never started");
        }
    }

    fn ended(status: i32) -> Reading {
        Reading {
            load_state: "loaded".to_owned(),
            active_state: "inactive".to_owned(),
            job: 0,
            invocation_id: vec![7; 16],
            active_exit: 200,
            result: "success".to_owned(),
            exit_code: CLD_EXITED,
            exit_status: status,
            exit_time: 200,
        }
    }

    fn see(states: &[Reading]) -> Option<Exit> {
        let mut progress = Progress::default();
        states.iter().find_map(|state| progress.see(state))
    }

    #[test]
    fn waits_until_it_has_ended() {
        let waiting = Reading {
            job: 5,
            invocation_id: vec![0; 16],
            exit_code: 0,
            ..ended(0)
        };
        let running = Reading {
            active_state: "active".to_owned(),
            exit_code: 0,
            ..ended(0)
        };
        assert_eq!(see(&[waiting.clone(), running.clone()]), None);
        assert_eq!(see(&[waiting, running, ended(7)]), Some(Exit::Code(7)));
        assert_eq!(see(&[ended(0)]), Some(Exit::Code(0)));
    }

    #[test]
    fn i8_odd_ends_say_nothing() {
        let odd = [
            (
                "gone",
                Reading {
                    load_state: "not-found".to_owned(),
                    ..ended(0)
                },
            ),
            (
                "signal",
                Reading {
                    exit_code: 2,
                    exit_status: 15,
                    ..ended(0)
                },
            ),
            (
                "core dump",
                Reading {
                    exit_code: 3,
                    exit_status: 11,
                    ..ended(0)
                },
            ),
            (
                "never ran",
                Reading {
                    exit_code: 0,
                    ..ended(0)
                },
            ),
            (
                "never started",
                Reading {
                    invocation_id: vec![],
                    ..ended(0)
                },
            ),
            (
                "timeout, exit 1",
                Reading {
                    result: "timeout".to_owned(),
                    ..ended(1)
                },
            ),
            (
                "oom",
                Reading {
                    result: "oom-kill".to_owned(),
                    ..ended(1)
                },
            ),
            (
                "stopped, exit 1",
                Reading {
                    active_exit: 100,
                    ..ended(1)
                },
            ),
            (
                "no code",
                Reading {
                    exit_status: 300,
                    ..ended(0)
                },
            ),
        ];
        for (name, state) in odd {
            assert!(matches!(see(&[state]), Some(Exit::Lost(_))), "{name}");
        }
        let running = Reading {
            active_state: "active".to_owned(),
            ..ended(0)
        };
        let other = Reading {
            invocation_id: vec![8; 16],
            ..ended(0)
        };
        assert!(matches!(see(&[running, other]), Some(Exit::Lost(_))));
    }
}
