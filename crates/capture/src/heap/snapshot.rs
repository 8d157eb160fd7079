//! A moment of the heap, and the profiles that can be made from it.

use super::form::{HEAP_TYPES, describe};
use super::interval::whole_objects;
use super::ledger::image::{Counts, LedgerImage, Site};
use super::ledger::{Field, ImageModule, Reason, RecordId, RowId};
use super::lifetime::Lifetime;
use super::thread::Inside;
use super::{jemalloc, modules, tracker, watch};
use crate::{Error, ErrorKind, Result};
use flamelet_profile::{Assembler, Label, LabelSetId, MappingId, Profile, ProfileBuilder, StackId};
use rustc_hash::FxHashMap;

/// What the heap profiler knew at one moment. Profiles are made from one snapshot, or from two.
///
/// Taking one copies the counts of every site and each stack once. It does not stop anything, takes no lock
/// that the allocator takes, and is not sampled itself. The tables bound its size: with the capacities that
/// [`Options`](super::Options) has by default, a few MB at the very most.
#[derive(Clone, Debug)]
pub struct Snapshot {
    image: LedgerImage,
    time_nanos: i64,
    /// Whether it was taken of this process, and not read from a file.
    is_own: bool,
}

impl Snapshot {
    /// Takes a snapshot of the heap of this process, now.
    pub fn take() -> Result<Self> {
        let Some(tracker) = tracker::tracker() else {
            return Err(Error::new(ErrorKind::Denied, "heap profiling was not started"));
        };
        let _inside = Inside::enter();
        modules::refresh(&tracker.ledger)?;
        let image = LedgerImage::read(tracker.ledger.words());
        let image = image.map_err(|error| Error::new(ErrorKind::Denied, error.to_string()))?;
        Ok(Self { image, time_nanos: crate::clock::unix_nanos(), is_own: true })
    }

    pub(super) fn of_image(image: LedgerImage) -> Self {
        // When the process was last seen alive.
        let times = [Field::LastChange, Field::ReasonTime, Field::Started];
        let time_nanos = times.into_iter().map(|field| image.field(field) as i64).max().unwrap_or(0);
        Self { image, time_nanos, is_own: false }
    }

    /// What was allocated since the start (or the last reset) and what is alive, with Go's four sample types.
    pub fn heap(&self) -> Profile {
        let mut profile = HeapProfile::new(self, &HEAP_TYPES, "inuse_space");
        for site in &self.image.sites {
            profile.add_site(site, &[], &four(site.allocated, site.live));
        }
        self.add_refused(&mut profile);
        profile.finish(self.counted_nanos())
    }

    /// What happened between `before` and this snapshot, as differences, which may be negative for what is alive.
    pub fn since(&self, before: &Self) -> Profile {
        let mut profile = HeapProfile::new(self, &HEAP_TYPES, "inuse_space");
        let known = before.sites_comparable_to(self);
        for site in &self.image.sites {
            let old = known.get(&site.id).copied().copied().unwrap_or_default();
            let values = four(minus(site.allocated, old.allocated), minus(site.live, old.live));
            profile.add_site(site, &[], &values);
        }
        profile.finish(self.time_nanos.saturating_sub(before.time_nanos))
    }

    /// What grew between `before` and this snapshot, largest first: suspects of a leak.
    pub fn growth(&self, before: &Self) -> Profile {
        let known = before.sites_comparable_to(self);
        let grown = |site: &Site| {
            let old = known.get(&site.id).map_or_else(Counts::default, |old| old.live);
            (*site, minus(site.live, old), Vec::new())
        };
        let grown = self.image.sites.iter().map(grown).collect();
        self.ranked_growth(grown, self.time_nanos.saturating_sub(before.time_nanos))
    }

