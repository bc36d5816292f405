//! stub
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Marks {
    pub daemon_sets: Vec<String>,
}
impl Marks {
    pub fn with_containers_of(self, _o: &Marks) -> Marks {
        self
    }
}
