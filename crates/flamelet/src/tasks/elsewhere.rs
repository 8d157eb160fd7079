//! Tasks on systems without profiles: futures as they are.

use std::pin::Pin;
use std::task::{Context, Poll};

use flamelet_capture::labels::{LabelFuture, LabelSet, Labeled};

/// A future with labels; its awaits are watched on Linux only.
#[must_use = "futures do nothing unless polled"]
pub struct Task<F> {
    future: Labeled<F>,
}

impl<F: Future> Task<F> {
    /// Returns `future` with these labels.
    pub fn new(_: &str, labels: LabelSet, future: F) -> Self {
        Self { future: future.with_labels(labels) }
    }

    /// The same: no awaits are watched here.
    pub fn slow_after(_: u64, name: &str, labels: LabelSet, future: F) -> Self {
        Self::new(name, labels, future)
    }
}

impl<F> Task<F> {
    /// Returns whether a poll has panicked, which is not watched here.
    pub fn has_panicked(&self) -> bool {
        false
    }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[allow(unsafe_code, reason = "pinning a field needs it, short of a macro crate")]
        // SAFETY: the one field is pinned whenever `self` is, and there is no other way to it.
        unsafe { self.map_unchecked_mut(|task| &mut task.future) }.poll(context)
    }
}
