//! Decides which drain empties the rings: batches, which cost less, or the eager drain, which completes stacks that are
//! larger than their dumps.
//!
//! ```text
//! the program has frames larger than any dump ──► eager, on trial ──► not needed ──► batches
//! otherwise ──► batches ◄───────────────────────────────────────────────────────────────┘
//!                  └── many stacks are cut ──► eager, to the end
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_unwind::perf_event::flag;

use super::{Drain, Recording, WatchTarget};
use crate::collect::Counters;
use crate::drain::batch::BatchDrain;
use crate::drain::eager::EagerDrain;
use crate::drain::{DrainContext, DrainPace, Drained, Outlet};
use crate::events::plan::{EventSource, PlannedEvent};
use crate::events::watch;
use crate::sys::event::Watch;
use crate::{Completion, Error, RecordOptions, Result};

/// From this many stacks on, the share of cut ones is trusted.
const ENOUGH_STACKS: u64 = 25;
/// From this many stacks on that not even the largest dump could hold, more of them are expected: the program has frames
/// that large, and spends time below them. If its unwind table has such a frame, the first one is enough.
const ENOUGH_HOPELESS: u64 = 2;
/// One in this many stacks may be cut before the eager drain takes over.
const TOLERATED_CUTS: u64 = 50;
/// After this many stacks, the eager drain goes if it was not needed: many programs have huge frames that never run.
const TRIAL_STACKS: u64 = 1000;

/// Which drain may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionState {
    /// Batches to the end.
    Settled,
    /// Batches until many stacks are cut.
    Batches,
    /// The eager drain to the end.
    Eager,
    /// The eager drain until it turns out whether it is needed.
    Trial,
}

impl CompletionState {
    /// `has_huge_frames`: the program is known to have a frame that is larger than any dump.
    pub(super) fn new(options: &RecordOptions, has_huge_frames: bool) -> Self {
        match options.completion {
            _ if !options.cpu => Self::Settled,
            Completion::Never => Self::Settled,
            Completion::Eager => Self::Eager,
            Completion::Auto if has_huge_frames => Self::Trial,
            Completion::Auto => Self::Batches,
        }
    }

    /// Returns whether the eager drain ran to the end because it was asked for, or needed.
    pub(super) fn was_needed(self, context: &DrainContext) -> bool {
        match self {
            Self::Settled | Self::Batches => false,
            Self::Eager => true,
            Self::Trial => Cuts::of(&context.counters).call_for_eager(context.modules.has_huge_frames()),
        }
    }
}

/// How many stacks of CPU samples were taken, were larger than their dump, and than any dump.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    stacks: u64,
    cut: u64,
    hopeless: u64,
}

impl Cuts {
    /// Counts stacks that the eager drain completed like those that are cut.
    fn of(counters: &Counters) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cut = count(&counters.cut);
        let hopeless = cut.saturating_sub(count(&counters.cut_nearby));
        Self {
            stacks: count(&counters.stacks),
            cut: cut + count(&counters.completed),
            hopeless: hopeless + count(&counters.completed_far),
        }
    }

    /// Returns whether the eager drain is needed. `has_huge_frames`: the program is known to have a frame that is
    /// larger than any dump.
    fn call_for_eager(self, has_huge_frames: bool) -> bool {
        let Self { stacks, cut, hopeless } = self;
        if has_huge_frames && hopeless > 0 {
            return true;
        }
        let is_certain = stacks >= ENOUGH_STACKS || hopeless >= ENOUGH_HOPELESS;
        is_certain && cut * TOLERATED_CUTS > stacks
    }
}

impl Recording {
    /// Starts the eager drain if the recording begins with it. Returns whether it runs.
    pub(super) fn begin_completion(&mut self) -> bool {
        let begins = matches!(self.completion, CompletionState::Eager | CompletionState::Trial);
        begins && self.start_eager_drain()
    }

    /// Changes the drain if that is due.
    pub(super) fn review_completion(&mut self) -> Result<()> {
        match self.completion {
            CompletionState::Settled | CompletionState::Eager => Ok(()),
            CompletionState::Batches => {
                if Cuts::of(&self.context.counters).call_for_eager(self.awaits_huge_frames()) {
                    self.become_eager();
                }
                Ok(())
            }
            CompletionState::Trial => {
                if self.completion.was_needed(&self.context) {
                    self.completion = CompletionState::Eager;
                } else if Cuts::of(&self.context.counters).stacks >= TRIAL_STACKS {
                    self.return_to_batches()?;
                }
                Ok(())
            }
        }
    }

    /// Returns whether the eager drain is needed as soon as the program runs below a frame that its unwind table knows to
    /// be larger than any dump.
    pub(super) fn awaits_huge_frames(&self) -> bool {
        let is_watched = !matches!(self.watched, WatchTarget::Everything);
        self.completion == CompletionState::Batches && is_watched && self.context.modules.has_huge_frames()
    }

