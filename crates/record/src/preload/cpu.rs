//! Records CPU time where `perf_event_open` is forbidden: with the sampler of `flamelet-capture`, inside the command.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flamelet_preload_ledger::{PROFILE_ENDING, REFUSED_ENDING, env};
use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::{Profile, Quality, merge};
use flamelet_symbol::symbolize::Symbolizer;

use super::folder::Folder;
use super::running::RunningCommand;
use super::{Library, program};
use crate::checkpoint::Saver;
use crate::{Error, ErrorKind, Progress, RecordOptions, Recorded, Result, Summary, Target, access};

/// Returns why `perf_event_open` allows no recording at all, with the remedy; `None` if it works.
pub fn why_needed() -> Option<String> {
    let error = access::try_own_clock(false).err()?;
    Some(access::explain(&error, "perf_event_open", access::level::USER_SIDE).to_string())
}

/// Returns whether [`record`] supports the options: CPU time of a command.
pub fn can_record(options: &RecordOptions) -> bool {
    let only_cpu = options.cpu && !options.off_cpu && !options.syscalls && options.events.is_empty();
    only_cpu && matches!(options.target, Target::Command(_))
}

/// Records a command's CPU time from inside until it ends, the duration is over or `stop` is set.
pub fn record(
    mut options: RecordOptions,
    library: Library,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Recorded> {
    options.check()?;
    let Target::Command(command) = &mut options.target else {
        return Err(Error::new(ErrorKind::InvalidOption, "only a command can be sampled from inside"));
    };
    let mut command = std::mem::replace(command, Command::new(""));
    program::check(command.get_program())?;
    let folder = Folder::new(library)?;
    folder.preload_into(&mut command);
    command.env(env::FREQUENCY, options.frequency.to_string());
    let mut saver = options.checkpoint.take().map(Saver::new);
    let running = RunningCommand::start(command, options.shield_command)?;
    running.wait(options.duration, stop, |elapsed| {
        progress(&Progress { elapsed, ..Progress::default() });
        if let Some(saver) = &mut saver {
            saver.save_if_due(|| gather(&folder).map_or_else(|_| Profile::default(), |(profile, _)| profile));
        }
    })?;
    let elapsed = running.started.elapsed();
    if !folder
        .files(PROFILE_ENDING)
        .iter()
        .any(|file| file.symlink_metadata().is_ok_and(|file| file.len() > 0))
    {
        // A process that is still running has saved nothing in its first second.
        running.wait(Some(elapsed + SAVED_AFTER), &AtomicBool::new(false), |_| {})?;
    }
    let (mut profile, quality) = gather(&folder)?;
    let symbols =
        options.symbolize.take().map(|symbols| Symbolizer::new(symbols).symbolize_profile(&mut profile));
    let summary = summary(&options, elapsed, &profile, &quality);
    profile.quality = Some(Quality {
        engine: profile.intern(&summary.engine),
        unresolved: summary.unresolved as u64,
        asked_millihertz: u64::from(options.frequency) * 1000,
        ..quality
    });
    Ok(Recorded { profile, summary, symbols, command: Some(running.end()?) })
}

/// A little longer than the library's interval between two saves.
const SAVED_AFTER: Duration = Duration::from_millis(1500);

fn summary(options: &RecordOptions, elapsed: Duration, profile: &Profile, quality: &Quality) -> Summary {
    let unresolved =
        profile.locations().iter().filter(|location| profile.lines_of(location).is_empty()).count();
    Summary {
        engine: "timers inside the command".to_owned(),
        elapsed,
        samples: quality.samples,
        lost: quality.lost,
        rooted: quality.samples.saturating_sub(quality.truncated),
        truncated: quality.truncated,
        locations: profile.locations().len(),
        unresolved,
        asked_hertz: f64::from(options.frequency),
        own_cpu: Duration::from_nanos(quality.own_cpu_nanos),
        ..Summary::default()
    }
}

/// Merges the profiles of all processes, each labelled with its process, and their quality.
fn gather(folder: &Folder) -> Result<(Profile, Quality)> {
    let mut quality = Quality::default();
    let mut profiles = Vec::new();
    for path in folder.files(PROFILE_ENDING) {
        let Some(bytes) = Folder::read(&path) else { continue };
        let Ok(mut profile) = pprof::read(&bytes, &Limits::default()) else { continue };
        if let Some(own) = profile.quality {
            quality.samples += own.samples;
            quality.lost += own.lost;
            quality.truncated += own.truncated;
            quality.own_cpu_nanos += own.own_cpu_nanos;
            quality.achieved_millihertz = quality.achieved_millihertz.max(own.achieved_millihertz);
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        profile.label_all("pid", stem.split('-').next().unwrap_or_default());
        let program = profile.mappings().first().map(|mapping| profile.string(mapping.filename).to_owned());
        let program = program.unwrap_or_default();
        let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        profile.label_all("process", &name);
        profiles.push(profile);
    }
    if profiles.is_empty() {
        return Err(no_samples(folder));
    }
    let merged = merge(&profiles.iter().collect::<Vec<_>>());
    let merged = merged.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    Ok((merged, quality))
}

fn no_samples(folder: &Folder) -> Error {
    let refused = folder.files(REFUSED_ENDING).iter().find_map(|path| Folder::read(path));
    let why = refused.map(|why| String::from_utf8_lossy(&why).into_owned());
    let why = why.as_deref().unwrap_or("it ended before it could be sampled, or could not load the library");
    Error::new(ErrorKind::Unsupported, format!("the command has left no samples: {why}"))
}
