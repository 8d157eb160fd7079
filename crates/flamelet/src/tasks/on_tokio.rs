//! tokio's ways to start work, with flamelet's tasks and labels.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::task::{Context, Poll};

use flamelet_capture::labels::LabelSet;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, LocalSet};

use super::task;

/// Like [`tokio::spawn`], as a [`task`] that is named after the line that calls this.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_named(name_of(Location::caller()), future)
}

/// Like [`tokio::spawn`], as a [`task`] called `name`.
#[track_caller]
pub fn spawn_named<F>(name: impl AsRef<str>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(task(name, future))
}

/// Like [`tokio::task::spawn_blocking`], with the labels of the thread that calls this: what a request does on tokio's pool
/// for blocking work is the request's.
#[track_caller]
pub fn spawn_blocking<T, W>(work: W) -> JoinHandle<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    tokio::task::spawn_blocking(LabelSet::current().carried_by(work))
}

/// Like [`tokio::task::spawn_local`], as a [`task`] that is named after the line that calls this.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(task(name_of(Location::caller()), future))
}

/// How many places a thread remembers the names of.
const REMEMBERED: usize = 16;

thread_local! {
    static NAMES: RefCell<Vec<(&'static Location<'static>, Rc<str>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the name of tasks that are spawned at this place.
fn name_of(place: &'static Location<'static>) -> Rc<str> {
    let make = || Rc::from(format!("{}:{}", place.file(), place.line()));
    let remembered = NAMES.try_with(|names| {
        let mut names = names.borrow_mut();
        if let Some((_, name)) = names.iter().find(|(known, _)| std::ptr::eq(*known, place)) {
            return name.clone();
        }
        let name: Rc<str> = make();
        names.truncate(REMEMBERED - 1);
        names.insert(0, (place, name.clone()));
        name
    });
    // A thread that is ending remembers nothing.
    remembered.unwrap_or_else(|_| make())
}

/// [`tokio::task::JoinSet`] whose futures are [`task`]s, each named after the line that spawns it.
pub struct JoinSet<T> {
    set: tokio::task::JoinSet<T>,
}

impl<T> JoinSet<T> {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self { set: tokio::task::JoinSet::new() }
    }

    /// Returns how many tasks are in the set.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns `future` as a task of the set.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.set.spawn(task(name_of(Location::caller()), future))
    }

    /// Spawns `future` on the runtime of `handle` as a task of the set.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, future: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.set.spawn_on(task(name_of(Location::caller()), future), handle)
    }

    /// Spawns `future` on the current `LocalSet` as a task of the set.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.set.spawn_local(task(name_of(Location::caller()), future))
    }

    /// Spawns `future` on `local` as a task of the set.
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, future: F, local: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.set.spawn_local_on(task(name_of(Location::caller()), future), local)
    }

    /// Runs `work` on tokio's pool for blocking work, with the labels of this thread.
    #[track_caller]
    pub fn spawn_blocking<W>(&mut self, work: W) -> AbortHandle
    where
        W: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.set.spawn_blocking(LabelSet::current().carried_by(work))
    }

    /// Runs `work` on the pool for blocking work of `handle`'s runtime, with the labels of this thread.
    #[track_caller]
    pub fn spawn_blocking_on<W>(&mut self, work: W, handle: &Handle) -> AbortHandle
    where
        W: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.set.spawn_blocking_on(LabelSet::current().carried_by(work), handle)
    }

    /// Waits for the next task that ends; `None` when the set is empty.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.set.join_next().await
    }

    /// Returns a task that has ended, if there is one.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.set.try_join_next()
    }

    /// Like [`Self::join_next`], with the number of the task.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.set.join_next_with_id().await
    }

    /// Like [`Self::try_join_next`], with the number of the task.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        self.set.try_join_next_with_id()
    }

    /// Polls for the next task that ends; see [`tokio::task::JoinSet::poll_join_next`].
    pub fn poll_join_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.set.poll_join_next(context)
    }

    /// Like [`Self::poll_join_next`], with the number of the task.
    pub fn poll_join_next_with_id(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        self.set.poll_join_next_with_id(context)
    }

    /// Waits for all tasks and returns what they return, in the order in which they end.
    ///
    /// # Panics
    /// If a task panics or is aborted, as in [`tokio::task::JoinSet::join_all`].
    pub async fn join_all(self) -> Vec<T> {
        self.set.join_all().await
    }

    /// Aborts all tasks and waits for them.
    pub async fn shutdown(&mut self) {
        self.set.shutdown().await;
    }

    /// Aborts all tasks.
    pub fn abort_all(&mut self) {
        self.set.abort_all();
    }

    /// Removes all tasks from the set; they keep running.
    pub fn detach_all(&mut self) {
        self.set.detach_all();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.set, f)
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = Self::new();
        set.extend(futures);
        set
    }
}

impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    #[track_caller]
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        // Not by `for_each`, whose closure would be the caller.
        for future in futures {
            self.spawn(future);
        }
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}
