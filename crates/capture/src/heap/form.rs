//! What every heap profile has: its sample types, its period, and the frames to leave out.

use flamelet_profile::ProfileBuilder;

/// Frames of the allocator itself, on top of every stack: hidden once names are known. The expression has to match
/// whole names, as pprof reads it, and must not match functions that call the program's code (`budget`): everything
/// called from there would be dropped too.
const DROP_FRAMES: &str = concat!(
    "<?flamelet_capture::heap::(alloc|emergency|jemalloc|ledger|live|thread|tracker|watch)::.*",
    "|(__rustc::)?__rust_(alloc|alloc_zeroed|realloc|dealloc)",
    "|__rg_(alloc|alloc_zeroed|realloc|dealloc)|_rjem_.*|je_.*|prof_backtrace.*"
);

pub(super) const HEAP_TYPES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// Fills in what every heap profile says about itself.
pub(super) fn describe(builder: &mut ProfileBuilder, mean: i64, default_type: &str) {
    builder.set_period("space", "bytes", mean);
    builder.set_default_sample_type(default_type);
    builder.set_drop_frames(DROP_FRAMES);
}
