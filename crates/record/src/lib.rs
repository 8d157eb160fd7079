//! Samples other processes: where their CPU time goes, where they wait, and which system calls they make.
//!
//! ```no_run
//! use flamelet_record::{RecordOptions, Target, record};
//! use std::sync::atomic::AtomicBool;
//!
//! let mut command = std::process::Command::new("sleep");
//! command.arg("1");
//! let stop = AtomicBool::new(false);
//! let recorded = record(RecordOptions::new(Target::Command(command)), &mut |_| {}, &stop)?;
//! println!("{} samples, {} lost", recorded.summary.samples, recorded.summary.lost);
//! # Ok::<(), flamelet_record::Error>(())
//! ```
//!
//! | to … | use |
//! |---|---|
//! | record a command, processes or everything | [`record`] with [`RecordOptions`] |
//! | record what a command allocates | [`preload::heap::record`] |
//! | know what this machine and user may record | [`doctor::machine`] |
//! | know what a profile of a binary will have | [`doctor::binary`] |
//!
//! # How it works
//!
//! ```text
//! kernel ──► rings, 3 per CPU ──► drain ──► collector ──► Profile
//!            (session)            (batch:   (orders, follows processes,
//!                                 1 thread;  unwinds, counts)
//!                                 eager: 1        │ new addresses
//!                                 a CPU)          ▼
//!                                            names, in the background
//! ```
//!
//! Stacks are unwound as they arrive and only their numbers are kept, so a recording takes megabytes. The draining
//! thread unwinds in the ring itself what it has tables for and never waits. The collector does the rest, so that
//! nothing is lost while a large binary's unwind table is made. If the program has frames larger than any dump, or many
//! stacks turn out to be larger than their dumps, the eager drain takes over; see `drain::eager`. Without tracepoints, system
//! calls are traced by ptrace; see `ptrace`.
//!
//! # What the caller must do
//!
//! Set `stop` when the user presses Ctrl-C ([`record`] installs no signal handler); write the profile; and decide
//! what happens to a command that is still running ([`CommandEnd::Running`]).
#![cfg(target_os = "linux")]

mod access;
mod assemble;
mod checkpoint;
mod collect;
pub mod doctor;
mod drain;
pub mod drive;
mod events;
mod generated;
mod names;
mod options;
pub mod preload;
pub mod processes;
mod ptrace;
mod recording;
mod summary;
mod sweeper;
mod sys;

pub use collect::{Latencies, SyscallStats};
pub use flamelet_profile::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use generated::fuzz_generated;
pub use options::{Checkpoint, Completion, RecordOptions, Save, Target};
pub use processes::signal;
pub use recording::{CommandEnd, Recorded, RunningCommand};
pub use summary::{ArgumentsSummary, Progress, Summary, SyscallSummary};

use std::sync::atomic::AtomicBool;

/// Records until the target ends, the duration is over or `stop` is set. `progress` is called now and then, on this
/// thread.
pub fn record(
    options: RecordOptions,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Recorded> {
    options.check()?;
    match ptrace::way(&options) {
        ptrace::Way::Ptrace(why) => ptrace::record(options, &why, progress, stop),
        ptrace::Way::Events(tried) => recording::record(options, tried, progress, stop),
    }
}
