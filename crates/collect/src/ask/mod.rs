//! What people ask a fleet: what changed with a deploy, and who uses how much.

mod asked;
mod calls;
mod changes;
mod compare;
mod json;
mod past;
#[cfg(test)]
mod simulation;
mod usage;
mod versions;

pub use asked::Asked;
pub(crate) use calls::answer;
pub use changes::{Changes, ServiceChanges, VersionSeen, changes};
pub use compare::{Deploy, NewFunction, Slower};
pub use past::FleetPast;
pub(crate) use past::course_within;
pub use usage::{GroupUsage, ServiceUsage, Usage, UsageOptions, usage};
