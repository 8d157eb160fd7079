//! `flamelet record`: sample a command or processes.

mod arguments;
mod end;
mod heap;
mod live_line;
mod load;
mod syscalls;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use flamelet_formats::Format;
use flamelet_profile::{Profile, merge};
use flamelet_record::preload::{Library, cpu};
use flamelet_record::processes::named;
use flamelet_record::{Checkpoint, CommandEnd, Progress, RecordOptions, Recorded, Summary, Target, record};
use flamelet_report::diff::WORK_COMMENT;
use flamelet_report::flame::FlameOptions;
use flamelet_report::info::{self, Verdict};
use flamelet_view::ServeOptions;

use super::convert::Made;
use crate::arguments::guide::Guide;
use crate::error::{Failure, Result};
use crate::job::{Ask, Picture, Question, answer_to};
use crate::output;
use crate::profiles::SymbolOptions;
pub(crate) use arguments::Args;
use arguments::CPU_FILE;
pub(super) use arguments::HEAP_FILE;
use end::EndingCommand;
pub(super) use end::Interruptions;
use live_line::LiveLine;
use load::Load;

/// The library that samples a command from inside; it is embedded in this program.
static SAMPLER: Library =
    Library { bytes: flamelet_embed::cdylib!(flamelet_preload_cpu), name: "libflamelet-cpu.so" };

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Record a command or running processes: CPU time, blocked time, system calls, memory",
        examples: &[
            ("flamelet record -- ./service --port 3000", "until it exits, or Ctrl-C"),
            ("flamelet record -p 1234 --duration 10 -o cpu.html", "a running process, as a web page"),
            ("flamelet record -p postgres --duration 10", "all processes with that name"),
            ("flamelet record --off-cpu -p 1234", "also where it waits"),
            ("flamelet record --syscalls -- ls -R /", "counts, errors and latency"),
            ("flamelet record --syscalls --args -- ls -R /", "and which files, sizes and flags"),
            ("flamelet record --heap -- ./service", "every allocation"),
            ("flamelet record -e syscalls:sys_enter_getrandom -- ./service", "the callers of an event"),
            (
                "flamelet record --repeat 3 -o 'new-{run}.pb.gz' -- ./bench",
                "three files, for flamelet check --new",
            ),
            (
                "flamelet record --load 'wrk http://localhost:3000' --duration 30 -- ./service",
                "under load, for 30 seconds",
            ),
        ],
        exit_status: Some(
            "that of the command, or 128 plus the signal that ended it (143 after --duration); 1 with \
             --strict if the recording is poor; 2 if flamelet failed; 0 otherwise.",
        ),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(which) = args.heap {
        return heap::run(args, which);
    }
    run_all(args, CPU_FILE, &mut |run| {
        let recorded = record_once(args, run)?;
        let Recorded { profile, summary, command, .. } = recorded;
        Ok(Outcome { profile, summary: summary_lines(&summary), command })
    })
}

/// How to make one recording.
pub(super) struct Run<'a> {
    pub(super) interruptions: &'a Interruptions,
    /// Where it is saved while it runs.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The load that runs meanwhile.
    pub(super) load: Option<&'a Load>,
}

impl Run<'_> {
    /// Returns the command to record.
    pub(super) fn command(&self, program: &str, arguments: &[String]) -> Result<Command> {
        let mut command = Command::new(program);
        command.args(arguments);
        self.load.map_or(Ok(()), |load| load.watch_output(&mut command))?;
        Ok(command)
    }
}

/// The result of one recording.
pub(super) struct Outcome {
    pub(super) profile: Profile,
    /// A summary for the user, printed once the recording is written.
    pub(super) summary: Vec<String>,
    pub(super) command: Option<CommandEnd>,
}

type Once<'a> = dyn FnMut(Run<'_>) -> Result<Outcome> + 'a;

