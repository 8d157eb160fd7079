//! jemalloc samples by itself: into the same tables, or by dumps.

use std::sync::Mutex;

use flamelet_capture::heap::Options;
use flamelet_capture::heap::jemalloc::{Feed, Jemalloc};
use flamelet_capture::profile::{Profile, ProfileBuilder, merge};

use crate::error::Result;
use crate::lock::lock;

/// The jemalloc whose samples are only had by dumps.
static DUMPS: Mutex<Option<Jemalloc>> = Mutex::new(None);

/// Makes it sample, and remembers how its samples are had.
pub(super) fn start(jemalloc: &Jemalloc, options: &Options) -> Result<()> {
    let feed = jemalloc.start(options)?;
    *lock(&DUMPS) = Some(*jemalloc).filter(|_| feed == Feed::Dumps);
    Ok(())
}

/// A dump, where that is how samples are had.
pub(super) fn dump() -> Result<Option<Profile>> {
    let jemalloc = *lock(&DUMPS);
    Ok(jemalloc.map(|jemalloc| jemalloc.dump()).transpose()?)
}

/// What changed between two dumps.
pub(super) fn difference(now: Profile, mut before: Profile) -> Profile {
    before.scale(-1.0);
    // Both are of this process and have the same sample types; were they not, the newer one is told.
    merge(&[&now, &before]).unwrap_or(now)
}

/// A profile of something that dumps do not say.
pub(super) fn unknown(kind: &str) -> Profile {
    let (objects, space) = (format!("{kind}_objects"), format!("{kind}_space"));
    let mut builder = ProfileBuilder::new(&[(&objects, "count"), (&space, "bytes")]);
    builder.comment("flamelet: jemalloc's dumps do not say this; a jemalloc with hooks (5.3.1), or sampling around it, does");
    builder.finish()
}
