//! From the windows of any number of segments to one profile.

use std::collections::HashMap;

use flamelet_profile::{
    Budget, KERNEL_START, LabelSetId, LocationId, MappingId, Observed, Profile, ProfileBuilder, Quality,
    Result, StackId,
};
use rustc_hash::FxBuildHasher;

use crate::reader::query::Query;
use crate::segment::WindowVisitor;
use crate::segment::decode::{SegmentTables, Window};
use crate::segment::hash::ContentHash;
use crate::segment::kind::Kind;
use crate::segment::tables::{StoredFrame, StoredModule};

/// Where modules are placed whose addresses are taken by others begins at a multiple of this.
const ALIGNMENT: u64 = 2 << 20;

/// A profile that is being made of windows.
pub(crate) struct Merge<'q> {
    query: &'q Query<'q>,
    budget: &'q Budget,
    /// The profile, once the first window says what is measured.
    into: Option<Into>,
    /// The sums of the present segment: for each of its rows, as many values as the kind has.
    sums: Vec<i64>,
    /// What the sums are based on, for each row.
    observed: Vec<Observed>,
    windows: u64,
}

struct Into {
    kind: Kind,
    builder: ProfileBuilder,
    modules: HashMap<ModuleKey, MappingId, FxBuildHasher>,
    /// The mappings of the present segment's modules, as far as they were needed.
    of_modules: Vec<Option<MappingId>>,
    /// The addresses that are taken, sorted.
    taken: Vec<(u64, u64)>,
    stacks: HashMap<ContentHash, StackId, FxBuildHasher>,
    start: i64,
    duration: i64,
    quality: Option<Quality>,
    /// The value whose observations all windows state.
    observed: Option<usize>,
}

/// What identifies a module in every process that mapped it.
#[derive(PartialEq, Eq, Hash)]
struct ModuleKey {
    identity: String,
    offset: u64,
    size: u64,
}

impl WindowVisitor for Merge<'_> {
    fn needs_rows(&self, kind: &Kind, window: &Window) -> bool {
        self.query.wants(kind, window)
    }

    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        let Some(kind) = tables.kind(window.kind).filter(|kind| self.query.wants(kind, window)) else {
            return Ok(());
        };
        self.add(kind, tables, window)
    }

    fn segment_end(&mut self, tables: &SegmentTables) -> Result<()> {
        let Some(into) = &mut self.into else { return Ok(()) };
        let width = into.kind.values.len();
        if width == 0 {
            return Ok(());
        }
        let mut label_sets = vec![None; tables.label_sets.len()];
        into.of_modules = vec![None; tables.modules.len()];
        for (row, values) in self.sums.chunks_exact(width).enumerate() {
            let Some(&(node, labels)) =
                tables.rows.get(row as u32).filter(|_| values.iter().any(|&sum| sum != 0))
            else {
                continue;
            };
            let set = &mut label_sets[labels as usize];
            let set = *set.get_or_insert_with(|| {
                let is_wanted = self.query.keeps(tables, labels);
                is_wanted.then(|| into.labels(tables, labels))
            });
            if let Some(set) = set {
                let stack = into.stack(tables, node, self.budget)?;
                let sample = into.builder.merge_sample(stack, set, values);
                if let Some((value_type, &observed)) = into.observed.zip(self.observed.get(row)) {
                    into.builder.observe(sample, value_type, observed);
                }
            }
        }
        self.budget.refund(size_of_val(&*self.sums) + size_of_val(&*self.observed));
        self.sums.clear();
        self.observed.clear();
        self.budget.check()
    }
}

/// Merges the sums of segments that a range covers, whose windows are all wanted.
pub(crate) struct MergeOfSums<'m, 'q>(pub(crate) &'m mut Merge<'q>);

impl WindowVisitor for MergeOfSums<'_, '_> {
    fn needs_rows(&self, kind: &Kind, _: &Window) -> bool {
        kind.name == self.0.query.kind
    }

    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()> {
        match tables.kind(window.kind).filter(|kind| kind.name == self.0.query.kind) {
            Some(kind) => self.0.add(kind, tables, window),
            None => Ok(()),
        }
    }

    fn segment_end(&mut self, tables: &SegmentTables) -> Result<()> {
        self.0.segment_end(tables)
    }
}

impl<'q> Merge<'q> {
    pub(crate) fn new(query: &'q Query<'q>, budget: &'q Budget) -> Self {
        Self { query, budget, into: None, sums: Vec::new(), observed: Vec::new(), windows: 0 }
    }

    pub(crate) fn add(&mut self, kind: &Kind, tables: &SegmentTables, window: &Window) -> Result<()> {
        let budget = self.budget;
        let observed = window.observed.as_ref().map(|observed| observed.value_type);
        let into = self.into.get_or_insert_with(|| Into::new(kind, observed, budget));
        if into.kind.values != kind.values {
            // The service measures something else under this name since then.
            return Ok(());
        }
        into.note(tables, window);
        // If any window lacks it, the sum is unknown.
        into.observed = into.observed.filter(|_| into.observed == observed);
        self.windows = self.windows.saturating_add(window.windows);
        let (width, rows) = (kind.values.len(), tables.rows.len());
        if self.sums.len() < rows * width {
            self.budget.charge((rows * width - self.sums.len()) * size_of::<i64>())?;
            self.sums.resize(rows * width, 0);
        }
        if let Some(observed) = &window.observed {
            self.budget.charge(rows.saturating_sub(self.observed.len()) * size_of::<Observed>())?;
            self.observed.resize(rows.max(self.observed.len()), Observed::default());
            let rows = window.rows.iter().zip(&observed.rows);
            rows.for_each(|(&row, &observed)| self.observed[row as usize] += observed);
        }
        for (column, values) in window.columns.iter().enumerate() {
            for (&row, &value) in window.rows.iter().zip(values) {
                let sum = &mut self.sums[row as usize * width + column];
                *sum = sum.saturating_add(value);
            }
        }
        Ok(())
    }