/// Makes the requested number of recordings, under the load; merges, writes and judges them.
pub(super) fn run_all(args: &Args, usual_name: &str, record_once: &mut Once<'_>) -> Result<ExitCode> {
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(usual_name));
    // An invalid output name should not cost a recording.
    let kind = OutputKind::of(&path)?;
    output::check(Some(&path))?;
    let interruptions = Interruptions::watch()?;
    let saved = kind.checkpoint_path(&path);
    let mut runs = make_runs(args, (&path, kind), saved.as_deref(), &interruptions, record_once)?;
    let profile = runs.take_merged()?;
    let facts = info::info(&profile);
    let shown = args.view.then(|| profile.clone());
    let written = match runs.is_separate {
        true => Ok((path, false)),
        false => kind.write_somewhere(&profile, path),
    };
    // Only now: printing may block, as on a terminal after Ctrl-S.
    runs.print_summaries();
    let (path, is_elsewhere) = written?;
    // The checkpoint is no longer needed.
    if let Some(saved) = saved.filter(|saved| runs.is_separate || *saved != path) {
        let _ = std::fs::remove_file(saved);
    }
    runs.has_failed |= is_elsewhere;
    print_verdict(&facts);
    match runs.is_separate {
        true => note!("Compare runs of two versions with: flamelet check --base OLD... --new NEW..."),
        false => kind.print_next_step(&path, args.off_cpu),
    }
    let status = runs.wait(&interruptions)?;
    interruptions.end();
    if let Some(profile) = shown {
        let source = flamelet_view::Source::profile(&path.to_string_lossy(), profile);
        super::view::serve(source, &ServeOptions::default(), true)?;
    }
    Ok(match runs.has_failed {
        true => ExitCode::from(2),
        false => exit_code(status, args.strict && facts.verdict == Verdict::Poor),
    })
}

/// Makes the recordings, up to the first that fails or is interrupted.
fn make_runs(
    args: &Args,
    (path, kind): (&Path, OutputKind),
    saved: Option<&Path>,
    interruptions: &Interruptions,
    record_once: &mut Once<'_>,
) -> Result<Runs> {
    let mut runs = Runs { is_separate: numbered(path, 1).is_some(), ..Runs::default() };
    for left in (0..args.repeat.max(1)).rev() {
        let is_first = runs.profiles.is_empty();
        let checkpoint = saved.map(|saved| runs.checkpoint(saved)).transpose()?;
        let load = Load::prepare(args, interruptions.shared_flag())?;
        match record_once(Run { interruptions, checkpoint, load: load.as_ref() }) {
            Ok(mut outcome) => {
                runs.end_load(load, &mut outcome.profile);
                runs.add(outcome, left > 0, interruptions)?;
            }
            Err(failure) if is_first => return Err(failure),
            // Earlier recordings are still worth writing.
            Err(failure) => runs.end_with(&failure),
        }
        runs.note_work(args.work);
        if runs.is_separate {
            runs.write_last(kind, path)?;
        }
        if runs.is_over {
            break;
        }
        if left > 0 {
            runs.print_summaries();
        }
    }
    Ok(runs)
}

/// The recordings so far.
#[derive(Default)]
struct Runs {
    profiles: Vec<Profile>,
    /// Summaries that are still to be printed.
    summaries: Vec<String>,
    /// The first status that is not a success, else the last one.
    status: Option<ExitStatus>,
    /// The last command, if it still has to end.
    ending: Option<EndingCommand>,
    is_over: bool,
    has_failed: bool,
    /// Each run has its own file.
    is_separate: bool,
    /// How many are written.
    written: usize,
}

impl Runs {
    /// Adds a recording. If its command still runs, waits for it now if there are more runs, otherwise once
    /// everything is written.
    fn add(&mut self, outcome: Outcome, has_more: bool, interruptions: &Interruptions) -> Result<()> {
        self.profiles.push(outcome.profile);
        self.summaries.extend(outcome.summary);
        let was_interrupted = interruptions.take();
        self.is_over = was_interrupted || !has_more;
        match outcome.command {
            None => {}
            Some(CommandEnd::Exited(status)) => self.note(Some(status)),
            Some(CommandEnd::Running(command)) => {
                let mut ending = EndingCommand::ask(command, was_interrupted, interruptions);
                let status = if self.is_over { None } else { ending.make_room(interruptions)? };
                self.note(status);
                self.is_over |= status.is_none();
                self.ending = status.is_none().then_some(ending);
            }
        }
        Ok(())
    }