    /// Makes a profile of sites with what they grew by and labels of their own, largest first.
    pub(super) fn ranked_growth(&self, mut grown: Vec<Grown>, nanos: i64) -> Profile {
        grown.retain(|(_, growth, _)| growth.bytes > 0);
        flamelet_profile::sort_rows_by_key(&mut grown, |(_, growth, _)| std::cmp::Reverse(growth.bytes));
        let types = [("growth_objects", "count"), ("growth_space", "bytes")];
        let mut profile = HeapProfile::new(self, &types, "growth_space");
        for (site, growth, labels) in &grown {
            profile.add_site(site, labels, &[whole_objects(growth.objects), growth.bytes]);
        }
        profile.finish(nanos)
    }

    /// The live set at the highest moment since the start (or the last reset).
    ///
    /// A site's counts at that moment are put aside when it first changes afterwards, so the whole set is known
    /// without ever being copied. Threads that allocate at the very moment of the peak may be a sample off.
    pub fn peak(&self) -> Profile {
        let types = [("peak_objects", "count"), ("peak_space", "bytes")];
        let mut profile = HeapProfile::new(self, &types, "peak_space");
        for site in &self.image.sites {
            profile.add_site(site, &[], &[whole_objects(site.peak.objects), site.peak.bytes]);
        }
        let peak = self.image.field(Field::PeakTime) as i64;
        profile.assembler.builder.comment(&format!("flamelet: the peak was {} s before the snapshot", {
            self.time_nanos.saturating_sub(peak).max(0) / 1_000_000_000
        }));
        profile.finish(self.counted_nanos())
    }

    /// Where memory is freed: stacks that run from the root to the allocation, then through a frame
    /// `[freed by]`, then from the root of the freeing thread to the free. So the part of a flame graph above
    /// an allocation shows who frees what it made.
    pub fn freed(&self) -> Profile {
        let mut profile = self.ends_profile();
        // Allocation frames are in the middle of these stacks: dropping all below them would drop the frees.
        profile.assembler.builder.header_mut().drop_frames = Default::default();
        let sites = self.sites_by_id();
        for end in &self.image.ends {
            let Some(site) = sites.get(&end.site) else { continue };
            let stack = profile.joined_stack(end.stack, site.stack);
            let labels = profile.labels(site.context, site.size, &[]);
            let values = [whole_objects(end.counts.objects), end.counts.bytes];
            profile.assembler.builder.merge_sample(stack, labels, &values);
        }
        profile.finish(self.counted_nanos())
    }

    /// How long freed objects had lived, by the stacks that allocated them: the label `lifetime`.
    /// Temporary allocations are those with `lifetime=temporary`.
    pub fn lifetime(&self) -> Profile {
        self.by_lifetime(|_| true)
    }

    /// What was freed before its thread allocated anything else, by the stacks that allocated it.
    pub fn temporary(&self) -> Profile {
        self.by_lifetime(|class| class == Lifetime::Temporary)
    }

    fn by_lifetime(&self, wanted: impl Fn(Lifetime) -> bool) -> Profile {
        let mut profile = self.ends_profile();
        let sites = self.sites_by_id();
        for end in &self.image.ends {
            let Some(site) = sites.get(&end.site) else { continue };
            let class = Lifetime::ALL.get(usize::from(end.class)).copied().unwrap_or(Lifetime::Longer);
            if !wanted(class) {
                continue;
            }
            let label = [OwnLabel::Text("lifetime", class.name())];
            profile.add_site(site, &label, &[whole_objects(end.counts.objects), end.counts.bytes]);
        }
        profile.finish(self.counted_nanos())
    }

    /// Estimated live bytes.
    pub fn live_bytes(&self) -> u64 {
        self.image.sites.iter().map(|site| site.live.bytes as u64).sum()
    }

    /// Samples taken since the start or the last reset.
    pub fn samples(&self) -> u64 {
        self.image.field(Field::Samples)
    }

    /// Samples that found no room in the tables.
    pub fn lost(&self) -> u64 {
        self.image.field(Field::Lost)
    }

    pub(super) fn sites(&self) -> &[Site] {
        &self.image.sites
    }

