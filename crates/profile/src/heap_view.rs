//! The views of a heap profile.

use crate::Profile;

/// A question about memory; each has a profile of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeapView {
    /// What holds memory now.
    InUse,
    /// What has allocated memory since the start.
    Allocated,
    /// What held memory at its peak.
    Peak,
    /// What grows.
    Growth,
    /// What frees memory that others allocated.
    Freed,
    /// How long freed memory had lived.
    Lifetime,
    /// What was freed before its thread allocated anything else.
    Temporary,
}

impl HeapView {
    /// All views.
    pub const ALL: [Self; 7] = [
        Self::InUse,
        Self::Allocated,
        Self::Peak,
        Self::Growth,
        Self::Freed,
        Self::Lifetime,
        Self::Temporary,
    ];

    /// Returns the name of the view's endpoint under `/debug/pprof/`.
    pub const fn endpoint(self) -> &'static str {
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

    /// Returns the sample types that the view counts: objects and bytes.
    pub const fn sample_types(self) -> [&'static str; 2] {
        match self {
            Self::InUse => ["inuse_objects", "inuse_space"],
            Self::Allocated => ["alloc_objects", "alloc_space"],
            Self::Peak => ["peak_objects", "peak_space"],
            Self::Growth => ["growth_objects", "growth_space"],
            Self::Freed | Self::Lifetime | Self::Temporary => ["freed_objects", "freed_space"],
        }
    }

    /// Returns the view that a profile was made for, judging by its sample types.
    pub fn of(profile: &Profile) -> Option<Self> {
        let has =
            |wanted: &str| profile.sample_types().iter().any(|known| profile.string(known.kind) == wanted);
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
}
