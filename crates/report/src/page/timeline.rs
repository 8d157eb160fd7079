//! Time: one lane per thread, and the heatmap within seconds.

use flamelet_profile::{LabelSetId, Profile, StackId, Timeline};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::flame::{NEUTRAL, hue_of, is_grey};
use crate::stacks::{Frames, NameId};

/// The most lanes that are returned; the busiest threads come first.
const MAX_LANES: usize = 200;
const SECOND: u64 = 1_000_000_000;
/// The heatmap's rows within a column.
const ROWS: usize = 50;
/// The most columns of a heatmap; longer captures have columns of more than a second.
const MAX_COLUMNS: u64 = 600;

#[derive(Clone, Debug, Serialize)]
struct Lane {
    thread: String,
    process: String,
    tid: u64,
    total: i64,
    /// The value of each bucket of time.
    values: Vec<i64>,
    /// How much of it was spent waiting off the CPU: samples with the label `wait`.
    waits: Vec<i64>,
    /// In each bucket, the hue of the innermost crate that has one, by the largest value.
    hues: Vec<u32>,
    /// In each bucket, the innermost function with the largest value: a row of `names`, or -1.
    tops: Vec<i32>,
}

/// A lane for each thread.
#[derive(Clone, Debug, Serialize)]
pub struct Lanes {
    /// Nanoseconds between the first and the last event.
    span: u64,
    /// The length of a bucket in nanoseconds.
    bucket: u64,
    /// The largest value of a bucket.
    peak: i64,
    unit: String,
    lanes: Vec<Lane>,
    names: Vec<String>,
}

/// Returns the lanes of a profile with a timeline, divided into `buckets`.
pub fn lanes(profile: &Profile, frames: &Frames, buckets: usize) -> Option<Lanes> {
    let timeline = profile.timeline.as_ref()?;
    let span = timeline.span_nanos().max(1).saturating_add(1);
    let bucket = span.div_ceil(buckets.clamp(1, 5000) as u64);
    let count = span.div_ceil(bucket) as usize;
    let stack_hues = stack_hues(profile, frames);
    let mut cells: FxHashMap<(usize, usize), Bucket> = FxHashMap::default();
    for event in &timeline.events {
        let at = ((event.time / bucket) as usize).min(count - 1);
        let stack = profile.sample(event.sample as usize).stack;
        let leaf = profile.stack(stack).first();
        let Some(name) = leaf.and_then(|&location| frames.of(location).next()) else { continue };
        let cell = cells.entry((event.thread.index(), at)).or_default();
        add(&mut cell.functions, name, event.value);
        add(&mut cell.hues, stack_hues[stack.index()], event.value);
    }
    let waits = waiting_sets(profile);
    let mut names = NameRows::default();
    let busiest = busiest_threads(&cells);
    let lane_of: FxHashMap<usize, usize> =
        busiest.iter().enumerate().map(|(at, &thread)| (thread, at)).collect();
    let threads = busiest.iter().filter_map(|&thread| timeline.threads.get(thread));
    let mut lanes: Vec<Lane> = threads.map(|thread| empty_lane(profile, thread, count)).collect();
    let mut peak = 1;
    let mut keys: Vec<_> = cells.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let (thread, at) = key;
        let Some(lane) = lane_of.get(&thread).and_then(|&lane| lanes.get_mut(lane)) else { continue };
        let Bucket { functions, hues } = &cells[&key];
        lane.values[at] = cells[&key].total();
        lane.total = lane.total.saturating_add(lane.values[at]);
        peak = peak.max(lane.values[at]);
        lane.hues[at] = largest(hues).unwrap_or(NEUTRAL);
        if let Some(top) = largest(functions) {
            lane.tops[at] = names.row(top, frames.text(profile, top));
        }
    }
    for event in &timeline.events {
        let at = ((event.time / bucket) as usize).min(count - 1);
        let is_wait = waits[profile.sample(event.sample as usize).labels.index()];
        let lane = lane_of.get(&event.thread.index()).filter(|_| is_wait);
        if let Some(lane) = lane.and_then(|&lane| lanes.get_mut(lane)) {
            lane.waits[at] = lane.waits[at].saturating_add(event.value);
        }
    }
    Some(Lanes { span, bucket, peak, unit: unit(profile, timeline), lanes, names: names.texts })
}

/// What a thread did in a bucket: the values by innermost function and by hue.
#[derive(Default)]
struct Bucket {
    functions: FxHashMap<NameId, i64>,
    hues: FxHashMap<u32, i64>,
}

