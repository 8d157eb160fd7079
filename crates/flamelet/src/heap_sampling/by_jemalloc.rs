//! Sampling by jemalloc itself: into flamelet's tables, or only into its dumps.

use flamelet_capture::fork::Lock;
use flamelet_capture::heap::Options;
use flamelet_capture::heap::jemalloc::{Feed, Jemalloc};
use flamelet_capture::profile::{Profile, ProfileBuilder, merge};

use crate::Result;

/// The jemalloc whose samples are available only as dumps.
static DUMPS: Lock<Option<Jemalloc>> = Lock::new(None);

/// Makes jemalloc sample, and remembers whether its samples reach the tables or only its dumps.
pub(super) fn start(jemalloc: &Jemalloc, options: &Options) -> Result<()> {
    let feed = jemalloc.start(options)?;
    *DUMPS.lock() = Some(*jemalloc).filter(|_| feed == Feed::Dumps);
    Ok(())
}

/// Returns a dump, if that is where the samples are.
pub(crate) fn dump() -> Result<Option<Profile>> {
    let jemalloc = *DUMPS.lock();
    jemalloc.map(|jemalloc| jemalloc.dump()).transpose()
}

/// Returns what changed between two dumps.
pub(crate) fn difference(now: Profile, mut before: Profile) -> Profile {
    before.scale(-1.0);
    // Both are dumps of this process and have the same sample types; if not, use the newer one alone.
    merge(&[&now, &before]).unwrap_or(now)
}

/// Returns an empty profile, for a view that dumps have no data for.
pub(crate) fn unknown(kind: &str) -> Profile {
    let (objects, space) = (format!("{kind}_objects"), format!("{kind}_space"));
    let mut builder = ProfileBuilder::new(&[(&objects, "count"), (&space, "bytes")]);
    builder.comment("flamelet: jemalloc's dumps do not say this; a jemalloc with hooks (5.3.1), or sampling around it, does");
    builder.finish()
}
