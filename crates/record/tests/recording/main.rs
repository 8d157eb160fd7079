//! Recordings of real programs with a known answer.
#![allow(unsafe_code, reason = "a test installs a seccomp filter and drops privileges in a child")]

mod completion;
mod cpu;
mod files;
mod generated;
mod helper;
mod off_cpu;
mod options;
mod permissions;
mod processes;
mod programs;
mod saving;
mod seen;
mod strace;
mod syscalls;
mod tracing;
