//! Time: one lane per thread or task, and the heatmap within seconds.

use flamelet_profile::{
    Event, KERNEL_MAPPING, KERNEL_START, LabelSetId, Profile, StackId, StringId, Thread, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::marks::{Mark, Marks};
use crate::flame::{NEUTRAL, hue_of, is_grey};
use crate::stacks::{Frames, NameId};

/// The most threads with a lane of their own, the busiest of all. The others of a process share one.
const MAX_LANES: usize = 200;
/// The most pieces that waits are divided into; a file may name any number of endless ones.
const MAX_PIECES: usize = 4_000_000;
const SECOND: u64 = 1_000_000_000;
/// The heatmap's rows within a column.
const ROWS: usize = 50;
/// The most columns of a heatmap; longer captures have columns of more than a second.
const MAX_COLUMNS: u64 = 600;

#[derive(Clone, Debug)]
pub(crate) struct TimelineLane {
    thread: String,
    process: String,
    pid: u64,
    tid: u64,
    /// How many threads it stands for.
    threads: usize,
    pub(crate) total: i64,
    /// The value of each bucket of time.
    pub(crate) values: Vec<i64>,
    /// How much of it was spent waiting off the CPU: samples with the label `wait`.
    pub(crate) waits: Vec<i64>,
    /// How much of it was spent running in the kernel.
    pub(crate) kernel: Vec<i64>,
    /// In each bucket, the hue of the innermost crate that has one, by the largest value.
    pub(crate) hues: Vec<u32>,
    /// In each bucket, the innermost function with the largest value: a row of `names`, or -1.
    tops: Vec<i32>,
    /// In each bucket, the system call, page fault or collection with the largest value: a row of `marks`, or -1. Empty if
    /// there is none.
    marks: Vec<i32>,
    /// The value of that mark.
    marked: Vec<i64>,
    /// The same for spans.
    spans: Vec<i32>,
}
serialize!(TimelineLane: thread, process, pid, tid, threads, total, values, waits, kernel, hues, tops, marks, marked, spans);

/// A lane for each thread.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// Nanoseconds between the first and the last event.
    pub(crate) span: u64,
    /// The length of a bucket in nanoseconds.
    pub(crate) bucket: u64,
    /// The largest value of a bucket of one thread.
    pub(crate) peak: i64,
    pub(crate) unit: String,
    /// Those of a process are next to each other.
    pub(crate) lanes: Vec<TimelineLane>,
    names: Vec<String>,
    marks: Vec<Mark>,
}
serialize!(Lanes: span, bucket, peak, unit, lanes, names, marks);

/// Returns the lanes of a profile with a timeline, in the sample type at `index`, divided into `buckets`: one for each thread.
pub fn lanes(profile: &Profile, frames: &Frames, index: usize, buckets: usize) -> Option<Lanes> {
    Some(lanes_of(&TimedEvents::new(profile, index)?, frames, buckets))
}

/// Like [`lanes`], with one for each task or route. Moments without one are left out.
pub fn task_lanes(profile: &Profile, frames: &Frames, index: usize, buckets: usize) -> Option<Lanes> {
    let times = TimedEvents { tasks: Some(Tasks::of(profile)), ..TimedEvents::new(profile, index)? };
    Some(lanes_of(&times, frames, buckets))
}

