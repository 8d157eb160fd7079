//! The collector's thread: takes in records, requests names, and saves checkpoints.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;
use crate::assemble::{self, Columns};
use crate::checkpoint::Saver;
use crate::collect::{Collector, Findings};
use crate::drain::Message;
use crate::names::{FoundNames, Questions};
use crate::sys::machine;
use crate::sys::spare::SpareTime;

/// When names are first requested. The interval then doubles each time, because a module that is requested again has
/// to be searched again.
const FIRST_ASK: Duration = Duration::from_millis(250);
/// On a busy machine, finding names would take time from what is measured. In a recording this long that does not
/// matter, and finding them now shortens the wait at the end.
const LONG: Duration = Duration::from_secs(30);

/// What the thread works with.
pub(super) struct Worker {
    pub(super) collector: Collector,
    pub(super) questions: Questions,
    pub(super) saver: Option<Saver>,
    pub(super) columns: Columns,
    pub(super) start_nanos: i64,
}

/// What it returns.
pub(super) struct WorkerOutput {
    pub(super) findings: Findings,
    pub(super) cpu_nanos: u64,
    pub(super) save_failure: Option<std::io::Error>,
}

impl Worker {
    pub(super) fn start(self, inbox: mpsc::Receiver<Message>) -> Result<JoinHandle<WorkerOutput>> {
        let thread = std::thread::Builder::new().name("flamelet-collect".to_owned());
        Ok(thread.spawn(move || self.run(&inbox))?)
    }

    /// Runs until all senders are gone.
    fn run(mut self, inbox: &mpsc::Receiver<Message>) -> WorkerOutput {
        let mut schedule = AskSchedule::new();
        let mut stopped = None;
        while let Ok(message) = inbox.recv() {
            match message {
                Message::Chunks(chunks) => self.collector.add(chunks),
                Message::Stopped(at) => stopped = Some(at),
                Message::Introduce { pid, with_waits } => self.collector.introduce(pid, with_waits),
            }
            let so_far = self.collector.so_far();
            if schedule.is_due(so_far) {
                schedule.locations = self.questions.ask(&so_far.stacks, schedule.locations);
            }
            if let Some(saver) = &mut self.saver {
                let (columns, start_nanos) = (&self.columns, self.start_nanos);
                saver.save_if_due(|| {
                    assemble::profile(so_far, columns, &mut FoundNames::default(), start_nanos)
                });
            }
        }
        let findings = self.collector.finish(stopped.unwrap_or_else(machine::monotonic_nanos));
        self.questions.ask(&findings.stacks, schedule.locations);
        let save_failure = self.saver.and_then(|saver| saver.failure);
        WorkerOutput { findings, cpu_nanos: machine::thread_cpu_nanos(), save_failure }
    }
}

/// When to request names, and how many locations have been requested.
struct AskSchedule {
    started: Instant,
    next: Duration,
    spare: SpareTime,
    locations: usize,
}

impl AskSchedule {
    fn new() -> Self {
        Self { started: Instant::now(), next: FIRST_ASK, spare: SpareTime::new(), locations: 0 }
    }

    fn is_due(&mut self, so_far: &Findings) -> bool {
        let elapsed = self.started.elapsed();
        if elapsed < self.next || so_far.stacks.table.locations.len() == self.locations {
            return false;
        }
        let is_due = self.spare.is_there() || elapsed >= LONG;
        self.next = if is_due { elapsed * 2 } else { elapsed + FIRST_ASK };
        is_due
    }
}
