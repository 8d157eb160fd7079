//! Runs a program and writes how much memory it had at most: `peak_memory FILE PROGRAM ARGUMENT…`.
//!
//! A process of its own, because a child's peak begins with what its parent has in memory when it starts it.

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
    // What a signal ended has no status of its own.
    status.code().map_or(ExitCode::from(124), |code| ExitCode::from(code as u8))
}
