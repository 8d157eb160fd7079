//! What requests spend their time on, counted by route.

mod counts;
mod json;
mod parts;
mod routes;

#[cfg(target_os = "linux")]
pub(crate) use json::text as json_text;
pub(crate) use parts::TimeParts;
pub(crate) use routes::{Requests, ThreadRoute};

impl Requests {
    /// Returns all routes as JSON, the one that took the most time first.
    pub(crate) fn json(&self) -> String {
        json::write(&self.summaries())
    }
}
