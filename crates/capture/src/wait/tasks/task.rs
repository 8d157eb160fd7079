//! The future that is watched.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use flamelet_unwind::{Registers, live};

use super::super::delays::{MAX_FRAMES, StackNumber};
use super::super::locks;
use super::long_polls::Poll as LongPoll;
use super::registry::Place;
use super::state::{AwaitPoint, State, Times};
use super::waker::{Borrowed, Moved, Sampled};
use super::{awaits, long_polls, off_cpu, pace, registry};
use crate::clock;
use crate::labels::LabelSet;

/// A future whose awaits, times and labels are watched, see the [module](super).
#[must_use = "futures do nothing unless polled"]
pub struct Task<F> {
    future: F,
    watched: Watched,
}

/// All of a task but its future: not generic, and never pinned.
struct Watched {
    state: Arc<State>,
    /// Where it is listed, if it is.
    place: Option<Place>,
    /// What wakes the executor of the last poll, if that is not the first poll's.
    moved: Option<Arc<Moved>>,
    /// Tells the wakers of sampled polls apart.
    tag: u8,
    /// The future has ended.
    is_over: bool,
    /// A poll has panicked.
    has_panicked: bool,
}

impl<F> Task<F> {
    /// Watches `future` under this name. While it is polled, samples of its thread carry `labels` and no others.
    pub fn new(name: &str, labels: LabelSet, future: F) -> Self {
        Self::slow_after(u64::MAX, name, labels, future)
    }

    /// Like [`Task::new`]. Awaits that end when the task is older than `nanos` carry the label `slow`, with the value `p99`: choose
    /// the time that 99 % of all tasks like it do not reach.
    pub fn slow_after(nanos: u64, name: &str, labels: LabelSet, future: F) -> Self {
        Self { future, watched: Watched::new(nanos, name, labels) }
    }

    /// Returns how its time was spent until its last poll began or ended.
    pub fn times(&self) -> Times {
        self.watched.state.times()
    }

    /// Returns its number.
    pub fn id(&self) -> u64 {
        self.watched.state.id()
    }

    /// Returns whether a poll has panicked.
    pub fn has_panicked(&self) -> bool {
        self.watched.has_panicked
    }
}

impl Watched {
    #[inline(never)]
    fn new(slow_after: u64, name: &str, labels: LabelSet) -> Self {
        let born = clock::quick_nanos();
        let state = Arc::new(State::new(born, name, labels, stack_here(born)).slow_after(slow_after));
        let place = registry::enter(&state);
        // Whatever happens from here on, it leaves the list when it is dropped.
        let watched = Self { state, place, moved: None, tag: 0, is_over: false, has_panicked: false };
        long_polls::watch();
        watched
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.end();
        }
        if let Some(place) = self.place {
            registry::leave(place, &self.state);
        }
    }
}

/// Returns the stack of whoever makes a task; none where a thread makes very many.
#[inline]
fn stack_here(now: u64) -> StackNumber {
    match pace::sample_birth(now) {
        true => unwound(),
        false => StackNumber::NONE,
    }
}

#[cold]
#[inline(never)]
fn unwound() -> StackNumber {
    const OWN_FRAMES: usize = 2;
    let Some(awaits) = awaits() else { return StackNumber::NONE };
    let mut frames = [0; MAX_FRAMES];
    let depth = live::unwind_here(&mut frames).depth;
    awaits.stack(&frames[OWN_FRAMES.min(depth)..depth])
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[allow(unsafe_code, reason = "pinning a field needs it, short of a macro crate")]
        // SAFETY: `future` is pinned whenever `self` is: it is never moved out of, `Task` has no `Drop`, and is `Unpin`
        // only if `F` is. `watched` is never pinned.
        let (future, watched) = unsafe {
            let task = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut task.future), &mut task.watched)
        };
        watched.poll(future, context)
    }
}

impl Watched {
    #[inline(always)]
    fn poll<F: Future>(&mut self, future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        let start = clock::quick_nanos();
        let weight = pace::sample(start, self.state.is_polled_seldom(start));
        self.state.begin_poll(start);
        let _scope = self.state.labels.lend();
        self.tag = self.tag.wrapping_add(u8::from(weight.is_some()));
        let waker = Borrowed::for_poll(&self.state, &mut self.moved, self.tag, context.waker());
        let mut context = Context::from_waker(&waker);
        let running = long_polls::begin(start);
        let locked = locks::blocked_nanos();
        let baseline = off_cpu::begin(start, weight.is_some());
        let mut sampled = None;
        if weight.is_some() {
            sampled = Some(Sampled::begin(&waker, Registers::here()));
        }
        // Here and nowhere else: the future is most of the code, and its result may be large.
        let panicking = Panicking { state: &self.state, has_panicked: &mut self.has_panicked };
        let outcome = future.poll(&mut context);
        std::mem::forget(panicking);
        let point = weight.zip(sampled).map_or(AwaitPoint::NONE, |(weight, sampled)| sampled.point(weight));
        self.is_over = outcome.is_ready();
        let point = if self.is_over { AwaitPoint::NONE } else { point };
        let (end, locked) = (clock::quick_nanos(), locks::blocked_nanos().wrapping_sub(locked));
        let blocked = baseline.end(start, end, weight.is_some());
        // What sampling takes is not part of the await, which stands for others.
        let end = if weight.is_some() { clock::quick_nanos() } else { end };
        self.state.end_poll(end, blocked.unwrap_or(0).max(locked), point);
        let (name, labels) = (&self.state.name, &self.state.labels);
        running.end(start, end, || LongPoll { name, start, end, blocked, locked, labels });
        outcome
    }
}

/// Ends a poll that panics. It is dropped only if the poll does.
struct Panicking<'a> {
    state: &'a State,
    has_panicked: &'a mut bool,
}

impl Drop for Panicking<'_> {
    #[cold]
    fn drop(&mut self) {
        *self.has_panicked = true;
        self.state.end_poll(clock::quick_nanos(), 0, AwaitPoint::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;
    use std::task::Waker;

    /// As futures do.
    #[inline(never)]
    fn keeps_the_waker(kept: &mut Option<Waker>, context: &mut Context<'_>) -> Poll<()> {
        *kept = Some(context.waker().clone());
        Poll::Pending
    }

    #[test]
    fn a_task_that_is_polled_all_the_time_does_not_hide_others() {
        const OTHERS: usize = 50;
        let mut context = Context::from_waker(Waker::noop());
        let waiting = || {
            let mut kept = None;
            std::future::poll_fn(move |context: &mut Context<'_>| keeps_the_waker(&mut kept, context))
        };
        let mut busy = Box::pin(Task::new("polled all the time", LabelSet::EMPTY, waiting()));
        for _ in 0..200_000 {
            assert!(busy.as_mut().poll(&mut context).is_pending());
        }
        let mut others: Vec<_> =
            (0..OTHERS).map(|_| Box::pin(Task::new("polled once", LabelSet::EMPTY, waiting()))).collect();
        for other in &mut others {
            assert!(other.as_mut().poll(&mut context).is_pending());
        }
        let all = all();
        let seen = all.iter().filter(|task| task.name == "polled once" && !task.stack.is_empty());
        assert_eq!(seen.count(), OTHERS);
    }
}
