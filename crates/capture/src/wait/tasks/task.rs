//! The future that is watched.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use flamelet_unwind::{Registers, live};

use super::super::delays::{MAX_FRAMES, StackNumber};
use super::super::locks;
use super::long_polls::Poll as LongPoll;
use super::state::{AwaitPoint, State, Times};
use super::waker::{Borrowed, Node, Sampled};
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
    /// The node of the last poll, for the next one.
    node: Option<Arc<Node>>,
}

impl<F> Task<F> {
    /// Watches `future` under this name. While it is polled, samples of its thread carry `labels` and no others.
    pub fn new(name: &str, labels: LabelSet, future: F) -> Self {
        Self::made_at(stack_here(), u64::MAX, name, labels, future)
    }

    /// Like [`Task::new`]. Awaits that end when the task is older than `nanos` carry the label `slow`, with the value `p99`: choose
    /// the time that 99 % of all tasks like it do not reach.
    pub fn slow_after(nanos: u64, name: &str, labels: LabelSet, future: F) -> Self {
        Self::made_at(stack_here(), nanos, name, labels, future)
    }

    fn made_at(spawned: StackNumber, slow_after: u64, name: &str, labels: LabelSet, future: F) -> Self {
        let state = State::new(registry::next_id(), name, labels, spawned).slow_after(slow_after);
        let state = Arc::new(state);
        registry::enter(&state);
        long_polls::watch();
        Self { future, watched: Watched { state, node: None } }
    }

    /// Returns how its time was spent until its last poll began or ended.
    pub fn times(&self) -> Times {
        self.watched.state.times()
    }

    /// Returns its number.
    pub fn id(&self) -> u64 {
        self.watched.state.id
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.state.end();
        registry::leave(self.state.id);
    }
}

/// Returns the stack of whoever makes a task; none where a thread makes very many.
#[inline(never)]
fn stack_here() -> StackNumber {
    const OWN_FRAMES: usize = 2;
    let Some(awaits) = awaits().filter(|_| pace::sample_birth(clock::monotonic_nanos())) else {
        return StackNumber::NONE;
    };
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
        let start = clock::monotonic_nanos();
        let weight = pace::sample(start);
        let node = Node::for_poll(self.node.take(), weight.is_some(), context.waker(), &self.state);
        self.state.begin_poll(start);
        let _scope = self.state.labels.lend();
        let waker = Borrowed::new(&node);
        let mut context = Context::from_waker(&waker);
        let running = long_polls::begin(start);
        let locked = locks::blocked_nanos();
        let baseline = off_cpu::begin(start, weight.is_some());
        let (outcome, point) = match weight {
            None => (future.poll(&mut context), AwaitPoint::NONE),
            Some(weight) => {
                let sampled = Sampled::begin(&node, Registers::here());
                let outcome = future.poll(&mut context);
                (outcome, sampled.point(weight))
            }
        };
        let point = if outcome.is_pending() { point } else { AwaitPoint::NONE };
        let (end, locked) = (clock::monotonic_nanos(), locks::blocked_nanos().wrapping_sub(locked));
        let blocked = baseline.end(start, end, weight.is_some());
        self.state.end_poll(end, blocked.unwrap_or(0).max(locked), point);
        let (name, labels) = (&*self.state.name, &self.state.labels);
        running.end(&LongPoll { name, start, end, blocked, locked, labels });
        self.node = Some(node);
        outcome
    }
}
