//! `heap`: who holds memory, who allocates and frees it, how long it lives, and what grows.
//!
//! | question | answer | of which profile |
//! |---|---|---|
//! | who holds it, who allocated it, who held it at the peak | [`holders`] | `heap`, `allocs`, `peak` |
//! | who frees what others allocated | [`freed`] | `freed` |
//! | how long does it live, and what lives for nothing | [`lifetimes`], [`temporary`] | `lifetime` |
//! | what grows, and does it grow steadily | [`growth`], [`growth_between`] | `growth`, or several of `heap` |
//!
//! Rows are whole stacks: a leak has one. Each value is an estimate, and says how good it is.

mod freed;
mod growth;
mod holders;
mod lifetimes;
mod stacks;

pub use freed::{Freed, FreedRow, freed};
pub use growth::{Growth, GrowthRow, growth, growth_between};
pub use holders::{Holder, Holders, holders};
pub use lifetimes::{LifetimeClass, LifetimeRow, Lifetimes, lifetimes, temporary};

use flamelet_profile::Profile;

/// What a profile of memory can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Who holds memory.
    InUse,
    /// Who allocated it, since the start.
    Allocated,
    /// Who held it at the highest moment.
    Peak,
    /// What grows.
    Growth,
    /// Who frees what others allocated.
    Freed,
    /// How long freed memory had lived.
    Lifetime,
    /// What was freed before its thread allocated anything else.
    Temporary,
}

impl View {
    /// The name of its endpoint under `/debug/pprof/`.
    pub fn endpoint(self) -> &'static str {
        match self {
            Self::InUse => "heap",
            Self::Allocated => "allocs",
            Self::Peak => "peak",
            Self::Growth => "growth",
            Self::Freed => "freed",
            Self::Lifetime => "lifetime",
            Self::Temporary => "temporary",
        }
    }

    /// The view that a profile was made for, by its sample types.
    pub fn of(profile: &Profile) -> Option<Self> {
        let has = |kind: &str| stacks::type_index(profile, kind).is_some();
        let chosen = profile.sample_types().get(profile.default_sample_index());
        let shows_allocated = chosen.is_some_and(|chosen| profile.string(chosen.kind) == "alloc_space");
        if has("growth_space") {
            Some(Self::Growth)
        } else if has("peak_space") {
            Some(Self::Peak)
        } else if has("freed_space") {
            let is_lifetime = profile.strings().find("lifetime").is_some();
            Some(if is_lifetime { Self::Lifetime } else { Self::Freed })
        } else if has("alloc_space") && (shows_allocated || !has("inuse_space")) {
            Some(Self::Allocated)
        } else {
            has("inuse_space").then_some(Self::InUse)
        }
    }

    /// The sample types it counts: objects and bytes.
    fn types(self) -> [&'static str; 2] {
        match self {
            Self::InUse => ["inuse_objects", "inuse_space"],
            Self::Allocated => ["alloc_objects", "alloc_space"],
            Self::Peak => ["peak_objects", "peak_space"],
            Self::Growth => ["growth_objects", "growth_space"],
            Self::Freed | Self::Lifetime | Self::Temporary => ["freed_objects", "freed_space"],
        }
    }
}
