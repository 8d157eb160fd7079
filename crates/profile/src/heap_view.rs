//! What profiles of memory can tell.

use crate::Profile;

/// A question about memory, each with a profile of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeapView {
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

impl HeapView {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::InUse,
        Self::Allocated,
        Self::Peak,
        Self::Growth,
        Self::Freed,
        Self::Lifetime,
        Self::Temporary,
    ];

    /// The name of its endpoint under `/debug/pprof/`.
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

    /// The view whose endpoint has this name.
    pub fn of_endpoint(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.endpoint() == name)
    }

    /// The sample types it counts: objects and bytes.
    pub const fn sample_types(self) -> [&'static str; 2] {
        match self {
            Self::InUse => ["inuse_objects", "inuse_space"],
            Self::Allocated => ["alloc_objects", "alloc_space"],
            Self::Peak => ["peak_objects", "peak_space"],
            Self::Growth => ["growth_objects", "growth_space"],
            Self::Freed | Self::Lifetime | Self::Temporary => ["freed_objects", "freed_space"],
        }
    }

    /// The view that a profile was made for, by its sample types.
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
