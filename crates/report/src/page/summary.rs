//! The page's first tab: what stands out, your heaviest functions and what they consist of, crates, threads and labels.

use std::sync::Arc;

use flamelet_profile::filter::FilterOptions;
use flamelet_profile::{LabelSetId, Profile};
use flamelet_symbol::owner::Owners;
use serde::Serialize;

use super::about::counts_memory;
use super::changed::{compared, side};
use super::labels::{LabelSpread, escaped_pattern, heaviest};
use crate::by::{Group, Grouping, by};
use crate::explain::{self, Changes, Explanation, explain};
use crate::heap::{LIFETIMES, TEMPORARY, lifetimes_of_sets};
use crate::options::{ReportKind, ReportOptions};
use crate::report::Report;
use crate::stacks::base_label_sets;
use crate::verdict::{Verdict, judge};

/// The most rows of a list.
const MAX_ROWS: usize = 10;
const TEMPORARY_TITLE: &str = "Who allocates and frees at once";
/// The most points of the heap's size over time.
const MAX_POINTS: usize = 400;

/// A list of functions, crates or threads.
#[derive(Clone, Debug, Serialize)]
struct SummaryList {
    /// What its rows are: `yours`, `crate` or `thread`.
    by: &'static str,
    title: &'static str,
    sample_type: String,
    unit: String,
    total: i64,
    /// How much of the total has no frame of yours.
    without_yours: i64,
    rows: Vec<Group>,
}

/// The heaviest values of some labels.
#[derive(Clone, Debug, Serialize)]
struct SummaryLabels {
    /// What the shares of values refer to.
    total: i64,
    keys: Vec<LabelSpread>,
}

/// How large the heap was, at times that the profile knows.
#[derive(Clone, Debug, Serialize)]
struct SizeOverTime {
    /// In nanoseconds from the start.
    times: Vec<u64>,
    sizes: Vec<i64>,
    unit: String,
}

/// What the page shows first.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    verdict: Verdict,
    faults: Vec<String>,
    explanation: Explanation,
    lists: Vec<SummaryList>,
    labels: SummaryLabels,
    /// The start of the label filter that keeps one thread, `thread=`; empty if no label names threads.
    thread_key: String,
    /// What changed by more than noise, in a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<SizeOverTime>,
}

/// A profile to sum up.
#[derive(Clone, Debug)]
pub struct Summarized {
    /// The profile as other views show it.
    pub shown: Arc<Profile>,
    /// The same profile with the frames that it marks to be dropped: they say what your code makes the allocator do.
    pub whole: Arc<Profile>,
}

impl Summarized {
    /// Takes a profile that has no frames to be dropped, or whose frames were dropped already.
    pub fn of(profile: &Arc<Profile>) -> Self {
        Self { shown: Arc::clone(profile), whole: Arc::clone(profile) }
    }

    /// Returns one side of a difference.
    fn side(&self, is_base: bool) -> Self {
        let side_of = |profile: &Profile| Arc::new(side(profile, is_base));
        match Arc::ptr_eq(&self.shown, &self.whole) {
            true => Self::of(&side_of(&self.shown)),
            false => Self { shown: side_of(&self.shown), whole: side_of(&self.whole) },
        }
    }
}

/// Sums up the sample type at `sample_type`; of a difference, its new side and what changed.
pub fn summary(profile: &Summarized, owners: &Owners, sample_type: usize) -> Summary {
    if !base_label_sets(&profile.shown).contains(&true) {
        return summary_of(profile, owners, sample_type);
    }
    let [new, base] = [false, true].map(|is_base| profile.side(is_base));
    Summary { changes: changes(&base, &new, owners, sample_type), ..summary_of(&new, owners, sample_type) }
}

/// Says what changed between the sides of a difference, as `flamelet diff --explain` does.
fn changes(base: &Summarized, new: &Summarized, owners: &Owners, sample_type: usize) -> Option<Changes> {
    let compared = compared(&base.shown, &new.shown, owners, sample_type)?;
    let report = |side: &Summarized| [Report::unfiltered(Arc::clone(&side.whole), sample_type, 0)];
    let owners = std::slice::from_ref(owners);
    Some(explain::changes(&compared, (&report(base), owners), (&report(new), owners)))
}

fn summary_of(profile: &Summarized, owners: &Owners, sample_type: usize) -> Summary {
    let Summarized { shown, whole } = profile;
    let (chosen, chosen_whole) = (report(shown, sample_type), report(whole, sample_type));
    let (verdict, faults) = judge(shown);
    let lists = lists(profile, &chosen, &chosen_whole, owners);
    let has_threads = lists.iter().any(|list| list.by == "thread");
    let keys = heaviest(shown, sample_type, |key| has_threads && THREAD_LABELS.contains(&key));
    Summary {
        verdict,
        faults,
        explanation: explain(&chosen_whole, owners),
        lists,
        labels: SummaryLabels { total: chosen.total(), keys },
        thread_key: thread_key(shown),
        changes: None,
        size: size_over_time(shown),
    }
}

