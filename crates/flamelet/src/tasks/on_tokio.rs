//! tokio's ways to start work, with flamelet's tasks and labels.

use std::panic::Location;

use flamelet_capture::labels::LabelSet;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

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

fn name_of(place: &Location<'_>) -> String {
    format!("{}:{}", place.file(), place.line())
}

/// [`tokio::task::JoinSet`] whose futures are [`task`]s, each named after the line that spawns it.
#[derive(Debug)]
pub struct JoinSet<T> {
    set: tokio::task::JoinSet<T>,
}

impl<T: 'static> JoinSet<T> {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self { set: tokio::task::JoinSet::new() }
    }

    /// Spawns `future` as a task of the set.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.set.spawn(task(name_of(Location::caller()), future))
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

    /// Waits for the next task that ends; `None` when the set is empty.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.set.join_next().await
    }

    /// Returns a task that has ended, if there is one.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.set.try_join_next()
    }

    /// Aborts all tasks and waits for them.
    pub async fn shutdown(&mut self) {
        self.set.shutdown().await;
    }

    /// Aborts all tasks.
    pub fn abort_all(&mut self) {
        self.set.abort_all();
    }

    /// Lets all tasks run on without the set.
    pub fn detach_all(&mut self) {
        self.set.detach_all();
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

impl<T: 'static> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}
