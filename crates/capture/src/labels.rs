//! What a thread or a future is working on: names and values that samples carry.
//!
//! ```
//! use flamelet_capture::labels::{self, LabelFuture, LabelSet};
//!
//! {
//!     let _scope = labels::scope([("route", "/checkout"), ("tenant", "acme")]);
//!     // Every sample of this thread carries both labels until the scope ends.
//! }
//!
//! // A future carries its labels to whichever thread polls it.
//! let work = async { 6 * 7 }.with_labels(LabelSet::new([("job", "nightly")]));
//! # drop(work);
//! ```
//!
//! Internally, equal sets are stored once and have a number; the number of the current set is in a thread-local slot
//! that a signal handler reads. A set whose last holder is gone is forgotten after the samples that name it were
//! collected, or, while nothing samples, when there are many of them; so labels such as a request id do not pile up.

#[cfg(target_os = "linux")]
mod fork;
#[cfg(all(
    feature = "otel-context",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod thread_context;
#[cfg(not(all(
    feature = "otel-context",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "labels/no_thread_context.rs"]
mod thread_context;

use crate::own_threads::unseen;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::pin::Pin;
#[cfg(not(target_os = "linux"))]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use thread_context::Attached;

thread_local! {
    /// The number of this thread's current set; 0 for none. No destructor, so that it can be read at any
    /// moment of a thread's life.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

type Pairs = Box<[(Box<str>, Box<str>)]>;

/// A set of labels: text values by name. Cheap to clone.
#[derive(Clone)]
pub struct LabelSet {
    entry: Option<Arc<SetEntry>>,
}

struct SetEntry {
    id: u32,
    pairs: Pairs,
    /// Whether it was used since it was found to be idle: then there may be a record that names it.
    is_asked_for: AtomicBool,
    /// What readers outside the process see of it.
    record: thread_context::LabelRecord,
    /// The entry of the table, if this one is a copy with a count of its own: as long as it is held, so is that one.
    _of: Option<Arc<SetEntry>>,
}

impl SetEntry {
    /// Hands it to a caller. Call with the table locked.
    fn ask(self: &Arc<Self>) -> Arc<Self> {
        self.is_asked_for.store(true, Ordering::Relaxed);
        self.clone()
    }
}

impl LabelSet {
    /// No labels.
    pub const EMPTY: Self = Self { entry: None };

    /// Makes a set of these labels and no others. Of several values for a name the last one counts.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::EMPTY.with(labels)
    }

    /// Returns the labels that this thread has now.
    pub fn current() -> Self {
        resolve(current_id())
    }

    /// Adds these labels to the ones of this set; a name that is already there gets the new value.
    #[must_use]
    pub fn with<K: AsRef<str>, V: AsRef<str>>(&self, labels: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> =
            self.iter().map(|(name, value)| (name.into(), value.into())).collect();
        for (name, value) in labels {
            let (name, value) = (name.as_ref(), value.as_ref());
            match pairs.iter_mut().find(|(known, _)| **known == *name) {
                Some(pair) => pair.1 = value.into(),
                None => pairs.push((name.into(), value.into())),
            }
        }
        pairs.sort_unstable();
        Self { entry: (!pairs.is_empty()).then(|| table().intern(pairs.into())) }
    }

    /// Returns the same set with a reference count of its own. Threads that clone a set all the time should each have one: they
    /// would pass the memory of the count to each other.
    #[must_use]
    pub fn counted_apart(&self) -> Self {
        let copy = |entry: &Arc<SetEntry>| SetEntry {
            id: entry.id,
            pairs: entry.pairs.clone(),
            is_asked_for: AtomicBool::new(false),
            record: thread_context::LabelRecord::default(),
            _of: Some(entry.clone()),
        };
        Self { entry: self.entry.as_ref().map(|entry| Arc::new(copy(entry))) }
    }

    /// Returns the labels, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.entry.as_deref().map_or(&[][..], |entry| &entry.pairs);
        pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.entry.is_none()
    }

    /// Returns whether the running thread has exactly these labels. Takes no lock.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.id() == current_id()
    }

    /// Makes this the set of the running thread until the scope is dropped.
    pub fn enter(&self) -> Scope {
        let before = CURRENT.replace(self.id());
        Scope { before, _attached: self.attach(), _entered: self.clone(), not_send: PhantomData }
    }

    /// Runs `work` with these labels and no others.
    #[inline]
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _lent = self.lend();
        work()
    }

    /// Makes this the set of the running thread for as long as it is borrowed.
    #[inline]
    pub fn lend(&self) -> Lent<'_> {
        let before = CURRENT.replace(self.id());
        Lent { before, _attached: self.attach(), _set: PhantomData, not_send: PhantomData }
    }

    /// Lets readers outside the process see it as the set of the running thread.
    #[inline]
    fn attach(&self) -> Attached {
        Attached::new(self.entry.as_ref().map(|entry| (&entry.record, &entry.pairs)))
    }

    /// Returns the labels of the running thread and this one. The last sets that a thread got in this way are
    /// remembered: a service gives the same name to many tasks.
    pub fn current_with(name: &'static str, value: &str) -> Self {
        let known =
            RECENT.try_with(|recent| recent.borrow().iter().flatten().find_map(|made| made.get(name, value)));
        known.ok().flatten().unwrap_or_else(|| {
            let before = Self::current();
            let set = before.with([(name, value)]).counted_apart();
            let made = DerivedSet { before, name, value: value.into(), set: set.clone() };
            // A thread that is ending remembers nothing.
            let _ = RECENT.try_with(|recent| {
                let mut recent = recent.borrow_mut();
                recent.rotate_right(1);
                recent[0] = Some(made);
            });
            set
        })
    }

    /// Returns `work` with these labels, on whichever thread it runs: for pools, rayon, and threads of your own.
    ///
    /// ```
    /// # use flamelet_capture::labels::LabelSet;
    /// let work = LabelSet::current().carried_by(|| 6 * 7);
    /// assert_eq!(std::thread::spawn(work).join().unwrap(), 42);
    /// ```
    pub fn carried_by<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        move || self.during(work)
    }

    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.entry.as_ref().map_or(0, |entry| entry.id)
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for LabelSet {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for LabelSet {}

impl Hash for LabelSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// Adds labels to those of the running thread until the scope is dropped.
pub fn scope<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Scope {
    LabelSet::current().with(labels).enter()
}

/// The time during which a thread has a set of labels. Drop scopes in the reverse order of their creation.
#[must_use = "labels hold until the scope is dropped"]
#[derive(Debug)]
pub struct Scope {
    before: u32,
    /// Before the set, which it names.
    _attached: Attached,
    _entered: LabelSet,
    /// The slot belongs to the thread, so the scope stays on it.
    not_send: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// The time during which a thread has a set of labels that others own, see [`LabelSet::lend`]. Drop them in the reverse order of
/// their creation.
#[must_use = "labels hold until this is dropped"]
#[derive(Debug)]
pub struct Lent<'a> {
    before: u32,
    _attached: Attached,
    _set: PhantomData<&'a LabelSet>,
    /// As for a [`Scope`].
    not_send: PhantomData<*const ()>,
}

impl Drop for Lent<'_> {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// A set that was made of another one and a label. It holds the other one, whose number is its own as long.
struct DerivedSet {
    before: LabelSet,
    name: &'static str,
    value: Box<str>,
    set: LabelSet,
}

impl DerivedSet {
    /// Returns the set if it is the running thread's with this label.
    fn get(&self, name: &str, value: &str) -> Option<LabelSet> {
        let is_it = self.before.id() == current_id() && self.name == name && *self.value == *value;
        is_it.then(|| self.set.clone())
    }
}

/// How many sets a thread remembers.
const REMEMBERED: usize = 8;

thread_local! {
    static RECENT: RefCell<[Option<DerivedSet>; REMEMBERED]> = const { RefCell::new([const { None }; REMEMBERED]) };
}

/// Gives futures labels.
pub trait LabelFuture: Future + Sized {
    /// While it is polled, on whichever thread, the future has these labels and no others.
    fn with_labels(self, labels: LabelSet) -> Labeled<Self> {
        Labeled { labels, future: self }
    }

    /// Like [`LabelFuture::with_labels`], with the labels of the running thread plus these.
    fn in_scope<K: AsRef<str>, V: AsRef<str>>(
        self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Labeled<Self> {
        self.with_labels(LabelSet::current().with(labels))
    }
}

impl<F: Future> LabelFuture for F {}

/// A future with labels, see [`LabelFuture`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Labeled<F> {
    labels: LabelSet,
    future: F,
}

impl<F: Future> Future for Labeled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[allow(unsafe_code, reason = "pinning a field needs it, short of a macro crate")]
        // SAFETY: `future` is pinned whenever `self` is: it is never moved out of, `Labeled` has no `Drop`
        // and no other way to a `&mut` of the field, and is `Unpin` only if `F` is. `labels` is never pinned.
        let (future, labels) = unsafe {
            let labeled = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut labeled.future), &labeled.labels)
        };
        labels.during(|| future.poll(context))
    }
}