fn lanes_of(times: &TimedEvents<'_>, frames: &Frames, buckets: usize) -> Lanes {
    let (profile, index) = (times.profile, times.index);
    let ranking = Ranking::new(times);
    let span = times.span();
    let bucket = span.div_ceil(buckets.clamp(1, 5000) as u64);
    let count = span.div_ceil(bucket) as usize;
    let mut lanes: Vec<TimelineLane> = ranking.lanes.iter().map(|lane| lane.empty(profile, count)).collect();
    let mut cells: FxHashMap<(usize, usize), Cell> = FxHashMap::default();
    let stack_hues = stack_hues(profile, frames);
    let (kernel, marks) = (kernel_stacks(profile), Marks::of(profile, frames));
    times.pieces(bucket, count, |at, event, is_wait| {
        let Some(&place) = ranking.lane_of.get(&event.thread) else { return };
        let (lane, sample) = (&mut lanes[place], profile.sample(event.sample as usize));
        let stack = sample.stack;
        increase(&mut lane.values[at], event.value);
        lane.total = lane.total.saturating_add(event.value);
        if is_wait {
            increase(&mut lane.waits[at], event.value);
        } else if kernel[stack.index()] {
            increase(&mut lane.kernel[at], event.value);
        }
        let leaf = profile.stack(stack).first().and_then(|&location| frames.of(location).next());
        if lane.threads > 1 {
            return;
        }
        let (mark, span) = (marks.of_sample(stack, sample.labels), marks.span(sample.labels));
        if leaf.is_none() && mark.is_none() && span.is_none() {
            return;
        }
        let cell = cells.entry((place, at)).or_default();
        if let Some(name) = leaf {
            add(&mut cell.functions, name, event.value);
            add(&mut cell.hues, stack_hues[stack.index()], event.value);
        }
        mark.into_iter().for_each(|mark| add(&mut cell.marks, mark, event.value));
        span.into_iter().for_each(|span| add(&mut cell.spans, span, event.value));
    });
    let mut names = NameRows::default();
    let mut keys: Vec<_> = cells.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let (lane, Cell { functions, hues, marks, spans }) = (&mut lanes[key.0], &cells[&key]);
        lane.hues[key.1] = largest(hues).unwrap_or(NEUTRAL);
        if let Some(top) = largest(functions) {
            lane.tops[key.1] = names.row(top, frames.text(profile, top));
        }
        lane.mark(key.1, largest(marks).map(|mark| (mark, marks[&mark])), largest(spans));
    }
    let own = lanes.iter().filter(|lane| lane.threads == 1);
    let peak = own.flat_map(|lane| &lane.values).copied().max().unwrap_or(1).max(1);
    Lanes { span, bucket, peak, unit: unit(profile, index), lanes, names: names.texts, marks: marks.rows }
}

fn increase(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

/// The events of a profile in one sample type.
struct TimedEvents<'a> {
    profile: &'a Profile,
    index: usize,
    /// For each label set, whether the thread waited.
    waits: Vec<bool>,
    /// Whether values are nanoseconds.
    has_durations: bool,
    /// What has lanes in place of threads.
    tasks: Option<Tasks>,
}

/// Tasks and routes, as the labels of samples name them. They take the place of threads.
struct Tasks {
    /// For each label set, its task.
    of_set: Vec<Option<ThreadId>>,
    names: Vec<Thread>,
}

/// The labels that name a task, the first that a sample has.
const TASK_LABELS: [&str; 2] = ["task", "route"];

impl Tasks {
    fn of(profile: &Profile) -> Self {
        let keys = TASK_LABELS.map(|label| profile.strings().find(label));
        let (mut ids, mut names) = (FxHashMap::default(), Vec::new());
        let mut task_of = |set: usize| {
            let labels = profile.labels(LabelSetId::from_index(set));
            let text = |key: StringId| {
                labels.iter().find(|label| label.key == key && label.is_text()).map(|label| label.text)
            };
            let name = keys.iter().flatten().find_map(|&key| text(key))?;
            Some(*ids.entry(name).or_insert_with(|| {
                names.push(Thread { name, ..Thread::default() });
                ThreadId::from_index(names.len() - 1)
            }))
        };
        let of_set = (0..profile.label_set_count()).map(&mut task_of).collect();
        Self { of_set, names }
    }
}

impl<'a> TimedEvents<'a> {
    fn new(profile: &'a Profile, index: usize) -> Option<Self> {
        profile.timeline.as_ref()?;
        let (waits, has_durations) = (profile.waiting_sets(), profile.counts_nanoseconds(index));
        Some(Self { profile, index, waits, has_durations, tasks: None })
    }

    fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.profile.events_in(self.index).into_iter().flatten().filter_map(|event| match &self.tasks {
            Some(tasks) => Some(Event { thread: tasks.of_set[self.set_of(&event)]?, ..event }),
            None => Some(event),
        })
    }

    /// Returns the threads or tasks that events name.
    fn threads(&self) -> &[Thread] {
        match &self.tasks {
            Some(tasks) => &tasks.names,
            None => self.profile.timeline.as_ref().map_or(&[], |timeline| &timeline.threads),
        }
    }

    fn set_of(&self, event: &Event) -> usize {
        self.profile.sample(event.sample as usize).labels.index()
    }

    fn is_wait(&self, event: &Event) -> bool {
        self.waits[self.set_of(event)]
    }

    /// Returns when an event ends. Only a wait lasts.
    fn end(&self, event: &Event) -> u64 {
        let lasts = self.has_durations && self.is_wait(event);
        event.time.saturating_add(if lasts { u64::try_from(event.value).unwrap_or(0) } else { 0 })
    }

    /// Returns the time until the last event, at least 2.
    fn span(&self) -> u64 {
        let last = self.profile.timeline.as_ref().map_or(0, flamelet_profile::Timeline::span_nanos);
        let end = self.events().map(|event| self.end(&event)).max().unwrap_or(0);
        end.max(last).max(1).saturating_add(1)
    }

    /// Passes the part of each event in each bucket to `take`, with whether it is a wait.
    fn pieces(&self, bucket: u64, count: usize, mut take: impl FnMut(usize, &Event, bool)) {
        let at = |time: u64| ((time / bucket) as usize).min(count - 1);
        let mut pieces = 0;
        for event in self.events() {
            let (first, end) = (at(event.time), self.end(&event));
            let last = at(end.saturating_sub(1).max(event.time));
            pieces += last - first;
            if first == last || pieces > MAX_PIECES {
                take(first, &event, self.is_wait(&event));
                continue;
            }
            for place in first..=last {
                let from = event.time.max((place as u64).saturating_mul(bucket));
                let to = if place == last { end } else { (place as u64 + 1).saturating_mul(bucket) };
                let value = i64::try_from(to.saturating_sub(from)).unwrap_or(i64::MAX);
                take(place, &Event { value, ..event }, true);
            }
        }
    }
}

/// Which threads have a lane.
struct Ranking {
    lanes: Vec<RankedLane>,
    lane_of: FxHashMap<ThreadId, usize>,
}

/// A thread with its own lane, or the idle threads of a process.
struct RankedLane {
    thread: Thread,
    threads: usize,
}

/// What a thread did.
#[derive(Clone, Copy, Default)]
struct ThreadTotals {
    total: i64,
    busy: i64,
}

impl Ranking {
    /// Ranks the threads: the busiest process first, and in it the busiest thread.
    fn new(times: &TimedEvents<'_>) -> Self {
        let mut totals: FxHashMap<ThreadId, ThreadTotals> = FxHashMap::default();
        for event in times.events() {
            let thread = totals.entry(event.thread).or_default();
            increase(&mut thread.total, event.value);
            if !times.is_wait(&event) {
                increase(&mut thread.busy, event.value);
            }
        }
        let threads = times.threads();
        let mut ranked: Vec<(ThreadId, Thread, ThreadTotals)> = totals
            .iter()
            .filter_map(|(&id, &sum)| Some((id, *threads.get(id.index())?, sum)))
            .filter(|(_, _, sum)| sum.total != 0)
            .collect();
        ranked.sort_unstable_by_key(|(id, _, sum)| (std::cmp::Reverse((sum.busy, sum.total)), id.index()));
        let own = own_lanes(&ranked);
        let mut processes: FxHashMap<(u64, u32), (i64, i64)> = FxHashMap::default();
        for (_, thread, sum) in &ranked {
            let process = processes.entry(process_key(thread)).or_default();
            (process.0, process.1) =
                (process.0.saturating_add(sum.busy), process.1.saturating_add(sum.total));
        }
        // Stable: within a process, the busiest thread stays first, and the idle ones come last.
        flamelet_profile::sort_rows_by_key(&mut ranked, |(id, thread, _)| {
            let key = process_key(thread);
            (std::cmp::Reverse(processes[&key]), key, !own.contains(id))
        });
        Self::place(&ranked, &own)
    }

    fn place(ranked: &[(ThreadId, Thread, ThreadTotals)], own: &FxHashSet<ThreadId>) -> Self {
        let mut ranking = Self { lanes: Vec::new(), lane_of: FxHashMap::default() };
        let mut shared: Option<(u64, u32)> = None;
        for (id, thread, _) in ranked {
            let is_shared = !own.contains(id);
            if is_shared && shared == Some(process_key(thread)) {
                ranking.lanes.last_mut().into_iter().for_each(|lane| lane.threads += 1);
            } else {
                ranking.lanes.push(RankedLane { thread: *thread, threads: 1 });
            }
            shared = is_shared.then(|| process_key(thread));
            ranking.lane_of.insert(*id, ranking.lanes.len() - 1);
        }
        ranking
    }
}