/// Returns the lists of functions, crates and threads.
fn lists(profile: &Summarized, chosen: &Report, chosen_whole: &Report, owners: &Owners) -> Vec<SummaryList> {
    let Summarized { shown, whole } = profile;
    let mut lists = Vec::new();
    let has_memory = counts_memory(shown);
    if !has_memory {
        lists.push(list(chosen_whole, Grouping::Yours, "Your heaviest functions", owners));
    }
    for (kind, title) in MEMORY.iter().filter(|_| has_memory) {
        let found = whole.sample_types().iter().position(|value| whole.string(value.kind) == *kind);
        lists.extend(found.map(|at| list(&report(whole, at), Grouping::Yours, title, owners)));
    }
    lists.extend(temporary(whole, owners).filter(|_| has_memory));
    lists.push(list(chosen, Grouping::Crate, "Crates and libraries", owners));
    let threads = list(chosen, Grouping::Thread, "Threads", owners);
    if threads.rows.len() > 1 {
        lists.push(threads);
    }
    // Nothing that costs nothing.
    lists.iter_mut().for_each(|list| list.rows.retain(|row| row.flat != 0));
    lists.retain(|list| !list.rows.is_empty());
    lists
}

fn report(profile: &Arc<Profile>, sample_type: usize) -> Report {
    Report::unfiltered(Arc::clone(profile), sample_type, MAX_ROWS)
}

/// The questions about memory, by the sample type that answers them.
const MEMORY: &[(&str, &str)] = &[
    ("inuse_space", "Who holds memory"),
    ("growth_space", "Whose memory grows"),
    ("peak_space", "Who held memory at the peak"),
    ("alloc_space", "Who allocates"),
    ("temporary_objects", TEMPORARY_TITLE),
    ("freed_space", "Whose memory was freed"),
];

fn list(report: &Report, grouping: Grouping, title: &'static str, owners: &Owners) -> SummaryList {
    let groups = by(report, grouping, owners);
    SummaryList {
        by: groups.by,
        title,
        sample_type: groups.sample_type,
        unit: groups.unit,
        total: groups.total,
        without_yours: groups.without_yours,
        rows: groups.rows,
    }
}

/// Returns who allocates memory that is freed before its thread allocates anything else, if lifetimes are known.
fn temporary(profile: &Arc<Profile>, owners: &Owners) -> Option<SummaryList> {
    let is_temporary = lifetimes_of_sets(profile).contains(&Some(TEMPORARY));
    let options = ReportOptions {
        sample_index: "freed_objects".to_owned(),
        filters: FilterOptions {
            tag_focus: format!("lifetime=^{}$", LIFETIMES[TEMPORARY]),
            ..Default::default()
        },
        node_count: Some(MAX_ROWS),
        ..ReportOptions::default()
    };
    let report = is_temporary.then(|| Report::new(Profile::clone(profile), &options, ReportKind::Explain));
    report?.ok().map(|report| list(&report, Grouping::Yours, TEMPORARY_TITLE, owners))
}

/// The labels that name threads.
const THREAD_LABELS: [&str; 2] = ["thread", "thread_name"];

/// Returns the label that names threads, as the start of a filter.
fn thread_key(profile: &Profile) -> String {
    let has = |key: &&&str| {
        let Some(key) = profile.strings().find(key) else { return false };
        let mut sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
        sets.any(|set| profile.labels(set).iter().any(|label| label.key == key && label.is_text()))
    };
    let key = THREAD_LABELS.iter().find(has);
    key.map_or_else(String::new, |key| format!("{}=", escaped_pattern(key)))
}

