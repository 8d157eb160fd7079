//! What every heap profile has: its sample types, its period, and the frames to leave out.

use flamelet_profile::{ProfileBuilder, allocation_frames};

/// Frames of the sampler itself, on top of every stack, besides those of allocators. They must not include functions that
/// call the program's code (`budget`): readers drop everything called from there too.
const OWN_FRAMES: &str =
    "<?flamelet_capture::heap::(?:alloc|emergency|jemalloc|ledger|live|thread|tracker|watch)::.*";

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
    builder.set_drop_frames(&format!("{OWN_FRAMES}|{}", allocation_frames()));
}
