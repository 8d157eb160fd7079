//! One thread that makes all profiles, one after another.
//!
//! Looking up names and writing pprof files and pictures takes megabytes for a moment. glibc gives every thread its
//! own heap and keeps what was freed there, so sixteen captures that each made their own profile left sixteen such
//! heaps behind. Made on one thread, one after another, they need the memory of one, which is reused.
//!
//! The thread starts with the first job and ends after some time without one.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::work::lock::{ProcessMutex, lock};

/// The thread ends after this much time without work.
const PATIENCE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Where the running thread takes its jobs from. The child of a fork has no such thread, and starts its own.
static JOBS: ProcessMutex<Option<Sender<Job>>> = ProcessMutex::new();

thread_local! {
    static IS_WORKSHOP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` in the workshop while the caller waits, and returns its result. A panic in it continues in the caller.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if IS_WORKSHOP.get() {
        return work();
    }
    let outcome = Arc::new(Mutex::new(None));
    let theirs = outcome.clone();
    wait_for(Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        *lock(&theirs) = Some(result);
    }));
    let result = lock(&outcome).take();
    match result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("a job leaves its outcome, whatever it comes to"),
    }
}

/// Has `work` done, and waits for its end. Not generic: the code of a channel would be there for every type of result.
fn wait_for(work: Job) {
    let (alive, end) = mpsc::channel::<()>();
    let job = Box::new(move || {
        let _alive = alive;
        work();
    });
    if let Some(job) = refused(job) {
        // If no thread can be started, do the work on this one.
        job();
    }
    // The channel of work that has ended is disconnected.
    let _ = flamelet_capture::own_threads::unseen(|| end.recv());
}

/// Hands the job to the workshop; returns it if the workshop's thread cannot be started.
fn refused(job: Job) -> Option<Job> {
    let mut jobs = JOBS.lock(|| None);
    if jobs.is_none() {
        *jobs = open();
    }
    match &*jobs {
        Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
        None => Some(job),
    }
}

fn open() -> Option<Sender<Job>> {
    let (jobs, arriving) = mpsc::channel();
    flamelet_capture::own_threads::spawn("flamelet-make", move || work_off(&arriving)).ok()?;
    Some(jobs)
}

fn work_off(arriving: &Receiver<Job>) {
    IS_WORKSHOP.set(true);
    loop {
        match arriving.recv_timeout(PATIENCE) {
            Ok(job) => job(),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // Jobs are sent under the lock, so none can arrive between this check and the end of the thread.
                let mut jobs = JOBS.lock(|| None);
                match arriving.try_recv() {
                    Ok(job) => {
                        drop(jobs);
                        job();
                    }
                    Err(_) => {
                        *jobs = None;
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_is_done_on_one_thread_and_inside_of_it_at_once() {
        let here = || std::thread::current().id();
        let threads: Vec<_> = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..8).map(|_| scope.spawn(move || run(here))).collect();
            askers.into_iter().map(|cancel| cancel.join().expect("no panic")).collect()
        });
        assert!(threads.iter().all(|thread| *thread == threads[0] && *thread != here()), "{threads:?}");
        assert_eq!(run(move || run(here)), threads[0]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_is_forked_while_the_workshop_is_locked_has_its_own() {
        assert_eq!(run(|| 1), 1);
        let held = JOBS.lock(|| None);
        assert!(flamelet_test_support::holds_in_child(|| run(|| 42) == 42));
        drop(held);
        assert_eq!(run(|| 2), 2);
    }

    #[test]
    fn a_panic_is_the_callers_and_work_goes_on() {
        let panicked = catch_unwind(|| run(|| -> u8 { panic!("as the test wants") }));
        assert!(panicked.is_err());
        assert_eq!(run(|| 42), 42);
    }
}
