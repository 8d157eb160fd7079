//! What a profile of waiting says: who waits for locks and who holds them, what requests await, and what blocks the executor.

use flamelet_profile::{Profile, Sample, StringId};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::about::{Subject, about};
use super::functions::{Functions, functions};
use super::places::{CodePlace, Matches, charged_place};
use crate::by::{add, path_of};
use crate::report::Report;

/// The values of the label `kind` that mean a lock, which one thread holds while others wait.
const LOCKS: [&str; 3] = ["mutex", "rwlock", "once"];

/// Functions that wait for a lock.
const TAKES_LOCK: Functions = functions(
    &[],
    &[
        "::lock_contended",
        "::read_contended",
        "::write_contended",
        "::lock_slow",
        "::lock_shared_slow",
        "::lock_exclusive_slow",
        "(*Mutex).Lock",
        "(*RWMutex).Lock",
        "(*RWMutex).RLock",
    ],
);

/// Functions that wait for anything.
const WAITS: Functions = functions(&[], &["futex_wait", "thread::park", "Parker::park"]);

/// Functions that wait for one of a limited number: a permit, a connection.
const POOLS: Functions = functions(
    &["deadpool", "bb8::", "mobc::", "sqlx_core::pool::", "qp::", "r2d2::"],
    &[
        "tokio::sync::semaphore::",
        "tokio::sync::batch_semaphore::",
        "async_lock::semaphore::",
        "Semaphore::acquire",
    ],
);

/// Callers of semaphores that are no pools: an async mutex is a semaphore with one permit, and a bounded channel one with a
/// permit for each place.
const NO_POOLS: Functions =
    functions(&[], &["tokio::sync::mutex::", "tokio::sync::rwlock::", "tokio::sync::mpsc::"]);

/// What rules about waiting look at.
#[derive(Default)]
pub(super) struct WaitFacts {
    keys: Keys,
    takes_lock: Vec<bool>,
    waits: Vec<bool>,
    pools: Vec<bool>,
    no_pools: Vec<bool>,
    /// Waits for locks, by who waited.
    pub(super) taken: Matches,
    /// Waits for locks, by who held the lock.
    pub(super) held: Matches,
    /// Awaits of requests; of everything, if the profile knows no requests.
    pub(super) awaits: Awaits,
    of_requests: Awaits,
    /// Awaits of requests that were slower than 99 % of those of their route.
    pub(super) of_slow: Awaits,
    /// Long polls by what they were held up by.
    pub(super) causes: FxHashMap<String, i64>,
    pub(super) polls: Matches,
}

/// What tasks await.
#[derive(Clone, Debug, Default)]
pub(super) struct Awaits {
    pub(super) all: Matches,
    /// Of these, those for a permit or a connection.
    pub(super) pools: Matches,
}

/// The strings of the labels that are looked at.
#[derive(Clone, Copy, Default)]
struct Keys {
    kind: Option<StringId>,
    route: Option<StringId>,
    cause: Option<StringId>,
    slow: Option<StringId>,
}

impl WaitFacts {
    /// Goes through the samples of a profile of waiting; others have none of this.
    pub(super) fn of(report: &Report, owners: &Owners) -> Self {
        let (profile, about) = (&report.profile, about(report));
        if !matches!(about, Subject::Locks | Subject::Awaits | Subject::Polls) {
            return Self::default();
        }
        let find = |text: &str| profile.strings().find(text);
        let mut facts = Self {
            keys: Keys { kind: find("kind"), route: find("route"), cause: find("cause"), slow: find("slow") },
            takes_lock: matching(profile, &TAKES_LOCK),
            waits: matching(profile, &WAITS),
            pools: matching(profile, &POOLS),
            no_pools: matching(profile, &NO_POOLS),
            ..Self::default()
        };
        for sample in profile.samples() {
            let place = charged_place(profile, owners, about, &sample);
            facts.add(profile, about, &sample, place, report.value(&sample));
        }
        // Where there are requests, what background tasks await does not matter.
        if facts.of_requests.all.value > 0 {
            facts.awaits = std::mem::take(&mut facts.of_requests);
        }
        facts
    }

    /// Counts a sample whose innermost frame of yours is `place`.
    fn add(
        &mut self,
        profile: &Profile,
        about: Subject,
        sample: &Sample<'_>,
        place: Option<CodePlace>,
        value: i64,
    ) {
        match about {
            Subject::Locks => self.add_lock(profile, sample, place, value),
            Subject::Awaits => self.add_await(profile, sample, place, value),
            Subject::Polls => {
                self.polls.add(place, value);
                let cause = label(profile, sample, self.keys.cause).unwrap_or("unknown");
                add(self.causes.entry(cause.to_owned()).or_default(), value);
            }
            Subject::Time | Subject::Memory | Subject::Any => {}
        }
    }

    fn add_lock(&mut self, profile: &Profile, sample: &Sample<'_>, place: Option<CodePlace>, value: i64) {
        let kind = label(profile, sample, self.keys.kind);
        let takes_lock = has(profile, sample, &self.takes_lock);
        let waits = takes_lock || has(profile, sample, &self.waits);
        match kind.map(|kind| LOCKS.contains(&kind)) {
            // A condition variable, a channel or a join: no thread holds it.
            Some(false) => {}
            Some(true) if waits => self.taken.add(place, value),
            None if takes_lock => self.taken.add(place, value),
            _ if waits => {}
            _ => self.held.add(place, value),
        }
    }

    fn add_await(&mut self, profile: &Profile, sample: &Sample<'_>, place: Option<CodePlace>, value: i64) {
        let is_pool = has(profile, sample, &self.pools) && !has(profile, sample, &self.no_pools);
        let is_request = label(profile, sample, self.keys.route).is_some();
        let is_slow = is_request && label(profile, sample, self.keys.slow).is_some();
        let all = Some(&mut self.awaits);
        let of_requests = is_request.then_some(&mut self.of_requests);
        let of_slow = is_slow.then_some(&mut self.of_slow);
        for awaits in [all, of_requests, of_slow].into_iter().flatten() {
            awaits.all.add(place, value);
            if is_pool {
                awaits.pools.add(place, value);
            }
        }
    }
}

fn label<'p>(profile: &'p Profile, sample: &Sample<'_>, key: Option<StringId>) -> Option<&'p str> {
    let found =
        profile.labels(sample.labels).iter().find(|label| Some(label.key) == key && label.is_text())?;
    Some(profile.string(found.text))
}

/// Returns for each function whether it is one of these.
fn matching(profile: &Profile, wanted: &Functions) -> Vec<bool> {
    let matches = profile.functions().iter().map(|function| {
        let (name, file) = (profile.string(function.name), profile.string(function.filename));
        wanted.has(&path_of(name, file), name)
    });
    matches.collect()
}

/// Returns whether a function of the stack is one of these.
fn has(profile: &Profile, sample: &Sample<'_>, wanted: &[bool]) -> bool {
    let lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
    lines.filter_map(|line| line.function).any(|function| wanted[function.index()])
}
