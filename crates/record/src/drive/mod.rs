//! Drives other tools: perf, strace, valgrind, heaptrack and bpftrace, each with the options that make its file
//! useful here, and a folder for each run.
//!
//! ```text
//! {folder}/{name}/{time}-{tool}/{raw file}
//! ```

mod ending;
mod memory_map;
mod tool;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::memory_map::MemoryMap;
pub use self::tool::Tool;
use crate::sys::process::find_program;
use crate::{Error, ErrorKind, Result};

/// What a tool is to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command, which the tool starts.
    Command(Vec<OsString>),
    /// A running process, if the tool can attach to it.
    Pid(u32),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The tool.
    pub tool: Tool,
    /// What it watches.
    pub subject: Subject,
    /// Where runs are kept.
    pub folder: PathBuf,
    /// The name of the service; defaults to that of the command.
    pub name: Option<String>,
    /// The time of the run as text, which makes the run's folder unique.
    pub time: String,
    /// End politely after this long, so that the tool writes its file.
    pub duration: Option<Duration>,
    /// The address space limit of the command, in bytes (`ulimit -v`).
    pub memory_limit: Option<u64>,
    /// More options for the tool itself.
    pub options: Vec<String>,
    /// A bpftrace program: a file, or the program's text.
    pub script: Option<String>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Driven {
    /// The folder of the run.
    pub folder: PathBuf,
    /// The file that the tool wrote.
    pub raw: PathBuf,
    /// The tool's exit status; for most tools, that of the command.
    pub status: ExitStatus,
    /// Whether the tool was asked to end, so that the status says nothing about the command.
    pub was_asked: bool,
}

/// Runs a tool until it ends, `duration` is over or `stop` is set; in the latter cases it is asked to end, and waited
/// for.
pub fn drive(drive: &Drive, stop: &AtomicBool) -> Result<Driven> {
    drive.tool.require()?;
    if matches!(drive.subject, Subject::Pid(_)) && !drive.tool.can_attach() {
        return Err(Error::new(
            ErrorKind::InvalidOption,
            format!("{} cannot attach to a running process; give a command after --", drive.tool),
        ));
    }
    drive.check_words()?;
    drive.check_program()?;
    let had_folder = drive.folder.exists();
    let folder = drive.make_run_folder()?;
    let driven = run_in(drive, folder.clone(), stop);
    if driven.is_err() {
        drive.remove_if_empty(&folder, had_folder);
    }
    driven
}

fn run_in(drive: &Drive, folder: PathBuf, stop: &AtomicBool) -> Result<Driven> {
    let mut command = drive.command(&folder);
    command.stdin(Stdio::inherit());
    let child = command
        .spawn()
        .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", drive.tool.program())))?;
    let mut memory_map = MemoryMap::new();
    let (status, was_asked) = wait(child, drive, stop, &mut memory_map)?;
    let raw = drive.tool.raw_file(&folder).ok_or_else(|| {
        let message = format!("{} wrote no file in {} ({status})", drive.tool, folder.display());
        Error::new(ErrorKind::Io, message)
    })?;
    memory_map
        .append_to(&raw)
        .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", raw.display())))?;
    Ok(Driven { folder, raw, status, was_asked })
}

