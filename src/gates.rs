//! stub
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub why: String,
    pub opens: Option<std::time::Duration>,
}
