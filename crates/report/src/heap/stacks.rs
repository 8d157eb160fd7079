//! The stacks of a memory profile, by name, with their objects and bytes.

use flamelet_profile::{Error, ErrorKind, Granularity, HeapView, LabelSetId, Profile, Result, unit};
use rustc_hash::FxHashMap;

use crate::names::stands_for_itself;
use crate::report::Report;
use crate::stacks::{NodeId, NodeInfo, Nodes};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectsAndBytes {
    pub(super) objects: i64,
    pub(super) bytes: i64,
}

impl ObjectsAndBytes {
    pub(super) fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Returns how far off the bytes may be: one standard deviation of the error of sampling one byte in `period`.
    /// Every object was found with probability `1 - exp(-size/period)`.
    pub(super) fn error(self, period: i64) -> i64 {
        let (objects, bytes) = (self.objects.unsigned_abs() as f64, self.bytes.unsigned_abs() as f64);
        if objects == 0.0 || period <= 1 {
            return 0;
        }
        let size = bytes / objects;
        let chance = -(-size / period as f64).exp_m1();
        if chance <= 0.0 {
            return 0;
        }
        (objects * size * size * (1.0 - chance) / chance).sqrt().round() as i64
    }
}

/// Returns the mean distance between samples in bytes; 0 if every allocation was recorded or the profile does not
/// say.
pub(super) fn period(profile: &Profile) -> i64 {
    profile.header.period_type.map_or(0, |kind| {
        let is_space = unit::are_compatible(profile.string(kind.unit), "bytes");
        if is_space { profile.header.period.max(0) } else { 0 }
    })
}

/// Returns the index of a sample type.
pub(super) fn type_index(profile: &Profile, kind: &str) -> Option<usize> {
    profile.sample_types().iter().position(|known| profile.string(known.kind) == kind)
}

/// Returns the indexes of a view's objects, which not every profile counts, and bytes. The error says what the
/// profile has instead.
pub(super) fn type_indexes(profile: &Profile, view: HeapView) -> Result<(Option<usize>, usize)> {
    let [objects, bytes] = view.sample_types();
    match type_index(profile, bytes) {
        Some(bytes) => Ok((type_index(profile, objects), bytes)),
        None => {
            let has: Vec<&str> =
                profile.sample_types().iter().map(|kind| profile.string(kind.kind)).collect();
            let message = format!(
                "the profile has no {bytes} (it has {}); a service serves it at /debug/pprof/{}",
                has.join(", "),
                view.endpoint()
            );
            Err(Error::new(ErrorKind::Incompatible, message))
        }
    }
}

/// The names of frames, and the counts of each stack.
pub(super) struct MemoryStacks {
    pub(super) names: Vec<String>,
    is_own: Vec<bool>,
    /// Leaf first.
    pub(super) rows: Vec<(Vec<NodeId>, ObjectsAndBytes)>,
}

impl MemoryStacks {
    /// Returns all stacks, most bytes first.
    pub(super) fn of(report: &Report, view: HeapView) -> Result<Self> {
        Self::noting(report, view, |_, _, _| true)
    }

    /// Returns the stacks of the samples for which `note` returns true; it gets every sample's stack, labels and
    /// counts.
    pub(super) fn noting(
        report: &Report,
        view: HeapView,
        mut note: impl FnMut(&[NodeId], LabelSetId, ObjectsAndBytes) -> bool,
    ) -> Result<Self> {
        let profile = report.profile();
        let (objects, bytes) = type_indexes(profile, view)?;
        let nodes = Nodes::of(profile, false);
        // Files identify functions of the standard library whose names do not; they are not meant to be shown.
        let hides_files = report.options.granularity == Some(Granularity::FileFunctions);
        let name = |info: &NodeInfo| match hides_files && !profile.string(info.name).is_empty() {
            true => profile.string(info.name).to_owned(),
            false => info.printable(profile),
        };
        let names = nodes.infos.iter().map(name).collect();
        let is_own = nodes
            .infos
            .iter()
            .map(|info| stands_for_itself(profile.string(info.name), profile.string(info.file)));
        let is_own = is_own.collect();
        let mut rows: FxHashMap<Vec<NodeId>, ObjectsAndBytes> = FxHashMap::default();
        for sample in profile.samples() {
            let frames = profile.stack(sample.stack).iter().flat_map(|&location| nodes.at(location));
            let stack: Vec<NodeId> = frames.copied().collect();
            let objects = objects.map_or(0, |at| sample.values[at]);
            let counts = ObjectsAndBytes { objects, bytes: sample.values[bytes] };
            if note(&stack, sample.labels, counts) {
                rows.entry(stack).or_default().add(counts);
            }
        }
        let mut rows: Vec<(Vec<NodeId>, ObjectsAndBytes)> = rows.into_iter().collect();
        rows.retain(|(_, counts)| *counts != ObjectsAndBytes::default());
        rows.sort_by(|(a, left), (b, right)| right.bytes.cmp(&left.bytes).then_with(|| a.cmp(b)));
        Ok(Self { names, is_own, rows })
    }

    pub(super) fn total(&self) -> ObjectsAndBytes {
        let mut total = ObjectsAndBytes::default();
        self.rows.iter().for_each(|(_, counts)| total.add(*counts));
        total
    }

    /// Returns the names of a stack's frames, leaf first.
    pub(super) fn named(&self, stack: &[NodeId]) -> Vec<String> {
        stack.iter().map(|&node| self.names[node as usize].clone()).collect()
    }

    /// Returns the names of the frames that are not go-betweens, innermost first; at least one.
    pub(super) fn own(&self, stack: &[NodeId]) -> Vec<String> {
        let own: Vec<NodeId> = stack.iter().copied().filter(|&node| self.is_own[node as usize]).collect();
        match (own.is_empty(), stack.first()) {
            (false, _) => self.named(&own),
            (true, Some(&leaf)) => self.named(&[leaf]),
            (true, None) => vec!["[unknown]".into()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_sampling() {
        // A thousand objects of 512 KiB, sampled with a mean of 512 KiB: each with probability 1 - 1/e.
        let counts = ObjectsAndBytes { objects: 1000, bytes: 1000 << 19 };
        let chance = 1.0 - (-1.0f64).exp();
        let expected = (1000.0 * (1u64 << 38) as f64 * (1.0 - chance) / chance).sqrt();
        assert!((counts.error(1 << 19) as f64 - expected).abs() < 1.0);
        assert_eq!(counts.error(0), 0, "every allocation was seen");
        assert_eq!(
            ObjectsAndBytes { objects: 5, bytes: 5 << 30 }.error(1 << 19),
            0,
            "as large as that is always seen"
        );
    }
}