    /// Ends the load of a run. One that fails at once is an error, but the recording is still written.
    fn end_load(&mut self, load: Option<Load>, profile: &mut Profile) {
        if let Err(failure) = load.map_or(Ok(()), |load| load.finish(profile)) {
            note!("flamelet: {failure}");
            self.has_failed = true;
        }
    }

    /// Writes the last run to a file of its own, if it is not written yet.
    fn write_last(&mut self, kind: OutputKind, path: &Path) -> Result<()> {
        if self.written == self.profiles.len() {
            return Ok(());
        }
        self.written = self.profiles.len();
        let (Some(profile), Some(path)) = (self.profiles.last(), numbered(path, self.written)) else {
            return Ok(());
        };
        let (path, is_elsewhere) = kind.write_somewhere(profile, path)?;
        self.has_failed |= is_elsewhere;
        self.summaries.push(format!("Wrote {}", path.display()));
        Ok(())
    }

    /// Notes in the last run how much work it did.
    fn note_work(&mut self, work: Option<f64>) {
        if let (Some(work), Some(profile)) = (work, self.profiles.last_mut())
            && !profile.comments().any(|comment| comment.starts_with(WORK_COMMENT))
        {
            profile.add_comment(&format!("{WORK_COMMENT}{work}"));
        }
    }

    fn note(&mut self, status: Option<ExitStatus>) {
        let has_failed = self.status.is_some_and(|status| !status.success());
        self.status = if has_failed { self.status } else { status.or(self.status) };
    }

    fn end_with(&mut self, failure: &Failure) {
        note!("flamelet: run {} failed: {failure}; the earlier runs are saved", self.profiles.len() + 1);
        (self.is_over, self.has_failed) = (true, true);
    }

    /// Returns a checkpoint that saves the next run while it is recorded, together with those before it.
    fn checkpoint(&self, path: &Path) -> Result<Checkpoint> {
        let Checkpoint { every, mut save } = Checkpoint::to_file(path, Duration::from_secs(5));
        if self.profiles.is_empty() {
            return Ok(Checkpoint { every, save });
        }
        let before = self.merged()?;
        let with_before =
            move |profile: &Profile| save(&merge(&[&before, profile]).map_err(std::io::Error::other)?);
        Ok(Checkpoint { every, save: Box::new(with_before) })
    }

    fn print_summaries(&mut self) {
        self.summaries.drain(..).for_each(|line| note!("{line}"));
    }

    fn merged(&self) -> Result<Profile> {
        match self.profiles.as_slice() {
            [one] => Ok(one.clone()),
            several => Ok(merge(&several.iter().collect::<Vec<_>>())?),
        }
    }

    /// Like `merged`, but without copying a profile that may have a long timeline.
    fn take_merged(&mut self) -> Result<Profile> {
        match self.profiles.len() {
            1 => Ok(self.profiles.remove(0)),
            _ => self.merged(),
        }
    }

    /// Waits for a command that still runs. Returns the status of all runs.
    fn wait(&mut self, interruptions: &Interruptions) -> Result<Option<ExitStatus>> {
        if let Some(ending) = self.ending.take() {
            let status = ending.wait(interruptions)?;
            self.note(status);
        }
        Ok(self.status)
    }
}

/// Returns the file of run `number`, if the name has a place for it: `{run}`, or `{n}`, which help texts cannot show (clap
/// prints it as the end of a line).
fn numbered(path: &Path, number: usize) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let filled = name.replace("{run}", &number.to_string()).replace("{n}", &number.to_string());
    (filled != name).then(|| path.with_file_name(filled))
}

