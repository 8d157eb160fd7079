//! The profile of spans.

use std::sync::Arc;

use flamelet_capture::profile::{Profile, ProfileBuilder, moment};

use super::tree::{SpanPath, tree};
use crate::Profiler;

/// A copy of what was counted for each path of spans.
pub(crate) struct SpanCounts(Vec<(Arc<SpanPath>, [u64; 3])>);

/// Returns what was counted so far.
pub(crate) fn rows() -> SpanCounts {
    SpanCounts(tree().nodes().into_iter().map(|node| (node.clone(), node.sums.read())).collect())
}

impl SpanCounts {
    /// Returns what was added since `before`.
    #[cfg(all(feature = "http", target_os = "linux"))]
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for ((_, sums), (_, old)) in self.0.iter_mut().zip(&before.0) {
            *sums = std::array::from_fn(|at| sums[at].saturating_sub(old[at]));
        }
        self
    }
}

/// Makes the profile: the spans of a path are its stack.
pub(crate) fn profile(profiler: &Profiler, rows: &SpanCounts) -> Profile {
    let mut builder =
        ProfileBuilder::new(&[("spans", "count"), ("busy", "nanoseconds"), ("idle", "nanoseconds")]);
    builder.set_period("spans", "count", 1);
    builder.set_default_sample_type("busy");
    builder.header_mut().time_nanos = moment::now();
    for (node, sums) in rows.0.iter().filter(|(_, sums)| *sums != [0; 3]) {
        let frames: Vec<_> = node
            .outwards()
            .map(|span| {
                let function = builder.named_function(span.name, span.file);
                builder.frame(function, i64::from(span.line))
            })
            .collect();
        let stack = builder.stack(&frames);
        let values = sums.map(|sum| i64::try_from(sum).unwrap_or(i64::MAX));
        builder.merge_sample(stack, Default::default(), &values);
    }
    profiler.complete(builder.finish(), false)
}
