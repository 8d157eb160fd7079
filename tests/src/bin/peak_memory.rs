//! Runs a program and writes its peak memory: `peak_memory FILE PROGRAM ARGUMENT…`.
//!
//! A separate process, because the peak of a child starts at the memory of the parent that starts it.

use std::process::{Command, ExitCode};

#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("peak_memory FILE PROGRAM ARGUMENT…");
        return ExitCode::from(125);
    };
    let child = Command::new(&program).args(arguments).spawn().expect("the program starts");
    let (status, peak) = flamelet_tests::peak::wait(child.id());
    std::fs::write(file, peak.to_string()).expect("the file can be written");
    // A process that was ended by a signal has no exit status.
    status.code().map_or(ExitCode::from(124), |code| ExitCode::from(code as u8))
}