fn record_once(args: &Args, run: Run<'_>) -> Result<Recorded> {
    let mut options = RecordOptions::new(target(args, &run)?);
    options.frequency = args.frequency;
    options.duration = args.duration;
    options.off_cpu = args.off_cpu;
    options.syscalls = args.syscalls;
    options.arguments = args.args;
    options.events.clone_from(&args.event);
    options.cpu = args.off_cpu || (!args.syscalls && args.event.is_empty());
    options.kernel = !args.no_kernel;
    let symbols = SymbolOptions { binaries: args.binary.clone(), ..SymbolOptions::default() };
    options.symbolize = Some(symbols.symbolizer_options());
    options.checkpoint = run.checkpoint;
    options.shield_command = run.interruptions.shield_command();
    let stop = run.interruptions.flag();
    let mut line = LiveLine::new(!args.command.is_empty());
    let mut tell = |progress: &Progress| line.show(&live_line(progress));
    let recorded = match cpu::why_needed().filter(|_| cpu::can_record(&options)) {
        Some(why) => {
            note!("{why}");
            note!("Until then: the command is sampled from inside, by a library that is loaded into it.");
            cpu::record(options, SAMPLER, &mut tell, stop)
        }
        None => record(options, &mut tell, stop),
    };
    recorded.map_err(|error| Failure::new(error.to_string()))
}

fn target(args: &Args, run: &Run<'_>) -> Result<Target> {
    match (args.command.as_slice(), args.pid.as_slice(), args.all) {
        ([program, rest @ ..], [], false) => Ok(Target::Command(run.command(program, rest)?)),
        ([], pids @ [_, ..], false) => Ok(Target::Pids(processes(pids)?)),
        ([], [], true) => Ok(Target::All),
        ([], [], false) => {
            Err(Failure::new("nothing to record; give a command after --, processes with -p, or -a for all"))
        }
        _ => Err(Failure::new("give only one of a command, -p and -a")),
    }
}

/// The processes that ids and names refer to.
fn processes(words: &[String]) -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    for word in words {
        match word.parse() {
            Ok(pid) => pids.push(pid),
            Err(_) => match named(word).as_slice() {
                [] => {
                    return Err(Failure::new(format!("no process with the name or id {word:?}")));
                }
                found => pids.extend(found),
            },
        }
    }
    Ok(pids)
}

fn live_line(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { progress.samples as f64 / seconds } else { 0.0 };
    let calls =
        if progress.syscalls > 0 { format!(", {} system calls", progress.syscalls) } else { String::new() };
    format!("{seconds:.0} s: {} samples ({rate:.0}/s), {} lost{calls}", progress.samples, progress.lost)
}

fn summary_lines(summary: &Summary) -> Vec<String> {
    let mut lines = summary.notes.clone();
    if summary.rooted + summary.truncated > 0 {
        let named = 1.0 - summary.unresolved as f64 / summary.locations.max(1) as f64;
        lines.push(format!(
            "{:.1} s: {:.1} % of the stacks reach the start of their thread, {:.1} % of the addresses have a name \
             (found in {} ms)",
            summary.elapsed.as_secs_f64(),
            summary.rooted_share() * 100.0,
            named * 100.0,
            summary.names_cpu.as_millis()
        ));
    }
    const TOLERATED: u64 = 50;
    if summary.truncated * TOLERATED > summary.rooted + summary.truncated {
        lines.push(format!(
            "{} stacks end early: {} were larger than the copied part, {} reached code without unwind information",
            summary.truncated, summary.cut, summary.without_rule
        ));
    }
    let calls = syscalls::table(&summary.syscalls);
    lines.extend((!calls.is_empty()).then_some(calls));
    let by_arguments = syscalls::arguments_table(&summary.calls_by_arguments);
    lines.extend((!by_arguments.is_empty()).then_some(by_arguments));
    lines
}

fn print_verdict(facts: &info::Info) {
    for comment in facts.comments.iter().filter(|comment| comment.starts_with("flamelet: ")) {
        note!("{}", comment.trim_start_matches("flamelet: "));
    }
    facts.verdict_lines().iter().for_each(|line| note!("{line}"));
}

