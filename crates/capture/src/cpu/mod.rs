//! Where the CPU time of this process goes.
//!
//! ```no_run
//! use flamelet_capture::cpu::{self, Options};
//!
//! let session = cpu::start(&Options::default())?;
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! let profile = session.finish();
//! # Ok::<(), flamelet_capture::Error>(())
//! ```
//!
//! # The walk of a sample
//!
//! ```text
//!  engine (a timer per thread) ──signal──► handler: unwinds into a slot of the pool; no lock, no allocation
//!                                             │
//!                              collector thread: takes the full slots, hands each to every reader
//!                                             ├─► Session   (from start to finish)   ─► Profile
//!                                             └─► Recent    (a ring of windows)      ─► Profile of the last …
//! ```
//!
//! There is one sampler in the process. It runs while it has readers, at the highest frequency that any of them asked
//! for; a reader that asked for less gets its share of the samples. Readers come and go without disturbing each
//! other. The collector also looks for threads that started or ended, and for libraries that were loaded.
//!
//! # Lifecycle
//!
//! The first reader builds the unwind tables, installs the signal handler and starts the collector; the last
//! one to leave ends the timers and the collector. The handler stays installed, because a signal may still
//! be on its way; signals that are not the sampler's go to whatever handler was there before.
//!
//! # Limits
//!
//! * A thread's alternate stack (8 KB from the standard library) has room for one handler. While a sample is taken,
//!   other signals wait. But a handler of the program that asks for the alternate stack (`SA_ONSTACK`) can itself be
//!   interrupted by a sample, on what is left of that stack; where that is less than the kernel's part, the kernel
//!   kills the process. Such handlers should block SIGPROF (in `sa_mask`), or run on larger alternate stacks, or on
//!   the thread's own. The standard library's own handler, which reports a stack overflow, ends the process anyway.
//! * A process that replaces itself (`exec` without `fork`, as for an upgrade in place) should finish its captures
//!   first. With [`Engine::Setitimer`] it must: the kernel keeps that timer and forgets the handler, so SIGPROF kills
//!   the next program. With [`Engine::Perf`], where it may see the kernel's side, a late signal may do the same.
//!   [`Engine::Timer`], the default, is safe: its timers end with the program. Children that are started (`fork` and
//!   `exec`, `std::process::Command`) are safe with every engine.
//! * A library that a running program loads with `dlopen` cannot start a capture ([`ErrorKind::Unsupported`]): its
//!   thread-local memory would be allocated inside the handler. Load it with the program (`LD_PRELOAD`), or link it
//!   into the program.
//!
//! [`ErrorKind::Unsupported`]: crate::ErrorKind::Unsupported

mod aggregate;
mod assemble;
#[cfg(target_os = "linux")]
mod budget;
#[cfg(test)]
mod coverage;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "makes timers and events, by C functions")]
mod engine;
mod facts;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a signal handler")]
mod handler;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
mod kernel_ring;
mod options;
#[cfg(target_os = "linux")]
mod pace;
#[allow(unsafe_code, reason = "hands memory between a signal handler and the collector")]
#[cfg(target_os = "linux")]
mod pool;
#[cfg(all(test, target_os = "linux"))]
mod pool_model;
mod sample_reader;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "has its state anew in the child of a fork")]
mod sampler;
#[cfg(not(target_os = "linux"))]
#[path = "sampler_elsewhere.rs"]
mod sampler;
mod session;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a system call, and the C library's type for sets of signals")]
mod signal_mask;
mod status;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use engine::{pthread_create, resolve_create};
#[cfg(target_os = "linux")]
pub use handler::program_action;
pub use options::{Engine, MAX_FREQUENCY, Options, RecentOptions, Signal};
#[cfg(target_os = "linux")]
pub use sampler::thread_began;
pub use session::{Recent, Session, start, start_recent, status};
pub use status::Status;
