//! When samples were taken, on which thread, and how good the capture was: facts that pprof has no fields for.
//!
//! # In the file
//!
//! Both are stored in the pprof file itself, as extra fields of the `Profile` message whose numbers the pprof schema
//! does not use. Protobuf readers skip fields they do not know (`go tool pprof`, Parca, Pyroscope and Polar Signals
//! all do), so one file opens everywhere and still has a timeline in flamelet. A tool that rewrites the file, such as
//! `go tool pprof -proto`, drops them.
//!
//! | field of `Profile` | number | encoding |
//! |---|---|---|
//! | `flamelet_timeline` | 2601 | message `Timeline` |
//! | `flamelet_quality` | 2602 | message `Quality` |
//! | `flamelet_known_crate` | 2604 | repeated message `KnownCrate` |
//! | `flamelet_heap_sizes` | 2605 | message `HeapSizes` |
//!
//! | field of `Timeline` | number | encoding |
//! |---|---|---|
//! | `start_nanos` | 1 | int64, time zero in nanoseconds since 1970 |
//! | `thread` | 2 | repeated message `Thread` { 1 pid, 2 tid, 3 name (string index), 4 process (string index) } |
//! | `time_delta` | 3 | packed uint64: nanoseconds since the event before (events are sorted by time) |
//! | `sample` | 4 | packed uint64: the row of `Profile.sample` |
//! | `event_thread` | 5 | packed uint64: the row of `thread` |
//! | `value` | 6 | packed sint64: this event's share of the sample's value; absent when every share is 1 |
//! | `value_type` | 7 | the row of `Profile.sample_type` that `value` is given in |
//!
//! | field of `Quality` | number | encoding |
//! |---|---|---|
//! | `engine` | 1 | string index |
//! | `asked_millihertz`, `achieved_millihertz` | 2, 3 | uint64 |
//! | `samples`, `lost`, `truncated`, `unresolved` | 4, 5, 6, 7 | uint64 |
//! | `own_cpu_nanos` | 8 | uint64 |
//!
//! | field of `KnownCrate` | number | encoding |
//! |---|---|---|
//! | `name`, `version` | 1, 2 | string index |
//! | `is_yours` | 3 | bool |
//!
//! | field of `HeapSizes` | number | encoding |
//! |---|---|---|
//! | `time_delta` | 1 | packed uint64: nanoseconds since the moment before, or since the start |
//! | `bytes` | 2 | packed uint64: how large the heap was; at most 400 moments |
//!
//! The quality is also written as `comment` lines, which every reader shows.

use crate::{StringId, ThreadId};

/// One thread of the profiled processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process id.
    pub pid: u64,
    /// The thread id.
    pub tid: u64,
    /// The thread's name.
    pub name: StringId,
    /// The process's name.
    pub process: StringId,
}

/// One moment at which a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since [`Timeline::start_nanos`].
    pub time: u64,
    /// The row of the sample in the profile.
    pub sample: u32,
    /// The thread.
    pub thread: ThreadId,
    /// This event's share of the sample's value.
    pub value: i64,
}

/// The moments at which the samples of a profile were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Time zero, in nanoseconds since 1970.
    pub start_nanos: i64,
    /// The threads that events name.
    pub threads: Vec<Thread>,
    /// The moments, sorted by time.
    pub events: Vec<Event>,
    /// The sample type of [`Event::value`].
    pub value_type: usize,
}

impl Timeline {
    /// Returns the time from zero to the last event.
    pub fn span_nanos(&self) -> u64 {
        self.events.last().map_or(0, |event| event.time)
    }
}

/// How good a capture is, according to the capture itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// The engine that took the samples: `timer`, `perf`, `setitimer`, …
    pub engine: StringId,
    /// The requested rate, in thousandths of a hertz.
    pub asked_millihertz: u64,
    /// Observations per second of CPU time, in thousandths of a hertz. Below the requested rate where the kernel looks
    /// less often than that; each observation then stands for more.
    pub achieved_millihertz: u64,
    /// Observations: signals or records, not what they stand for.
    pub samples: u64,
    /// Observations that were due and are missing.
    pub lost: u64,
    /// Stacks that do not reach the thread's start.
    pub truncated: u64,
    /// Frames without a name.
    pub unresolved: u64,
    /// CPU time that the profiler itself used.
    pub own_cpu_nanos: u64,
}

impl Quality {
    /// The engine of `flamelet record` where perf_event_open is forbidden.
    pub const INSIDE_A_COMMAND: &str = "timers inside the command";

    /// Returns the quality of two captures together. The engine is this one's.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            engine: self.engine,
            asked_millihertz: self.asked_millihertz.max(other.asked_millihertz),
            achieved_millihertz: self.achieved_millihertz.min(other.achieved_millihertz),
            samples: self.samples.saturating_add(other.samples),
            lost: self.lost.saturating_add(other.lost),
            truncated: self.truncated.saturating_add(other.truncated),
            unresolved: self.unresolved.saturating_add(other.unresolved),
            own_cpu_nanos: self.own_cpu_nanos.saturating_add(other.own_cpu_nanos),
        }
    }

    /// Returns the lines for the profile's comments.
    pub fn comment_lines(&self, engine: &str) -> Vec<String> {
        let hertz = |millihertz: u64| millihertz as f64 / 1000.0;
        // A capture that counts every event has no rate.
        let (asked, achieved) = (hertz(self.asked_millihertz), hertz(self.achieved_millihertz));
        let rate = match (self.asked_millihertz, self.achieved_millihertz) {
            (0, _) => String::new(),
            (_, 0) => format!(", {asked} samples a second requested"),
            _ => format!(", {achieved:.0} samples a second; {asked} requested"),
        };
        // What the tool that wrote another format used was not measured.
        let own = match self.own_cpu_nanos {
            0 => String::new(),
            nanos => format!(", own CPU {:.3} ms", nanos as f64 / 1e6),
        };
        let Self { samples, lost, truncated, unresolved, .. } = self;
        vec![
            format!("flamelet: engine {engine}{rate}"),
            format!(
                "flamelet: {samples} samples, {lost} lost, {truncated} stacks truncated, {unresolved} frames unresolved{own}"
            ),
        ]
    }

    /// Returns whether `comment` was written by [`Quality::comment_lines`].
    pub(crate) fn wrote(comment: &str) -> bool {
        comment.starts_with("flamelet: engine ")
            || (comment.starts_with("flamelet: ") && comment.contains(" frames unresolved"))
    }
}
