//! Lock profiles: programs that hold locks for known times, and what the profiles say about it.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "an allocator that counts, system calls, and a fork")]

mod contention;
mod interposing;
mod known_answers;
mod libraries;
mod off_cpu;
mod past;
#[path = "../support/pprof.rs"]
mod pprof;
mod quiet;
mod sides;
mod system_calls;

flamelet::lock_profiling!();

#[global_allocator]
static ALLOCATOR: quiet::Counting = quiet::Counting;
