//! Ends a run politely: the command is asked to end, so that the tool around it writes its file.

use std::fs;
use std::time::Duration;

use super::{Drive, Subject, Tool};
use crate::processes::descendants;
use crate::processes::signal::{Signal, send};

/// Asks a run to end. A tool that started the command ends with it; one that attached to a process is interrupted, as
/// with Ctrl-C, and leaves the process alone.
pub(super) fn ask_to_end(tool: u32, drive: &Drive) {
    if let Subject::Pid(_) = drive.subject {
        return send(tool, Signal::Interrupt);
    }
    // Valgrind is the command itself; for the other tools it is a child.
    let commands = commands_of(tool, drive);
    if commands.is_empty() {
        return send(tool, Signal::Terminate);
    }
    commands.into_iter().for_each(|pid| send(pid, Signal::Terminate));
}

/// How long a tool may take to detach from a process.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Ends an strace that hangs. When strace detaches, it waits until each process has stopped. A process in the middle
/// of a vfork waits for its child, which waits for strace, so that never happens. What it saw is in its file, and
/// both processes go on without it.
pub(super) fn kill_hung_tool(tool: u32, drive: &Drive) {
    if drive.tool == Tool::Strace && matches!(drive.subject, Subject::Pid(_)) {
        send(tool, Signal::Kill);
    }
}

/// Returns the processes that a tool started, except for its own helpers.
pub(super) fn commands_of(tool: u32, drive: &Drive) -> Vec<u32> {
    descendants(tool).into_iter().filter(|&pid| !is_part_of_tool(pid, drive)).collect()
}

/// heaptrack is a script with helpers of its own, which must live until the command has ended.
fn is_part_of_tool(pid: u32, drive: &Drive) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = words.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default().into_owned();
    let name = program.rsplit('/').next().unwrap_or(&program).to_string();
    let is_helper =
        name.starts_with(drive.tool.program()) || matches!(name.as_str(), "gzip" | "zstd" | "cat");
    is_helper
        || (matches!(name.as_str(), "sh" | "bash") && words.any(|word| word.contains(drive.tool.program())))
}