    pub(super) fn time_nanos(&self) -> i64 {
        self.time_nanos
    }

    /// Returns whether both count the same process, without a reset in between.
    pub(super) fn continues(&self, before: &Self) -> bool {
        [Field::Started, Field::Resets, Field::Pid]
            .into_iter()
            .all(|field| self.image.field(field) == before.image.field(field))
    }

    fn sites_by_id(&self) -> FxHashMap<RowId, &Site> {
        self.image.sites.iter().map(|site| (site.id, site)).collect()
    }

    /// Returns the sites to subtract; none when the counts started over after this snapshot.
    fn sites_comparable_to(&self, after: &Self) -> FxHashMap<RowId, &Site> {
        if after.continues(self) { self.sites_by_id() } else { FxHashMap::default() }
    }

    fn counted_nanos(&self) -> i64 {
        self.time_nanos.saturating_sub(self.image.field(Field::CountedSince) as i64).max(0)
    }

    fn ends_profile(&self) -> HeapProfile<'_> {
        let types = [("freed_objects", "count"), ("freed_space", "bytes")];
        HeapProfile::new(self, &types, "freed_space")
    }

    /// Adds where the refused allocation was requested: a sample without a value, for its stack.
    fn add_refused(&self, profile: &mut HeapProfile<'_>) {
        if self.image.reason() == Reason::Refused {
            let stack = RecordId(self.image.field(Field::ReasonStack) as u32);
            let bytes = self.image.field(Field::ReasonBytes);
            let label = [OwnLabel::Number("refused", i64::try_from(bytes).unwrap_or(i64::MAX), "bytes")];
            let stack = profile.stack(stack);
            let labels = profile.labels(RecordId::NONE, 0, &label);
            profile.assembler.builder.sample(stack, labels, &[0, 0, 0, 0]);
        }
    }

    fn comments(&self) -> Vec<String> {
        let field = |field| self.image.field(field);
        let mut comments = vec![
            format!("flamelet: heap, one sample per {} bytes", field(Field::Mean)),
            format!(
                "flamelet: {} samples, {} lost, {} stacks truncated, {} records damaged",
                field(Field::Samples),
                field(Field::Lost),
                field(Field::Truncated),
                self.image.damaged
            ),
        ];
        let bytes = field(Field::ReasonBytes);
        let before = self.time_nanos.saturating_sub(field(Field::ReasonTime) as i64).max(0) / 1_000_000_000;
        let reason = match self.image.reason() {
            Reason::None => None,
            Reason::Cgroup => Some(format!("the control group's limit of {bytes} bytes was near")),
            Reason::AddressSpace => Some(format!("the address space limit of {bytes} bytes was near")),
            Reason::Named => Some(format!("the configured limit of {bytes} bytes was near")),
            Reason::Refused => Some(format!("an allocation of {bytes} bytes failed")),
        };
        comments.extend(reason.map(|reason| format!("flamelet: {reason}, {before} s before the snapshot")));
        let (merged, ends) = (field(Field::Merged), field(Field::LostEnds));
        if merged > 0 {
            comments
                .push(format!("flamelet: {merged} samples without labels or stack: more sites than rows"));
        }
        if ends > 0 {
            comments.push(format!("flamelet: {ends} frees are not in the profiles of freed memory"));
        }
        if self.is_own {
            comments.extend(jemalloc::comments());
            let resident = watch::resident_bytes();
            comments.extend(resident.map(|bytes| format!("flamelet: resident memory {bytes} bytes")));
            comments.extend(super::c_comment());
            comments.extend(watch::describe().iter().map(|limit| format!("flamelet: watching {limit}")));
        }
        comments
    }
}

/// A site, what it grew by, and labels that say so.
pub(super) type Grown = (Site, Counts, Vec<OwnLabel<'static>>);

/// A label besides those of the site.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnLabel<'a> {
    Text(&'a str, &'a str),
    Number(&'a str, i64, &'a str),
}