/// Returns the command's own status, as a shell would pass it on.
pub(super) fn exit_code(status: Option<ExitStatus>, is_bad: bool) -> ExitCode {
    let code = status.map_or(0, |status| status.code().unwrap_or(128 + status.signal().unwrap_or(0)));
    match (code, is_bad) {
        (0, true) => ExitCode::from(1),
        (code, _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    }
}

/// What the output's extension selects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputKind {
    Picture(Picture),
    Format(Format),
}

impl OutputKind {
    fn of(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        if name == "-" {
            return Ok(Self::Format(Format::Pprof));
        }
        match Made::for_output(path) {
            Some(Made::Flame(picture)) => Ok(Self::Picture(picture)),
            Some(Made::Format(format)) => Ok(Self::Format(format)),
            Some(Made::Dot) | None => {
                let names = Format::all().iter().filter(|format| format.can_write());
                let endings = names.filter_map(|format| format.extensions().first().copied());
                let endings: Vec<&str> = endings.chain(["svg", "png", "html"]).collect();
                Err(Failure::new(format!(
                    "{name}: unknown output extension; use one of {}",
                    endings.join(", ")
                )))
            }
        }
    }

    /// Returns where a recording is saved while it runs: in its own file, or beside a picture. `None` for standard
    /// output, a pipe or a device, which must not be replaced.
    fn checkpoint_path(self, path: &Path) -> Option<PathBuf> {
        let mut name = path.file_name()?.to_owned();
        match self {
            _ if path == Path::new("-") || output::is_special(path) => None,
            Self::Format(Format::Pprof) => Some(path.to_owned()),
            _ => {
                name.push(".partial.pb.gz");
                Some(path.with_file_name(name))
            }
        }
    }

    fn print_next_step(self, path: &Path, with_blocked_time: bool) {
        let name = path.display();
        match self {
            Self::Picture(Picture::Png) => note!("Wrote {name}"),
            Self::Picture(_) => note!("Wrote {name}; open it in a browser"),
            Self::Format(_) => {
                note!("Wrote {name}; open it with: flamelet view {name}   or: flamelet top {name}");
                if with_blocked_time {
                    note!("Blocked time: flamelet top --sample-index=off_cpu {name}");
                }
            }
        }
    }

    /// Writes to `path`; if that fails, as on a full disk, to the folder for temporary files under a free name, so
    /// that the recording is not lost. Returns the path, and whether it is another one.
    fn write_somewhere(self, profile: &Profile, path: PathBuf) -> Result<(PathBuf, bool)> {
        let Err(error) = self.write(profile, &path) else { return Ok((path, false)) };
        if path == Path::new("-") {
            return Err(error);
        }
        let Ok(elsewhere) = output::free_name_like(&path) else { return Err(error) };
        if self.write(profile, &elsewhere).is_err() {
            let _ = std::fs::remove_file(&elsewhere);
            return Err(error);
        }
        note!("flamelet: {error}; wrote to another place instead: {}", elsewhere.display());
        Ok((elsewhere, true))
    }

    fn write(self, profile: &Profile, path: &Path) -> Result<()> {
        match self {
            Self::Picture(picture) => {
                let options = FlameOptions { title: path.display().to_string(), ..FlameOptions::default() };
                let question = Question::Flame(picture, Box::new(options));
                let (options, symbols) = Default::default();
                let ask = Ask { options: &options, symbols: &symbols, json: false };
                answer_to(&question, profile.clone(), &ask, Some(path))
            }
            Self::Format(format) => output::write(Some(path), |mut out| {
                let options = flamelet_formats::FormatOptions::default();
                let notes = flamelet_formats::write(profile, format, &mut out, &options)
                    .map_err(|error| Failure::new(error.to_string()))?;
                notes.iter().for_each(|note| note!("{note}"));
                Ok(())
            }),
        }
    }
}
