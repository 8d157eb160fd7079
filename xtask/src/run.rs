//! Runs other programs: announces them, and shows their output as it arrives.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::processes::{self, Cost, Stopwatch};
use crate::{Failure, Outcome};

/// Prints a heading, runs `command` with its output untouched, and fails if it fails.
pub(crate) fn step(title: &str, command: &mut Command) -> Outcome {
    heading(title);
    let stopwatch = Stopwatch::start();
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    println!("   {title}: {}", stopwatch.cost());
    if status.success() { Ok(()) } else { Err(Failure::failed(format!("{title} failed ({status})"))) }
}

/// Runs `command` and returns its standard output, or its last line of standard error.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = errors.trim_end().lines().last().unwrap_or("no message");
    let program = command.get_program().to_string_lossy().into_owned();
    Err(Failure::failed(format!("{program} failed ({}): {last}", output.status)))
}

/// How long to read the output of processes that a command left behind.
const PATIENCE: Duration = Duration::from_secs(30);
/// A command that prints nothing for this long hangs. The longest legitimate silence on a slow machine is a fifth of
/// this.
const LONGEST_SILENCE: Duration = Duration::from_secs(20 * 60);
/// How often to check whether a silent command has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How a command ended.
pub(crate) struct End {
    pub(crate) success: bool,
    /// Of this command only, also if others run at the same time.
    pub(crate) cost: Cost,
}

/// Runs `command` and passes each line of both its outputs to `line`, in the order of arrival.
pub(crate) fn lines(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<End, Failure> {
    lines_within(PATIENCE, LONGEST_SILENCE, command, line)
}

/// The pipes end with the command, unless a process that it left behind holds them open: that one is given
/// `patience`. After too long a `silence`, the command's children are killed and named, so that it is clear what
/// hung, and the rest continues.
fn lines_within(
    patience: Duration,
    silence: Duration,
    command: &mut Command,
    line: &mut dyn FnMut(&str),
) -> Result<End, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    let (sender, arrived) = mpsc::sync_channel(1000);
    forward(child.stdout.take().expect("stdout is a pipe"), sender.clone());
    forward(child.stderr.take().expect("stderr is a pipe"), sender);
    let started = Instant::now();
    let mut cpu_seconds = 0.0;
    let mut ended = None;
    let mut heard = Instant::now();
    loop {
        match arrived.recv_timeout(LOOK) {
            Ok(text) => {
                heard = Instant::now();
                line(&text);
            }
            Err(RecvTimeoutError::Timeout) if ended.is_none() && heard.elapsed() > silence => {
                heard = Instant::now();
                let ended = processes::kill_tree(child.id());
                line(&format!("xtask: no output for {} s; killed as hung: {ended}", silence.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK / 10),
        }
        match ended {
            Some((at, _)) if Instant::elapsed(&at) > patience => break,
            Some(_) => {}
            None => {
                cpu_seconds = processes::cpu_seconds(child.id()).unwrap_or(cpu_seconds);
                let status = child.try_wait().map_err(|error| cannot_start(command, &error))?;
                ended = status.map(|status| (Instant::now(), status.success()));
            }
        }
    }
    let success = ended.is_some_and(|(_, success)| success);
    Ok(End { success, cost: Cost { seconds: started.elapsed().as_secs_f64(), cpu_seconds } })
}

/// Sends the lines of a pipe, from its own thread, until the pipe ends or the receiver is gone.
fn forward(pipe: impl Read + Send + 'static, into: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
            let text = String::from_utf8_lossy(&bytes);
            if into.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

/// Prints a heading between two suites or steps.
pub(crate) fn heading(title: &str) {
    println!("\n== {title}");
    // A log that receives the output through a pipe must not show a step's output before its heading.
    let _ = std::io::stdout().flush();
}

/// Returns the path of `program` in `PATH`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::unusable(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(patience: Duration, script: &str) -> (bool, Vec<String>) {
        let mut heard = Vec::new();
        let mut listen = |line: &str| heard.push(line.to_owned());
        let mut shell = Command::new("sh");
        let success = lines_within(patience, Duration::from_secs(5), shell.args(["-c", script]), &mut listen);
        (success.expect("a shell").success, heard)
    }

    #[test]
    fn all_lines_of_both_outputs_are_read() {
        let (success, mut lines) = heard(PATIENCE, "echo one; echo two >&2; printf three");
        lines.sort();
        assert_eq!((success, lines.join(" ").as_str()), (true, "one three two"));
    }

    #[test]
    fn the_cost_of_a_command_is_its_own() {
        let mut count = Command::new("sh");
        count.args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 0.1"]);
        let before = Stopwatch::start();
        let end = lines(&mut count, &mut |_| {}).expect("a shell");
        assert!(end.cost.cpu_seconds > 0.0 && end.cost.cpu_seconds <= before.cost().cpu_seconds + 0.1);
        assert!(end.cost.seconds > 0.0);
    }

    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for() {
        let (success, lines) = heard(Duration::from_secs(3), "sleep 600 & echo $!; exit 3");
        let [id] = &lines[..] else { panic!("{lines:?}") };
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let _ = Command::new("kill").arg(id).status();
        assert!(state.contains(") S"), "it was waited for: {state}");
        assert!(!success);
    }

    #[test]
    fn what_hangs_is_ended_and_named_and_the_rest_goes_on() {
        let (success, lines) = heard(PATIENCE, "echo one; (sh -c 'sleep 600; :'; :); echo two; exit 3");
        let said = lines.join("\n");
        // In any order: the shell reports the end of its child on the other pipe.
        assert!(["one", "two"].iter().all(|line| lines.contains(&(*line).to_owned())) && !success, "{said}");
        assert!(lines.iter().any(|line| line.contains("as hung") && line.contains("sleep")), "{said}");
    }
}