fn minus(new: Counts, old: Counts) -> Counts {
    Counts { objects: new.objects.wrapping_sub(old.objects), bytes: new.bytes.wrapping_sub(old.bytes) }
}

fn four(allocated: Counts, live: Counts) -> [i64; 4] {
    [whole_objects(allocated.objects), allocated.bytes, whole_objects(live.objects), live.bytes]
}

/// A heap profile that is being assembled.
struct HeapProfile<'a> {
    snapshot: &'a Snapshot,
    assembler: Assembler<RecordId>,
    mappings: Vec<MappingId>,
    /// Keeps what this allocates from being sampled.
    _inside: Inside,
}

impl<'a> HeapProfile<'a> {
    fn new(snapshot: &'a Snapshot, types: &[(&str, &str)], default_type: &str) -> Self {
        let inside = Inside::enter();
        let mut assembler = Assembler::new(types);
        describe(&mut assembler.builder, snapshot.image.field(Field::Mean) as i64, default_type);
        for comment in snapshot.comments() {
            assembler.builder.comment(&comment);
        }
        let modules = snapshot.image.modules.iter();
        let mappings = modules.map(|module| mapping(&mut assembler.builder, module)).collect();
        Self { snapshot, assembler, mappings, _inside: inside }
    }

    fn add_site(&mut self, site: &Site, labels: &[OwnLabel<'_>], values: &[i64]) {
        if values.iter().all(|&value| value == 0) {
            return;
        }
        let stack = self.stack(site.stack);
        let labels = self.labels(site.context, site.size, labels);
        self.assembler.builder.merge_sample(stack, labels, values);
    }

    fn stack(&mut self, id: RecordId) -> StackId {
        let (image, mappings) = (&self.snapshot.image, &self.mappings);
        self.assembler.stack(id, |assembler, frames| {
            frames.extend(image.stack(id).iter().map(|&address| {
                let module = module_at(&image.modules, address);
                assembler.builder.address(module.map(|at| mappings[at]), address)
            }));
        })
    }

    fn joined_stack(&mut self, freed: RecordId, allocated: RecordId) -> StackId {
        let (freed, allocated) = (self.stack(freed), self.stack(allocated));
        let builder = &mut self.assembler.builder;
        let marker = builder.named_frame("[freed by]");
        let profile = builder.profile();
        let joined = [profile.stack(freed), &[marker], profile.stack(allocated)].concat();
        builder.stack(&joined)
    }

    fn labels(&mut self, context: RecordId, size: u64, own: &[OwnLabel<'_>]) -> LabelSetId {
        let builder = &mut self.assembler.builder;
        let mut labels: Vec<Label> = Vec::new();
        for (name, value) in self.snapshot.image.context(context) {
            if !value.is_empty() {
                labels.push(builder.text_label(&name, &value));
            }
        }
        if size > 0 {
            labels.push(builder.number_label("bytes", size as i64, "bytes"));
        }
        for label in own {
            labels.push(match *label {
                OwnLabel::Text(name, text) => builder.text_label(name, text),
                OwnLabel::Number(name, number, unit) => builder.number_label(name, number, unit),
            });
        }
        builder.labels(&labels)
    }

    fn finish(mut self, duration_nanos: i64) -> Profile {
        let header = self.assembler.builder.header_mut();
        header.time_nanos = self.snapshot.time_nanos;
        header.duration_nanos = duration_nanos.max(0);
        self.assembler.finish()
    }
}

fn mapping(builder: &mut ProfileBuilder, module: &ImageModule) -> MappingId {
    let ImageModule { start, end, file_offset, name, build_id } = module;
    builder.file_mapping(*start..*end, *file_offset, name, build_id)
}

/// Returns which of the modules, sorted by address, holds `address`.
fn module_at(modules: &[ImageModule], address: u64) -> Option<usize> {
    let after = modules.partition_point(|module| module.start <= address);
    after.checked_sub(1).filter(|&at| address < modules[at].end)
}
