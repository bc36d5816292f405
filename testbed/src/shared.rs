//! What many tests need and one of them makes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// Made at its first use. Where that fails, the first test that needs it says all about it, and each other one names
/// what failed: a panic in a `LazyLock` would fail them all and tell of a poisoned instance.
#[derive(Debug)]
pub struct Shared<T> {
    what: &'static str,
    make: fn() -> Result<T>,
    made: OnceLock<Result<T, String>>,
    told: AtomicBool,
}

impl<T> Shared<T> {
    /// Named as a user would: "`make rpm`".
    pub const fn new(what: &'static str, make: fn() -> Result<T>) -> Self {
        Self {
            what,
            make,
            made: OnceLock::new(),
            told: AtomicBool::new(false),
        }
    }

    /// What was made; where it could not be, this ends the test.
    #[track_caller]
    #[allow(clippy::match_wild_err_arm)] // the cause is told once
    pub fn get(&self) -> &T {
        let made = self
            .made
            .get_or_init(|| (self.make)().map_err(|err| format!("{err:#}")));
        match made {
            Ok(made) => made,
            Err(why) if !self.told.swap(true, Ordering::Relaxed) => {
                panic!(
                    "{} failed, which other tests need as well: {why}",
                    self.what
                )
            }
            Err(_) => panic!("{} failed; another test of this run says why", self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU8;

    use anyhow::bail;

    use super::*;

    static TRIES: AtomicU8 = AtomicU8::new(0);
    static BROKEN: Shared<()> = Shared::new("`make rpm`", || {
        TRIES.fetch_add(1, Ordering::Relaxed);
        bail!("rpmbuild: no such program")
    });

    #[test]
    fn one_failed_package_names_its_make_in_every_test_and_its_cause_in_one() {
        let told = || {
            let caught = catch_unwind(AssertUnwindSafe(|| BROKEN.get())).unwrap_err();
            caught.downcast_ref::<String>().unwrap().clone()
        };
        let said: Vec<String> = (0..10).map(|_| told()).collect();
        assert!(
            said.iter().all(|said| said.contains("`make rpm` failed")),
            "{said:?}"
        );
        let causes = said.iter().filter(|said| said.contains("no such program"));
        assert_eq!(causes.count(), 1, "{said:?}");
        assert_eq!(TRIES.load(Ordering::Relaxed), 1);
    }
}