    /// Returns the profile, or `None` if there was no window.
    pub(crate) fn finish(self) -> Option<Profile> {
        let Into { mut builder, start, duration, quality, observed, .. } = self.into?;
        builder.comment(&format!("flamelet: {} windows of a history", self.windows));
        let header = builder.header_mut();
        header.time_nanos = start;
        header.duration_nanos = duration;
        let mut profile = builder.finish_with(None, quality);
        profile.observations = profile.observations.filter(|_| observed.is_some());
        Some(profile)
    }
}

impl Into {
    fn new(kind: &Kind, observed: Option<usize>, budget: &Budget) -> Self {
        Self {
            kind: kind.clone(),
            builder: kind.builder().within(budget.clone()),
            modules: HashMap::default(),
            of_modules: Vec::new(),
            taken: Vec::new(),
            stacks: HashMap::default(),
            start: i64::MAX,
            duration: 0,
            quality: None,
            observed,
        }
    }

    /// Takes what a window says about time and quality.
    fn note(&mut self, tables: &SegmentTables, window: &Window) {
        self.start = self.start.min(window.start);
        self.duration = self.duration.saturating_add(window.duration);
        let Some((engine, other)) = window.quality else { return };
        let engine = self.builder.string(tables.text(engine));
        // Names come later, and with them the number of frames without one.
        let other = Quality { engine, unresolved: 0, ..other };
        self.quality = Some(self.quality.map_or(other, |mine| mine.and(other)));
    }

    fn labels(&mut self, tables: &SegmentTables, set: u32) -> LabelSetId {
        let rows = tables.label_sets.get(set).map(|rows| &**rows).unwrap_or_default();
        let labels: Vec<_> = rows
            .iter()
            .map(|row| flamelet_profile::Label {
                key: self.builder.string(tables.text(row.key)),
                text: self.builder.string(tables.text(row.text)),
                number: row.number,
                unit: self.builder.string(tables.text(row.unit)),
            })
            .collect();
        self.builder.labels(&labels)
    }

    /// Returns the stack of a node, which is walked to its root only if no segment had it before.
    fn stack(&mut self, tables: &SegmentTables, node: u32, budget: &Budget) -> Result<StackId> {
        let hash = tables.nodes.get(node).map(|node| node.hash).unwrap_or_default();
        if let Some(&known) = self.stacks.get(&hash) {
            return Ok(known);
        }
        let (mut locations, mut at) = (Vec::new(), node);
        while at != 0 {
            budget.work(1)?;
            let Some(node) = tables.nodes.get(at) else { break };
            if let Some((frame, _)) = tables.frames.get(node.frame) {
                locations.push(self.location(tables, frame));
            }
            // Callers have smaller numbers, so this ends.
            at = node.caller;
        }
        let stack = self.builder.stack(&locations);
        budget.charge(flamelet_profile::budget::hash_entry(size_of::<(ContentHash, StackId)>()))?;
        self.stacks.insert(hash, stack);
        Ok(stack)
    }

    fn location(&mut self, tables: &SegmentTables, frame: &StoredFrame) -> LocationId {
        if frame.name != 0 {
            let (name, file) = (tables.text(frame.name), tables.text(frame.file));
            let function = self.builder.named_function(name, file);
            return self.builder.frame(function, 0);
        }
        let number = frame.module.wrapping_sub(1);
        let Some(module) = tables.modules.get(number) else {
            return self.builder.address(None, frame.offset);
        };
        // The program comes first, whatever was sampled first.
        if self.modules.is_empty()
            && let Some(program) = tables.modules.get(0)
        {
            self.mapping(tables, program);
        }
        let known = self.of_modules.get(number as usize).copied().flatten();
        let mapping = known.unwrap_or_else(|| self.mapping(tables, module));
        if let Some(known) = self.of_modules.get_mut(number as usize) {
            *known = Some(mapping);
        }
        let profile = self.builder.profile();
        let start = profile.mappings().get(mapping.index()).map_or(0, |mapping| mapping.start);
        self.builder.address(Some(mapping), start.wrapping_add(frame.offset - module.offset))
    }

    fn mapping(&mut self, tables: &SegmentTables, module: &StoredModule) -> MappingId {
        let (build_id, file) = (tables.text(module.build_id), tables.text(module.file));
        let identity = if build_id.is_empty() { file } else { build_id };
        let key = ModuleKey { identity: identity.to_owned(), offset: module.offset, size: module.size };
        if let Some(&known) = self.modules.get(&key) {
            return known;
        }
        let start = self.place(module);
        let mapping = self.builder.file_mapping(start..start + module.size, module.offset, file, build_id);
        self.modules.insert(key, mapping);
        mapping
    }

    /// Returns where a module goes: where it was, unless a module of another process is there already.
    fn place(&mut self, module: &StoredModule) -> u64 {
        let is_free = |start: u64| {
            start
                .checked_add(module.size)
                .is_some_and(|limit| self.taken.iter().all(|&(from, to)| limit <= from || to <= start))
        };
        let ends = self.taken.iter().map(|&(_, limit)| limit).filter(|&limit| limit < KERNEL_START);
        let behind =
            ends.filter_map(|limit| limit.checked_next_multiple_of(ALIGNMENT)).find(|&start| is_free(start));
        let start = if is_free(module.start) { module.start } else { behind.unwrap_or(module.start) };
        self.taken.push((start, start + module.size));
        start
    }
}