/// Returns how large the heap was, if the profile has moments of it.
fn size_over_time(profile: &Profile) -> Option<SizeOverTime> {
    let kept = profile.heap_sizes();
    if kept.len() > 1 {
        let times = kept.iter().map(|moment| moment.time).collect();
        let sizes = kept.iter().map(|moment| i64::try_from(moment.bytes).unwrap_or(i64::MAX)).collect();
        return Some(SizeOverTime { times, sizes, unit: "bytes".to_owned() });
    }
    let timeline = profile.timeline.as_ref()?;
    let value_type = profile.sample_types().get(timeline.value_type)?;
    // Events of other types are not sizes, but what was counted in a moment.
    if profile.string(value_type.kind) != "snapshot_space" {
        return None;
    }
    let mut points: Vec<(u64, i64)> = Vec::new();
    let mut events: Vec<_> = timeline.events.iter().map(|event| (event.time, event.value)).collect();
    events.sort_unstable();
    for (time, value) in events {
        match points.last_mut() {
            Some((last, size)) if *last == time => *size = size.saturating_add(value),
            _ => points.push((time, value)),
        }
    }
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    // Of several moments that share a point, the largest counts: a peak must not get lost.
    let largest = points.chunks(step).filter_map(|chunk| chunk.iter().max_by_key(|(_, size)| *size));
    let (times, sizes): (Vec<u64>, Vec<i64>) = largest.copied().unzip();
    (times.len() > 1).then(|| SizeOverTime { times, sizes, unit: profile.string(value_type.unit).to_owned() })
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Event, HeapSizes, ProfileBuilder, Thread, ThreadId, Timeline};

    use super::*;

    #[test]
    fn sizes_that_the_profile_has_come_first() {
        let mut profile = ProfileBuilder::new(&[("inuse_space", "bytes")]).finish();
        let size = |profile: &Profile| size_over_time(profile).map(|size| (size.times, size.sizes));
        assert_eq!(size(&profile), None);
        let mut sizes = HeapSizes::default();
        [(0, 0), (5, 70), (9, 30)].into_iter().for_each(|(time, bytes)| sizes.push(time, bytes));
        profile.set_heap_sizes(sizes);
        assert_eq!(size(&profile), Some((vec![0, 5, 9], vec![0, 70, 30])));
    }

    #[test]
    fn the_size_of_the_heap_over_time() {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes"), ("snapshot_space", "bytes")]);
        let mut samples = Vec::new();
        for name in ["shop::cart", "shop::index"] {
            let function = builder.named_function(name, "/home/me/shop/src/main.rs");
            let frame = builder.frame(function, 1);
            let stack = builder.stack(&[frame]);
            samples.push(builder.sample(stack, Default::default(), &[7, 7]) as u32);
        }
        let event = |time, sample: usize, value| Event {
            time,
            sample: samples[sample],
            thread: ThreadId::from_index(0),
            value,
        };
        let events = vec![event(5, 0, 10), event(5, 1, 1), event(9, 0, 20), event(9, 1, 2)];
        let threads = vec![Thread::default()];
        let timeline = Timeline { threads, events, value_type: 1, ..Timeline::default() };
        let profile = Arc::new(builder.finish_with(Some(timeline), None));
        let found = summary(&Summarized::of(&profile), &Owners::of(&profile, |_, _| false), 0);
        let size = found.size.expect("there are two moments");
        assert_eq!((size.times, size.sizes), (vec![5, 9], vec![11, 22]));
        assert_eq!(found.lists[0].title, "Who holds memory");
        assert_eq!(found.lists[0].rows.len(), 2);
    }

    #[test]
    fn the_heaviest_labels_say_most_first() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let frame = builder.named_frame("shop::main");
        let stack = builder.stack(&[frame]);
        let rows = [
            ("/cart", "worker-1", 64, 10),
            ("/health", "worker-2", 128, 1),
            ("/pay", "worker-1", 256, 40),
            ("/search?q=a,b", "worker-1", 512, 30),
        ];
        for (route, thread, size, value) in rows {
            let texts = [("route", route), ("service", "shop"), ("thread", thread)];
            let mut labels = texts.map(|(key, text)| builder.text_label(key, text)).to_vec();
            labels.push(builder.number_label("bytes", size, "bytes"));
            let labels = builder.labels(&labels);
            builder.sample(stack, labels, &[value]);
        }
        let profile = Arc::new(builder.finish());
        let found = summary(&Summarized::of(&profile), &Owners::of(&profile, |_, _| false), 0);
        assert_eq!(found.lists.last().map(|list| list.by), Some("thread"), "so the label is not shown again");
        let labels = serde_json::to_value(found.labels).expect("it can be written");
        assert_eq!(labels["total"], 81);
        let keys = labels["keys"].as_array().expect("labels").iter();
        let values = keys.map(|label| {
            let texts = label["values"].as_array().expect("values").iter();
            let texts: Vec<&str> = texts.map(|value| value["text"].as_str().expect("a text")).collect();
            (label["key"].as_str().expect("a name"), label["count"].as_u64().expect("a number"), texts)
        });
        let expected = [
            ("route", 4, vec!["/pay", "/search?q=a,b", "/cart"]),
            ("service", 1, vec!["shop"]),
            ("bytes", 4, vec!["256B", "512B", "64B"]),
        ];
        assert_eq!(values.collect::<Vec<_>>(), expected);
        let search = &labels["keys"][0]["values"][1];
        assert_eq!(
            (&search["filter"], &search["weight"]),
            (&r"route=^/search\?q=a\x2cb$".into(), &30.into())
        );
    }
}
