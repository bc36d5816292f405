//! What takes a bed down, however its user ends.

use crate::bed::Bed;

/// Takes the bed of a name down when it is dropped. Make it before the bed comes up: one that came up only half way has
/// processes as well.
#[derive(Debug)]
#[must_use = "the bed goes down as soon as nobody has this"]
pub struct Standing(String);

impl Standing {
    /// Of the bed of this name.
    pub fn of(bed: &str) -> Self {
        Self(bed.to_owned())
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Err(err) = Bed::down(&self.0) {
            let name = &self.0;
            eprintln!("bed: {err:#}; run target/debug/bed down --name {name}");
        }
    }
}
