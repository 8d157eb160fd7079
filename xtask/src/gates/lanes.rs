//! Runs the gates beside the tests: tests mostly wait for other programs, gates mostly compile, so that together they use the
//! cores that either leaves idle.

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{GATES, Gate, Results};
use crate::tally::Watch;
use crate::{Failure, run};

/// Calls `tests`, and runs the gates beside it. They are not started any more if it fails.
pub(crate) fn beside<T>(tests: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Results), Failure> {
    // The last one needs what another has built.
    let (last, others) = GATES.split_last().expect("there are gates");
    let results = Mutex::new(Results::default());
    let add = |gate: &Gate| {
        let outcome = in_own_process(gate);
        results.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
    };
    let tests = two_lanes(tests, others, &AtomicUsize::new(0), &add)?;
    add(last);
    Ok((tests, results.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Calls `first` in one lane and takes gates in the other, from the one at `next` on; when `first` has succeeded, both lanes
/// take gates.
fn two_lanes<G: Sync, T>(
    first: impl FnOnce() -> Result<T, Failure>,
    gates: &[G],
    next: &AtomicUsize,
    take: &(impl Fn(&G) + Sync),
) -> Result<T, Failure> {
    let take_all = || {
        while let Some(gate) = gates.get(next.fetch_add(1, Ordering::Relaxed)) {
            take(gate);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(take_all);
        let value = first();
        if value.is_err() {
            next.store(gates.len(), Ordering::Relaxed);
        }
        take_all();
        value
    })
}

/// Runs `cargo xtask gate NAME`, and prints its output when it has ended.
fn in_own_process(gate: &Gate) -> Results {
    let mut watch = Watch::of(gate.title);
    let mut said = Vec::new();
    let program = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let ended = run::lines(Command::new(program).args(["gate", gate.name]), &mut |line| {
        watch.line(line);
        said.push(line.to_owned());
    });
    let success = match ended {
        Ok(end) => end.success,
        Err(failure) => {
            said.push(failure.message);
            false
        }
    };
    let mut stdout = std::io::stdout().lock();
    let _ = said.iter().try_for_each(|line| writeln!(stdout, "{line}"));
    Results {
        lines: vec![result_line(gate, &said)],
        failed: u64::from(!success),
        tally: watch.finish(success),
    }
}

/// Returns the line with which a gate ends.
fn result_line(gate: &Gate, said: &[String]) -> String {
    let line = said.iter().rev().map(|line| line.trim()).find(|line| line.starts_with(gate.title));
    line.map_or_else(|| format!("{} ended without a result", gate.title), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};

    use super::*;

    #[test]
    fn gates_run_beside_the_tests_and_then_two_at_a_time() {
        let (sender, taken) = mpsc::channel();
        let together = Barrier::new(2);
        let take = |gate: &u32| {
            if *gate > 1 {
                together.wait();
            }
            sender.send(*gate).expect("somebody listens");
        };
        let tests = || Ok(taken.recv().expect("a gate runs before the tests have ended"));
        assert!(two_lanes(tests, &[1, 2, 3], &AtomicUsize::new(0), &take).is_ok_and(|first| first == 1));
    }

    #[test]
    fn nothing_is_started_after_a_failure() {
        let started = Barrier::new(2);
        let (next, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let take = |_: &u32| {
            taken.fetch_add(1, Ordering::Relaxed);
            started.wait();
            while next.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
        };
        let tests = || -> Result<(), Failure> {
            started.wait();
            Err(Failure::failed("it does not compile"))
        };
        assert!(two_lanes(tests, &[1, 2, 3], &next, &take).is_err());
        assert_eq!(taken.load(Ordering::Relaxed), 1);
    }
}
