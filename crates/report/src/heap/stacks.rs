//! The stacks of a profile of memory, by name, with their objects and bytes.

use std::io::{self, Write};

use flamelet_profile::{Error, ErrorKind, Granularity, LabelSetId, Profile, Result, unit};
use rustc_hash::FxHashMap;

use super::View;
use crate::node::{NodeId, NodeInfo, Nodes};
use crate::report::Report;
use crate::rust_names;

/// Crates that are asked for memory on behalf of others.
const GO_BETWEENS: [&str; 7] =
    ["std", "core", "alloc", "hashbrown", "compiler_builtins", "flamelet_capture", "flamelet_preload"];

/// Functions that are asked for memory, in any language.
const ALLOCATORS: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "operator new",
    "operator delete",
    "strdup",
    "__rdl_alloc",
];

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) objects: i64,
    pub(super) bytes: i64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// How far off the bytes may be: one standard deviation of what sampling one byte in `period` leaves.
    /// Every object was found with the chance `1 - exp(-size/period)`.
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

/// The mean distance between samples in bytes; 0 when every allocation was seen or nobody says.
pub(super) fn period(profile: &Profile) -> i64 {
    profile.header.period_type.map_or(0, |kind| {
        let is_space = unit::are_compatible(profile.string(kind.unit), "bytes");
        if is_space { profile.header.period.max(0) } else { 0 }
    })
}

/// The place of a sample type.
pub(super) fn type_index(profile: &Profile, kind: &str) -> Option<usize> {
    profile.sample_types().iter().position(|known| profile.string(known.kind) == kind)
}

/// The places of a view's objects, which not every profile counts, and bytes; an error that says what the profile has
/// instead.
pub(super) fn type_indexes(profile: &Profile, view: View) -> Result<(Option<usize>, usize)> {
    let [objects, bytes] = view.types();
    match type_index(profile, bytes) {
        Some(bytes) => Ok((type_index(profile, objects), bytes)),
        None => {
            let has: Vec<&str> =
                profile.sample_types().iter().map(|kind| profile.string(kind.kind)).collect();
            let message = format!(
                "the profile has no {bytes} (it has {}); a service gives it at /debug/pprof/{}",
                has.join(", "),
                view.endpoint()
            );
            Err(Error::new(ErrorKind::Incompatible, message))
        }
    }
}

/// The names of frames, and the counts of each stack.
pub(super) struct Stacks {
    pub(super) names: Vec<String>,
    is_own: Vec<bool>,
    /// Leaf first.
    pub(super) rows: Vec<(Vec<NodeId>, Counts)>,
}

impl Stacks {
    /// All stacks, most bytes first.
    pub(super) fn of(report: &Report, view: View) -> Result<Self> {
        Self::noting(report, view, |_, _, _| true)
    }

    /// The stacks of those samples that `note` says yes to; it sees every sample's stack, labels and counts.
    pub(super) fn noting(
        report: &Report,
        view: View,
        mut note: impl FnMut(&[NodeId], LabelSetId, Counts) -> bool,
    ) -> Result<Self> {
        let profile = report.profile();
        let (objects, bytes) = type_indexes(profile, view)?;
        let nodes = Nodes::of(profile, false);
        // Files tell the standard library's functions where their names do not; nobody asked to see them.
        let hides_files = report.options.granularity == Some(Granularity::FileFunctions);
        let name = |info: &NodeInfo| match hides_files && !profile.string(info.name).is_empty() {
            true => profile.string(info.name).to_owned(),
            false => info.printable(profile),
        };
        let names = nodes.infos.iter().map(name).collect();
        let is_own =
            nodes.infos.iter().map(|info| is_own(profile.string(info.name), profile.string(info.file)));
        let is_own = is_own.collect();
        let mut rows: FxHashMap<Vec<NodeId>, Counts> = FxHashMap::default();
        for sample in profile.samples() {
            let frames = profile.stack(sample.stack).iter().flat_map(|&location| nodes.at(location));
            let stack: Vec<NodeId> = frames.copied().collect();
            let objects = objects.map_or(0, |at| sample.values[at]);
            let counts = Counts { objects, bytes: sample.values[bytes] };
            if note(&stack, sample.labels, counts) {
                rows.entry(stack).or_default().add(counts);
            }
        }
        let mut rows: Vec<(Vec<NodeId>, Counts)> = rows.into_iter().collect();
        rows.retain(|(_, counts)| *counts != Counts::default());
        rows.sort_by(|(a, left), (b, right)| right.bytes.cmp(&left.bytes).then_with(|| a.cmp(b)));
        Ok(Self { names, is_own, rows })
    }