/// Returns the number of the running thread's set, for a raw record. Async-signal-safe.
#[inline]
pub(crate) fn current_id() -> u32 {
    CURRENT.get()
}

/// Returns the set with this number. Valid from [`current_id`] until the second [`collect_garbage`] after it.
pub(crate) fn resolve(id: u32) -> LabelSet {
    LabelSet { entry: if id == 0 { None } else { table().get(id) } }
}

/// A moment before the number of a set is read on another thread, which may give up the set at once.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    collections: u64,
}

#[cfg(target_os = "linux")]
impl Moment {
    /// Returns this moment.
    pub(crate) fn now() -> Self {
        Self { collections: table().0.collections }
    }

    /// Returns the set whose number was read since; an empty one if it may be another one's number by now.
    pub(crate) fn resolve(self, id: u32) -> LabelSet {
        let mut table = table();
        let is_valid = id != 0 && table.0.collections.wrapping_sub(self.collections) < 2;
        LabelSet { entry: if is_valid { table.get(id) } else { None } }
    }
}

/// Like [`resolve`], for an allocator: gives up while the table is being changed, perhaps by this very thread.
pub(crate) fn try_resolve(id: u32) -> Option<LabelSet> {
    let table = known_table()?.try_lock().ok()?;
    let entry = table.entries.get(id.checked_sub(1)? as usize)?;
    Some(LabelSet { entry: entry.as_ref().map(SetEntry::ask) })
}

