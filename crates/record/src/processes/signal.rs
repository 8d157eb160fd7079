//! Asks processes to end, without the program `kill`, which small images lack.

use super::descendants;
use crate::sys::process;

/// How to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Like Ctrl-C.
    Interrupt,
    /// Like `kill`.
    Terminate,
    /// Without asking.
    Kill,
}

/// Sends `signal` to the process `pid` alone. Does nothing if it has ended.
pub fn send(pid: u32, signal: Signal) {
    if let Ok(pid @ 2..) = i32::try_from(pid) {
        process::kill(pid, number(signal));
    }
}

/// Sends `signal` to the process `pid` and everything it started: its group if it leads one, else all processes below
/// it. Stopped processes are continued so that they receive it.
pub fn send_to_all(pid: u32, signal: Signal) {
    let Ok(leader @ 2..) = i32::try_from(pid) else { return };
    if process::group_of(leader) == Some(leader) {
        process::kill(-leader, number(signal));
        process::kill(-leader, libc::SIGCONT);
        return;
    }
    let below = descendants(pid);
    for pid in std::iter::once(leader).chain(below.iter().filter_map(|&pid| i32::try_from(pid).ok())) {
        process::kill(pid, number(signal));
        process::kill(pid, libc::SIGCONT);
    }
}

/// Returns whether this process is in the foreground of a terminal. A command that it starts must then stay in its
/// group: a process of another group is stopped when it reads from the terminal.
pub fn is_in_foreground() -> bool {
    process::is_in_foreground()
}

fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    }
}
