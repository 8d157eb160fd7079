//! Whether intervals cover the truth: simulated captures at several rates, with a kernel that checks timers at its ticks.

use super::aggregate::{Incoming, ThreadKey};
use super::options::Options;
use super::sample_reader::{Marks, SampleReader};
use crate::labels::LabelSet;
use flamelet_profile::observations::{effective_of_share, share_interval};
use flamelet_profile::{Observed, Profile};
use flamelet_test_support::Random;
use flamelet_unwind::Era;

/// The kernel looks for due timers this often.
const TICK_NANOS: u64 = 4_000_000;
const RUNS: u32 = 1000;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
struct Case {
    frequency: u32,
    threads: i32,
    /// How many processes share the machine: a tick lands on this one every so often.
    processes: u32,
    /// The share of the function.
    share: f64,
}

const WANTED: u64 = 1;
const OTHER: u64 = 2;

/// Simulates a capture of threads that use CPU time all the time.
fn capture(case: Case, random: &mut Random) -> Profile {
    let reader = SampleReader::new(&Options::with_frequency(case.frequency), None, "timer", Marks::default());
    let period = 1_000_000_000 / u64::from(case.frequency);
    // As long as it takes for about 300 signals.
    let threads = u64::from(case.threads.unsigned_abs());
    let ticks = 300 * period.div_ceil(TICK_NANOS) * u64::from(case.processes) / threads;
    for tid in 0..case.threads {
        let mut used = (random.fraction() * period as f64) as u64;
        for _ in 0..ticks {
            used += TICK_NANOS / u64::from(case.processes);
            let is_looked_at = random.fraction() * f64::from(case.processes) < 1.0;
            if !is_looked_at || used < period {
                continue;
            }
            let stands_for = used / period * period;
            used -= stands_for;
            let leaf = if random.fraction() < case.share { WANTED } else { OTHER };
            reader.add(&signal(tid, &[leaf]), stands_for);
        }
    }
    reader.profile_of(None)
}

fn signal(tid: i32, frames: &[u64]) -> Incoming<'_> {
    static NO_LABELS: LabelSet = LabelSet::EMPTY;
    let thread = ThreadKey { tid, name: [0; 16] };
    Incoming { thread, time: 0, labels: &NO_LABELS, frames, era: Era::default(), is_rooted: true, count: 0 }
}

/// Returns the 95 % interval of the function's share, from `observed`.
fn interval(profile: &Profile, observed: &[Observed]) -> (f64, f64) {
    let (mut part, mut whole) = ((0.0, 0.0), (0.0, 0.0));
    for (sample, observed) in profile.samples().zip(observed) {
        let value = sample.values[1] as f64;
        whole = (whole.0 + value, whole.1 + observed.squares);
        if profile.location(profile.stack(sample.stack)[0]).address == WANTED {
            part = (part.0 + value, part.1 + observed.squares);
        }
    }
    share_interval(part.0 / whole.0, effective_of_share(part.0, part.1, whole.0, whole.1))
}

/// Returns how often the interval covers the truth, in percent.
fn coverage(case: Case, observed: impl Fn(&Profile) -> Vec<Observed>) -> f64 {
    let mut random = Random::new(u64::from(case.frequency));
    let covered = (0..RUNS).filter(|_| {
        let profile = capture(case, &mut random);
        let (low, high) = interval(&profile, &observed(&profile));
        low <= case.share && case.share <= high
    });
    covered.count() as f64 * 100.0 / f64::from(RUNS)
}

fn cases() -> impl Iterator<Item = Case> {
    [99, 250, 499, 1000].into_iter().flat_map(|frequency| {
        let load = [(1, 1), (8, 1), (1, 3), (8, 3)].into_iter();
        load.map(move |(threads, processes)| Case { frequency, threads, processes, share: 0.2 })
    })
}

#[test]
fn intervals_cover_the_truth_at_every_rate() {
    for case in cases() {
        let covered = coverage(case, |profile| profile.observed(1));
        println!("{case:?}: {covered:.1} %");
        assert!((93.0..=97.0).contains(&covered), "{case:?}: {covered} %");
    }
}

/// Ticks counted as observations, as once: the simulation is sensitive enough.
#[test]
fn ticks_counted_as_observations_cover_too_little() {
    let case = Case { frequency: 1000, threads: 1, processes: 1, share: 0.4 };
    let covered = coverage(case, |profile| {
        let period = 1e6;
        let ticks = |value: f64| Observed { count: value / period, squares: value * period };
        profile.samples().map(|sample| ticks(sample.values[1] as f64)).collect()
    });
    assert!(covered < 80.0, "{covered} %");
}