    /// Reopens the CPU events so that each sample wakes a drain, and starts a drain on every CPU.
    fn become_eager(&mut self) {
        self.completion = CompletionState::Eager;
        match self.reopen_cpu_events(true) {
            Ok(()) => drop(self.start_eager_drain()),
            Err(error) => self.give_up_completion(&error),
        }
    }

    fn give_up_completion(&mut self, error: &Error) {
        self.completion = CompletionState::Settled;
        self.notes.push(format!("large stacks are cut off: {error}"));
    }

    /// Ends the eager drain, whose wake-up at each sample was of no use. It may take over again.
    fn return_to_batches(&mut self) -> Result<()> {
        self.completion = CompletionState::Batches;
        let Drain::Eager(eager) = std::mem::replace(&mut self.drain, Drain::None) else { return Ok(()) };
        let Drained { rings, cpu_nanos } = eager.finish()?;
        self.drain_cpu_nanos += cpu_nanos;
        self.drain = Drain::Batch(BatchDrain::start(rings, self.outlet(), &self.context)?);
        // The old events would do as well, but wake the drain too often.
        let _ = self.reopen_cpu_events(false);
        Ok(())
    }

    /// Reopens the CPU events, which then wake a drain at each sample or not.
    fn reopen_cpu_events(&mut self, is_eager: bool) -> Result<()> {
        let Some(planned) = self.plan.event(EventSource::Cpu).copied() else { return Ok(()) };
        let mut attr = planned.attr.without(flag::ENABLE_ON_EXEC);
        if is_eager {
            attr.wakeup = 1;
            // A larger dump, for samples that are drained too late to read the live stack.
            let Counters { cut, cut_nearby, .. } = &*self.context.counters;
            if cut_nearby.load(Ordering::Relaxed) * 2 > cut.load(Ordering::Relaxed) {
                attr.sample_stack_user = attr.sample_stack_user.max(RecordOptions::MAX_DUMP);
            }
        }
        let events = [PlannedEvent { attr, ..planned }];
        let everything = matches!(self.watched, WatchTarget::Everything);
        let pids = self.living();
        self.session.replace(EventSource::Cpu, |session| {
            if everything {
                session.watch(Watch::Everything, &events).map(usize::from)
            } else {
                // Processes forked a moment ago are not in the records read so far.
                watch::watch_families(session, &pids, &events)
            }
        })
    }

    /// Starts a drain on every CPU in place of the one for all. Returns whether they run; if not, that is noted.
    fn start_eager_drain(&mut self) -> bool {
        let result = self.try_start_eager_drain();
        if let Err(error) = &result {
            self.give_up_completion(error);
        }
        result.is_ok()
    }

    fn try_start_eager_drain(&mut self) -> Result<()> {
        let Drain::Batch(batch) = std::mem::replace(&mut self.drain, Drain::None) else { return Ok(()) };
        let Drained { rings, cpu_nanos } = batch.finish()?;
        self.drain_cpu_nanos += cpu_nanos;
        let outlets = rings.iter().map(|_| self.outlet()).collect();
        match EagerDrain::start(rings, outlets, &self.context) {
            Ok(eager) => {
                self.drain = Drain::Eager(eager);
                Ok(())
            }
            Err((error, rings)) => {
                self.drain = Drain::Batch(BatchDrain::start(rings, self.outlet(), &self.context)?);
                Err(error)
            }
        }
    }

    fn outlet(&self) -> Outlet {
        Outlet::new(self.messages.clone(), self.backlog.clone(), DrainPace::new(self.options.off_cpu))
    }

    /// Returns the watched processes that are alive.
    fn living(&self) -> Vec<u32> {
        let mut pids = self.context.modules.pids();
        pids.retain(|&pid| pid != 0);
        match &self.watched {
            WatchTarget::Processes(first) => pids.extend(first),
            WatchTarget::Running(child) => pids.push(child.id()),
            _ => {}
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eager_drain_takes_over_when_stacks_are_cut() {
        let calls = |stacks, cut, hopeless, has_huge| Cuts { stacks, cut, hopeless }.call_for_eager(has_huge);
        assert!(calls(1, 1, 1, true), "the table knows that more will follow");
        assert!(!calls(1, 1, 1, false), "one may be an accident");
        assert!(calls(1000, 1, 1, true) && !calls(1000, 1, 1, false));
        assert!(!calls(1000, 0, 0, true), "a huge frame that never runs costs nothing");
        assert!(calls(2, 2, 2, false));
        assert!(!calls(20, 5, 0, false) && calls(30, 5, 0, false));
    }

    #[test]
    fn completed_stacks_count_as_cut_ones() {
        let counters = Counters::default();
        counters.stacks.store(1000, Ordering::Relaxed);
        counters.completed.store(30, Ordering::Relaxed);
        assert!(Cuts::of(&counters).call_for_eager(false), "without the eager drain they would be cut");
        counters.completed.store(3, Ordering::Relaxed);
        assert!(!Cuts::of(&counters).call_for_eager(true));
        counters.completed_far.store(1, Ordering::Relaxed);
        assert!(Cuts::of(&counters).call_for_eager(true));
    }
}