impl Drive {
    /// Checks the words of a bpftrace command: bpftrace takes it as one string and splits it at every space.
    fn check_words(&self) -> Result<()> {
        let Subject::Command(words) = &self.subject else { return Ok(()) };
        let has_space = |word: &OsString| word.to_string_lossy().contains(char::is_whitespace);
        match words.iter().find(|word| has_space(word)) {
            Some(word) if self.tool == Tool::Bpftrace => Err(Error::new(
                ErrorKind::InvalidOption,
                format!(
                    "bpftrace cannot take an argument with a space ({word:?}); put the command into a script, or use -p PID"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the command exists before starting a tool for it.
    fn check_program(&self) -> Result<()> {
        let Subject::Command(words) = &self.subject else { return Ok(()) };
        let Some(program) = words.first() else { return Ok(()) };
        let name = program.to_string_lossy();
        let place = if name.contains('/') { "" } else { " in PATH" };
        let missing = || Error::new(ErrorKind::NotFound, format!("{name}: no such program{place}"));
        find_program(program).map(drop).ok_or_else(missing)
    }

    /// Removes the folders of a run that wrote nothing.
    fn remove_if_empty(&self, run: &Path, had_folder: bool) {
        // Folders that are not empty are not removed, as intended.
        let _ = fs::remove_dir(run);
        let _ = fs::remove_dir(self.service_folder());
        if !had_folder {
            let _ = fs::remove_dir(&self.folder);
        }
    }

    /// Creates a folder for the run; a second run in the same second gets a number.
    fn make_run_folder(&self) -> Result<PathBuf> {
        let of_service = self.service_folder();
        let failed = |folder: &Path, error: io::Error| {
            Error::new(ErrorKind::Io, format!("{}: {error}", folder.display()))
        };
        fs::create_dir_all(&of_service).map_err(|error| failed(&of_service, error))?;
        for number in 1.. {
            let numbered = if number == 1 { String::new() } else { format!("-{number}") };
            let folder = of_service.join(format!("{}{numbered}-{}", self.time, self.tool));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&folder, error)),
            }
        }
        unreachable!("some number is free")
    }

    fn service_folder(&self) -> PathBuf {
        let of_subject = match &self.subject {
            Subject::Command(words) => words.first().map(base_name).unwrap_or_default(),
            Subject::Pid(pid) => fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or_else(|_| format!("pid-{pid}"), |name| name.trim().to_string()),
        };
        let name = self.name.clone().unwrap_or(of_subject);
        // The name is a single path component, whatever the service is called.
        let name: String = name.chars().map(|c| if c == '/' || c == '\0' { '-' } else { c }).collect();
        self.folder.join(name)
    }

    /// When to request the end, if the tool does not end by itself.
    fn duration_from_outside(&self) -> Option<Duration> {
        /// How long bpftrace may take until it watches a process.
        const START: Duration = Duration::from_secs(60);
        let ends_itself = self.tool == Tool::Bpftrace && tool::bpftrace_ends_itself(self);
        self.duration.map(|duration| if ends_itself { duration + START } else { duration })
    }

    fn command(&self, folder: &Path) -> Command {
        let words = self.tool.command_line(self, folder);
        let Some(limit) = self.memory_limit else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            return command;
        };
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh"]);
        command.arg((limit / 1024).to_string()).args(&words);
        command
    }
}

fn base_name(program: &OsString) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// How often to check whether the tool has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a tool to end. Returns its status, and whether it was asked to end.
fn wait(
    mut child: Child,
    drive: &Drive,
    stop: &AtomicBool,
    memory_map: &mut MemoryMap,
) -> Result<(ExitStatus, bool)> {
    let mut started = Some(Instant::now());
    let mut asked: Option<Instant> = None;
    loop {
        let status = child
            .try_wait()
            .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", drive.tool)))?;
        if let Some(status) = status {
            // Something that ends both, such as Ctrl-C, may have reached the tool before it was asked.
            return Ok((status, asked.is_some() || stop.load(Ordering::Relaxed)));
        }
        if drive.tool.leaves_addresses() {
            memory_map.look(child.id(), drive);
            // The tool starts the command once it is ready, which may take seconds.
            started = memory_map.first_seen();
        }
        let is_over =
            started.zip(drive.duration_from_outside()).is_some_and(|(at, most)| at.elapsed() >= most);
        if asked.is_none() && (is_over || stop.load(Ordering::Relaxed)) {
            asked = Some(Instant::now());
            ending::ask_to_end(child.id(), drive);
        }
        if asked.is_some_and(|at| at.elapsed() >= ending::PATIENCE) {
            ending::kill_hung_tool(child.id(), drive);
        }
        std::thread::park_timeout(LOOK);
    }
}