fn process_key(thread: &Thread) -> (u64, u32) {
    (thread.pid, thread.process.index() as u32)
}

/// Returns the threads with a lane of their own: where some threads do something, those that do not share one.
fn own_lanes(ranked: &[(ThreadId, Thread, ThreadTotals)]) -> FxHashSet<ThreadId> {
    let busiest = ranked.first().map_or(0, |(_, _, sum)| sum.busy);
    // A thousandth of the busiest thread cannot be seen.
    let is_idle = |sum: &ThreadTotals| busiest > 0 && sum.busy <= busiest / 1000;
    let own = ranked.iter().filter(|(_, _, sum)| !is_idle(sum)).take(MAX_LANES);
    own.map(|(id, ..)| *id).collect()
}

#[cfg(feature = "text")]
impl TimelineLane {
    /// Returns the name of its thread, or how many threads it stands for.
    pub(crate) fn title(&self) -> String {
        match self.threads {
            1 if self.thread.is_empty() => format!("thread {}", self.tid),
            1 => self.thread.clone(),
            threads => format!("{threads} other threads"),
        }
    }
}

impl RankedLane {
    fn empty(&self, profile: &Profile, count: usize) -> TimelineLane {
        TimelineLane {
            thread: profile.string(self.thread.name).to_owned(),
            process: profile.string(self.thread.process).to_owned(),
            pid: self.thread.pid,
            tid: self.thread.tid,
            threads: self.threads,
            total: 0,
            values: vec![0; count],
            waits: vec![0; count],
            kernel: vec![0; count],
            hues: vec![NEUTRAL; count],
            tops: vec![-1; count],
            marks: Vec::new(),
            marked: Vec::new(),
            spans: Vec::new(),
        }
    }
}

impl TimelineLane {
    /// Sets the marks of a bucket. The lists are made for the first one: most lanes have no spans.
    fn mark(&mut self, at: usize, mark: Option<(u32, i64)>, span: Option<u32>) {
        let count = self.values.len();
        if let Some((mark, value)) = mark {
            self.marks.resize(count, -1);
            self.marked.resize(count, 0);
            (self.marks[at], self.marked[at]) = (mark as i32, value);
        }
        if let Some(span) = span {
            self.spans.resize(count, -1);
            self.spans[at] = span as i32;
        }
    }
}

/// What a thread did in a bucket: the values by innermost function, by hue and by mark.
#[derive(Default)]
struct Cell {
    functions: FxHashMap<NameId, i64>,
    hues: FxHashMap<u32, i64>,
    marks: FxHashMap<u32, i64>,
    spans: FxHashMap<u32, i64>,
}

/// Returns for each stack whether it ends in the kernel.
fn kernel_stacks(profile: &Profile) -> Vec<bool> {
    let is_kernel = |stack: usize| {
        let leaf = profile.stack(StackId::from_index(stack)).first();
        leaf.is_some_and(|&leaf| {
            let location = profile.location(leaf);
            let file = location.mapping.map(|mapping| profile.string(profile.mapping(mapping).filename));
            location.address >= KERNEL_START || file == Some(KERNEL_MAPPING)
        })
    };
    (0..profile.stack_count()).map(is_kernel).collect()
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

/// Returns the unit of the sample type at `index`.
fn unit(profile: &Profile, index: usize) -> String {
    let value_type = profile.sample_types().get(index).copied().unwrap_or_default();
    profile.string(value_type.unit).to_owned()
}

/// How busy each fiftieth of each second was.
#[derive(Clone, Debug)]
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
serialize!(Heatmap: columns, rows, column, peak, unit, cells);

/// Returns the heatmap of a profile with a timeline, in the sample type at `index`.
pub fn heatmap(profile: &Profile, index: usize) -> Option<Heatmap> {
    let times = TimedEvents::new(profile, index)?;
    let span = times.span();
    let column = SECOND * span.div_ceil(SECOND * MAX_COLUMNS).max(1);
    let columns = span.div_ceil(column) as usize;
    let mut cells = vec![0i64; columns * ROWS];
    times.pieces(column / ROWS as u64, columns * ROWS, |at, event, _| increase(&mut cells[at], event.value));
    let peak = cells.iter().copied().max().unwrap_or(0);
    Some(Heatmap { columns, rows: ROWS, column, peak, unit: unit(profile, index), cells })
}