    pub(super) fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.rows.iter().for_each(|(_, counts)| total.add(*counts));
        total
    }

    /// The names of a stack's frames, leaf first.
    pub(super) fn named(&self, stack: &[NodeId]) -> Vec<String> {
        stack.iter().map(|&node| self.names[node as usize].clone()).collect()
    }

    /// The names of the frames that are nobody's go-betweens, innermost first; at least one.
    pub(super) fn own(&self, stack: &[NodeId]) -> Vec<String> {
        let own: Vec<NodeId> = stack.iter().copied().filter(|&node| self.is_own[node as usize]).collect();
        match (own.is_empty(), stack.first()) {
            (false, _) => self.named(&own),
            (true, Some(&leaf)) => self.named(&[leaf]),
            (true, None) => vec!["[unknown]".into()],
        }
    }
}

/// Whether a function stands for itself, not for whoever called it to get memory.
fn is_own(name: &str, file: &str) -> bool {
    // The compiler's own sources, wherever they were when the standard library was built.
    let is_std = ["/library/alloc/src/", "/library/core/src/", "/library/std/src/", "/hashbrown-"];
    if is_std.iter().any(|part| file.contains(part)) {
        return false;
    }
    let plain = name.trim_start_matches('_');
    if ALLOCATORS.iter().any(|known| plain == *known || name == *known) || name.starts_with("operator new") {
        return false;
    }
    if plain.starts_with("rust_")
        || plain.starts_with("rustc::")
        || plain.starts_with("rg_")
        || name.starts_with('[')
    {
        return false;
    }
    rust_names::crate_name(name).is_none_or(|krate| !GO_BETWEENS.contains(&krate))
}

/// A function and its callers, in two lines of a terminal.
pub(super) fn write_place(out: &mut impl Write, own: &[String], indent: usize) -> io::Result<()> {
    const CALLERS: usize = 4;
    let Some((place, callers)) = own.split_first() else { return writeln!(out) };
    writeln!(out, "{place}")?;
    if !callers.is_empty() {
        let more = if callers.len() > CALLERS { " ← …" } else { "" };
        let shown = callers[..callers.len().min(CALLERS)].join(" ← ");
        writeln!(out, "{:indent$}  ← {shown}{more}", "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_betweens_do_not_hold_memory() {
        for name in [
            "alloc::raw_vec::RawVecInner<A>::finish_grow",
            "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
            "__rust_alloc",
            "__rustc::__rust_alloc",
            "malloc",
            "operator new(unsigned long)",
            "[freed by]",
        ] {
            assert!(!is_own(name, ""), "{name}");
        }
        let std = "/rustc/0123/library/alloc/src/raw_vec/mod.rs";
        assert!(!is_own("with_capacity_in<u8>", std), "names of inlined functions may lack their path");
        for name in
            ["shop::cart::add", "<shop::Cart as core::clone::Clone>::clone", "main", "Parser::parse(int)"]
        {
            assert!(is_own(name, "src/main.rs"), "{name}");
        }
    }

    #[test]
    fn the_error_is_that_of_the_sampling() {
        // A thousand objects of 512 KiB, sampled with a mean of 512 KiB: each with the chance 1 - 1/e.
        let counts = Counts { objects: 1000, bytes: 1000 << 19 };
        let chance = 1.0 - (-1.0f64).exp();
        let expected = (1000.0 * (1u64 << 38) as f64 * (1.0 - chance) / chance).sqrt();
        assert!((counts.error(1 << 19) as f64 - expected).abs() < 1.0);
        assert_eq!(counts.error(0), 0, "every allocation was seen");
        assert_eq!(
            Counts { objects: 5, bytes: 5 << 30 }.error(1 << 19),
            0,
            "as large as that is always seen"
        );
    }
}