/// Forgets sets that have no holder and had none at the last call either. The collector of raw records calls it each
/// time after it resolved all of them.
pub(crate) fn collect_garbage() {
    table().collect_garbage();
}

/// From now on there may be raw records that name sets without a holder, until [`no_records`].
pub(crate) fn expect_records() {
    table().0.recorded_by = Some(std::process::id());
}

/// All raw records were resolved, and there will be no more.
pub(crate) fn no_records() {
    table().0.recorded_by = None;
}

/// At least this many sets are kept before any is forgotten unasked.
const FEW: usize = 1024;

#[derive(Default)]
struct SetTable {
    by_pairs: FxHashMap<Pairs, u32>,
    /// Indexed by number − 1.
    entries: Vec<Option<Arc<SetEntry>>>,
    free: Vec<u32>,
    /// Sets that had no holder at the last collection.
    idle: Vec<u32>,
    /// The process whose sampler collects; a child inherits the table, but no sampler.
    recorded_by: Option<u32>,
    /// How many sets there were when it was last checked whether they are still held.
    looked_at: usize,
    /// How often sets without a holder were forgotten.
    collections: u64,
}

#[cfg(target_os = "linux")]
use fork::{known_table, shared_table};

#[cfg(not(target_os = "linux"))]
static TABLE: std::sync::OnceLock<Mutex<SetTable>> = std::sync::OnceLock::new();

#[cfg(not(target_os = "linux"))]
fn shared_table() -> &'static Mutex<SetTable> {
    TABLE.get_or_init(Mutex::default)
}

#[cfg(not(target_os = "linux"))]
fn known_table() -> Option<&'static Mutex<SetTable>> {
    TABLE.get()
}