impl Bucket {
    fn total(&self) -> i64 {
        self.functions.values().fold(0, |sum: i64, value| sum.saturating_add(*value))
    }
}

/// Returns the threads that get a lane, busiest first. A file may name any number of threads.
fn busiest_threads(cells: &FxHashMap<(usize, usize), Bucket>) -> Vec<usize> {
    let mut totals: FxHashMap<usize, i64> = FxHashMap::default();
    for (&(thread, _), cell) in cells {
        add(&mut totals, thread, cell.total());
    }
    let mut threads: Vec<(usize, i64)> = totals.into_iter().filter(|&(_, total)| total != 0).collect();
    threads.sort_unstable_by_key(|&(thread, total)| (std::cmp::Reverse(total), thread));
    threads.truncate(MAX_LANES);
    threads.into_iter().map(|(thread, _)| thread).collect()
}

fn add<K: Eq + std::hash::Hash>(sums: &mut FxHashMap<K, i64>, key: K, value: i64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(value);
}

/// Returns the key with the largest value, the first if several are equal.
fn largest<K: Copy + Ord>(sums: &FxHashMap<K, i64>) -> Option<K> {
    sums.iter().max_by_key(|&(key, value)| (*value, std::cmp::Reverse(*key))).map(|(&key, _)| key)
}

/// Returns for each stack the hue of its innermost frame that has one: a thread in `memcpy` works for its caller.
fn stack_hues(profile: &Profile, frames: &Frames) -> Vec<u32> {
    let hues: Vec<u32> =
        frames.name_ids().map(|name| hue_of(frames.owner(name), &frames.krate(profile, name))).collect();
    let hue = |stack: usize| {
        let locations = profile.stack(StackId::from_index(stack)).iter();
        let mut names = locations.flat_map(|&location| frames.raw(location));
        let coloured = names.find(|&&name| !is_grey(hues[name as usize]));
        coloured.map_or(NEUTRAL, |&name| hues[name as usize])
    };
    (0..profile.stack_count()).map(hue).collect()
}

fn empty_lane(profile: &Profile, thread: &flamelet_profile::Thread, count: usize) -> Lane {
    Lane {
        thread: profile.string(thread.name).to_owned(),
        process: profile.string(thread.process).to_owned(),
        tid: thread.tid,
        total: 0,
        values: vec![0; count],
        waits: vec![0; count],
        hues: vec![NEUTRAL; count],
        tops: vec![-1; count],
    }
}

/// Returns for each label set whether it says that the thread waited.
fn waiting_sets(profile: &Profile) -> Vec<bool> {
    let key = profile.strings().find("wait");
    let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
    sets.map(|set| profile.labels(set).iter().any(|label| Some(label.key) == key)).collect()
}

#[derive(Default)]
struct NameRows {
    rows: FxHashMap<NameId, i32>,
    texts: Vec<String>,
}

impl NameRows {
    fn row(&mut self, name: NameId, text: &str) -> i32 {
        let texts = &mut self.texts;
        *self.rows.entry(name).or_insert_with(|| {
            texts.push(text.to_owned());
            (texts.len() - 1) as i32
        })
    }
}

/// Returns the unit of the timeline's values.
fn unit(profile: &Profile, timeline: &Timeline) -> String {
    let value_type = profile.sample_types().get(timeline.value_type).copied().unwrap_or_default();
    profile.string(value_type.unit).to_owned()
}

/// How busy each fiftieth of each second was.
#[derive(Clone, Debug, Serialize)]
pub struct Heatmap {
    columns: usize,
    rows: usize,
    /// The length of a column in nanoseconds.
    column: u64,
    peak: i64,
    unit: String,
    /// Column after column, each from its start to its end.
    cells: Vec<i64>,
}

/// Returns the heatmap of a profile with a timeline.
pub fn heatmap(profile: &Profile) -> Option<Heatmap> {
    let timeline = profile.timeline.as_ref()?;
    let span = timeline.span_nanos().max(1).saturating_add(1);
    let column = SECOND * span.div_ceil(SECOND * MAX_COLUMNS).max(1);
    let columns = span.div_ceil(column) as usize;
    let mut cells = vec![0i64; columns * ROWS];
    for event in &timeline.events {
        let row = (event.time % column) * ROWS as u64 / column;
        let at = (event.time / column) as usize * ROWS + row as usize;
        cells[at] = cells[at].saturating_add(event.value);
    }
    let peak = cells.iter().copied().max().unwrap_or(0);
    Some(Heatmap { columns, rows: ROWS, column, peak, unit: unit(profile, timeline), cells })
}
