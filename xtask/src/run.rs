//! Running other programs: announced, with their output shown as it comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::{Failure, Outcome};

/// Prints a heading, runs `command` with its output untouched, and fails if it fails.
pub(crate) fn step(title: &str, command: &mut Command) -> Outcome {
    heading(title);
    let started = Instant::now();
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    println!("   {title}: {:.0} s", started.elapsed().as_secs_f64());
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

/// Runs `command` and hands each line of both its outputs to `line`, in the order of arrival.
/// Returns whether it succeeded.
pub(crate) fn lines(command: &mut Command, line: &mut (dyn FnMut(&str) + Send)) -> Result<bool, Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(command, &error))?;
    let stdout = child.stdout.take().expect("stdout was asked for as a pipe");
    let stderr = child.stderr.take().expect("stderr was asked for as a pipe");
    let line = Mutex::new(line);
    std::thread::scope(|scope| {
        scope.spawn(|| forward(stderr, &line));
        forward(stdout, &line);
    });
    let status = child.wait().map_err(|error| cannot_start(command, &error))?;
    Ok(status.success())
}

fn forward(pipe: impl Read, line: &Mutex<&mut (dyn FnMut(&str) + Send)>) {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
        let text = String::from_utf8_lossy(&bytes);
        let mut line = line.lock().expect("no reader panics");
        line(text.trim_end_matches(['\n', '\r']));
        drop(line);
        bytes.clear();
    }
}

/// A heading between two suites or steps.
pub(crate) fn heading(title: &str) {
    println!("\n== {title}");
    // A pipe to a log must not show a step's output before its heading.
    let _ = std::io::stdout().flush();
}

/// Where `program` stands in `PATH`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::unusable(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
}