struct TableGuard(MutexGuard<'static, SetTable>);

fn table() -> TableGuard {
    TableGuard(unseen(|| shared_table().lock()).unwrap_or_else(PoisonError::into_inner))
}

impl TableGuard {
    fn intern(&mut self, pairs: Pairs) -> Arc<SetEntry> {
        let table = &mut *self.0;
        if let Some(&id) = table.by_pairs.get(&pairs)
            && let Some(entry) = &table.entries[id as usize - 1]
        {
            return entry.ask();
        }
        self.stay_small();
        let table = &mut *self.0;
        let id = table.free.pop().unwrap_or_else(|| {
            table.entries.push(None);
            table.entries.len() as u32
        });
        let entry = Arc::new(SetEntry {
            id,
            pairs: pairs.clone(),
            is_asked_for: AtomicBool::new(false),
            record: thread_context::LabelRecord::default(),
            _of: None,
        });
        table.by_pairs.insert(pairs, id);
        table.entries[id as usize - 1] = Some(entry.clone());
        entry
    }

    fn get(&mut self, id: u32) -> Option<Arc<SetEntry>> {
        let index = id.checked_sub(1)?;
        self.0.entries.get(index as usize)?.as_ref().map(SetEntry::ask)
    }

    /// Checks again whenever there are twice as many sets as last time, so that each set pays for one check.
    fn stay_small(&mut self) {
        let known = self.0.entries.len() - self.0.free.len();
        if known < FEW.max(2 * self.0.looked_at) {
            return;
        }
        // A sampler does this itself, once no record names a set any more.
        if self.0.recorded_by != Some(std::process::id()) {
            self.collect_garbage();
            self.collect_garbage();
        }
        self.0.looked_at = self.0.entries.len() - self.0.free.len();
    }

    fn collect_garbage(&mut self) {
        let table = &mut *self.0;
        table.collections = table.collections.wrapping_add(1);
        let is_held = |entry: &Arc<SetEntry>| Arc::strong_count(entry) > 1;
        let is_asked_for = |entry: &Arc<SetEntry>| entry.is_asked_for.load(Ordering::Relaxed);
        for id in std::mem::take(&mut table.idle) {
            let slot = &mut table.entries[id as usize - 1];
            if slot.as_ref().is_some_and(|entry| !is_held(entry) && !is_asked_for(entry))
                && let Some(entry) = slot.take()
            {
                table.by_pairs.remove(&entry.pairs);
                table.free.push(id);
            }
        }
        for entry in table.entries.iter().flatten().filter(|entry| !is_held(entry)) {
            entry.is_asked_for.store(false, Ordering::Relaxed);
            table.idle.push(entry.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn pairs(set: &LabelSet) -> Vec<(String, String)> {
        set.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn owned(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn scopes_nest_and_end() {
        assert!(LabelSet::current().is_empty());
        let outer = scope([("a", "1")]);
        {
            let _inner = scope([("b", "2"), ("a", "3")]);
            assert_eq!(pairs(&LabelSet::current()), owned(&[("a", "3"), ("b", "2")]));
        }
        assert_eq!(pairs(&LabelSet::current()), owned(&[("a", "1")]));
        drop(outer);
        assert_eq!(current_id(), 0);
    }

    #[test]
    fn a_set_that_is_asked_for_again_is_the_same_and_follows_the_thread() {
        let plain = LabelSet::current_with("task", "a");
        assert_eq!(pairs(&plain), owned(&[("task", "a")]));
        assert_eq!(LabelSet::current_with("task", "a"), plain);
        let _scope = scope([("route", "/b")]);
        assert_eq!(pairs(&LabelSet::current_with("task", "a")), owned(&[("route", "/b"), ("task", "a")]));
        for task in 0..3 * REMEMBERED {
            let (name, set) = (task.to_string(), LabelSet::current_with("task", &task.to_string()));
            assert_eq!(pairs(&set), owned(&[("route", "/b"), ("task", &name)]));
        }
        assert_eq!(pairs(&LabelSet::current_with("other", "a")), owned(&[("other", "a"), ("route", "/b")]));
    }

    #[test]
    fn a_copy_with_its_own_count_is_the_same_set_and_holds_it() {
        let set = LabelSet::new([("counted", "apart")]);
        let copy = set.counted_apart();
        assert_eq!((&copy, pairs(&copy)), (&set, pairs(&set)));
        assert_eq!(copy.during(current_id), set.id());
        assert!(LabelSet::EMPTY.counted_apart().is_empty());
        drop(set);
        (0..3).for_each(|_| collect_garbage());
        assert_eq!(LabelSet::new([("counted", "apart")]), copy, "its number was not given away");
    }

    #[test]
    fn equal_sets_are_one_and_unused_ones_are_forgotten() {
        let first = LabelSet::new([("forgotten", "x"), ("y", "z")]);
        assert_eq!(first, LabelSet::new([("y", "z"), ("forgotten", "x")]));
        let id = first.id();
        drop(first);
        // Another test may collect in between, so only what must hold after two collections is checked.
        collect_garbage();
        collect_garbage();
        assert!(resolve(id).iter().all(|(name, _)| name != "forgotten"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_is_resolved_until_another_set_may_have_it() {
        let moment = Moment::now();
        let set = LabelSet::new([("seen", "by another thread")]);
        let found = moment.resolve(set.id());
        // Another test may collect in between.
        assert!(found == set || found.is_empty());
        collect_garbage();
        collect_garbage();
        assert!(moment.resolve(set.id()).is_empty());
        assert!((0..100).any(|_| Moment::now().resolve(set.id()) == set));
        assert!(Moment::now().resolve(0).is_empty());
    }

    #[test]
    fn sets_do_not_pile_up_while_nobody_samples() {
        const SETS: usize = 100_000;
        let table: &'static std::sync::Mutex<SetTable> = Box::leak(Box::default());
        let mut guard = TableGuard(table.lock().expect("no one else has it"));
        let intern = |guard: &mut TableGuard, number: usize| {
            guard.intern([("request".into(), number.to_string().into())].into())
        };
        let held = intern(&mut guard, SETS);
        (0..SETS).for_each(|number| drop(intern(&mut guard, number)));
        assert!(guard.0.entries.len() <= 2 * FEW, "{} sets", guard.0.entries.len());
        assert!(Arc::ptr_eq(&held, &intern(&mut guard, SETS)), "what is held stays");
        // Records may name them while a sampler runs.
        guard.0.recorded_by = Some(std::process::id());
        let first = intern(&mut guard, SETS + 1).id;
        (0..SETS).for_each(|number| drop(intern(&mut guard, number)));
        assert_eq!(guard.get(first).expect("kept").pairs[0].1, (SETS + 1).to_string().into());
    }

    #[test]
    fn a_set_that_is_used_again_while_idle_outlives_the_next_collection() {
        let table: &'static std::sync::Mutex<SetTable> = Box::leak(Box::default());
        let mut guard = TableGuard(table.lock().expect("no one else has it"));
        let intern = |guard: &mut TableGuard| guard.intern([("request".into(), "7".into())].into()).id;
        let id = intern(&mut guard);
        guard.collect_garbage();
        // Entered, sampled and left: there is a record now that only the next round resolves.
        assert_eq!(intern(&mut guard), id);
        guard.collect_garbage();
        assert_eq!(guard.0.entries.iter().flatten().count(), 1, "the record names it");
        guard.collect_garbage();
        assert!(guard.get(id).is_none(), "and now nothing does");
    }

    #[test]
    fn a_future_has_its_labels_on_whichever_thread_polls_it() {
        let future = async { pairs(&LabelSet::current()) }.with_labels(LabelSet::new([("job", "n")]));
        let mut future = Box::pin(future);
        let thread = std::thread::spawn(move || {
            let mut context = Context::from_waker(Waker::noop());
            let polled = future.as_mut().poll(&mut context);
            (polled, current_id())
        });
        let (polled, after) = thread.join().expect("no panic");
        assert_eq!(polled, Poll::Ready(owned(&[("job", "n")])));
        assert_eq!(after, 0);
    }
}
