//! What people ask about a fleet: what changed with a deploy, who uses how much, and what differs.

mod asked;
mod calls;
mod changes;
mod compare;
mod diff;
mod given;
mod json;
mod past;
mod services;
#[cfg(test)]
mod simulation;
mod usage;
mod versions;

pub use asked::Asked;
pub(crate) use calls::{ApiCall, CHANGES, DIFF, LABELS, SERVICES, TOP, fleet_usage};
pub use changes::{Changes, ServiceChanges, VersionSeen, changes};
pub use compare::{Deploy, NewFunction, Slower};
pub(crate) use given::Given;
pub use past::FleetPast;
pub(crate) use services::{ServiceCourse, services};
pub use usage::{GroupUsage, ServiceUsage, Usage, UsageBy, UsageOptions, usage};
