//! Records CPU time where `perf_event_open` is forbidden: with the sampler of `flamelet-capture`, inside the command.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flamelet_preload_ledger::{PROFILE_ENDING, REFUSED_ENDING, env};
use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::{Profile, Quality, merge};
use flamelet_symbol::symbolize::Symbolizer;

use super::folder::{MOST_BYTES, PreloadFolder, Room};
use super::generated::Runtimes;
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
    program::check(command.get_program(), program::Purpose::Cpu)?;
    let folder = PreloadFolder::new(library)?;
    folder.preload_into(&mut command);
    command.env(env::FREQUENCY, options.frequency.to_string());
    let mut saver = options.checkpoint.take().map(Saver::new);
    let running = RunningCommand::start(command, options.shield_command)?;
    running.wait(options.duration, stop, |elapsed| {
        progress(&Progress { elapsed, ..Progress::default() });
        if let Some(saver) = &mut saver {
            saver.save_if_due(|| gather(&folder).map_or_else(|_| Profile::default(), |found| found.profile));
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
    let Gathered { mut profile, quality, runtimes } = gather(&folder)?;
    let quality = Coverage::new(&profile, &quality, running.cpu_time(), options.frequency).correct(quality);
    let symbols =
        options.symbolize.take().map(|symbols| Symbolizer::new(symbols).symbolize_profile(&mut profile));
    let mut summary = summary(&options, elapsed, &profile, &quality);
    summary.target_cpu = running.cpu_time();
    summary.notes.extend(runtimes.advice());
    profile.quality = Some(Quality {
        engine: profile.intern(&summary.engine),
        unresolved: summary.unresolved as u64,
        asked_millihertz: u64::from(options.frequency) * 1000,
        ..quality
    });
    Ok(Recorded { profile, summary, symbols, command: Some(running.end()?) })
}

/// How much of the command's CPU time its samples stand for. Each process knows only itself, and none the time before
/// the library was loaded: of a script that starts many programs, that is most of it.
#[derive(Clone, Copy, Debug)]
struct Coverage {
    /// The CPU time of all processes without the sampler's own, if the command has ended.
    used: Option<f64>,
    /// The part of it that samples stand for.
    sampled: f64,
    /// What one sample stands for.
    period: f64,
}

impl Coverage {
    fn new(profile: &Profile, quality: &Quality, used: Option<Duration>, frequency: u32) -> Self {
        let own = Duration::from_nanos(quality.own_cpu_nanos);
        let column = profile.default_sample_index();
        let sampled = profile.samples().map(|sample| sample.values.get(column).copied().unwrap_or(0));
        Self {
            used: used.map(|used| used.saturating_sub(own).as_nanos() as f64),
            sampled: sampled.sum::<i64>() as f64,
            period: 1e9 / f64::from(frequency.max(1)),
        }
    }

    /// Corrects the rate, which short processes cannot know, and how many samples are missing.
    fn correct(self, quality: Quality) -> Quality {
        /// With fewer samples, a rate means nothing.
        const ENOUGH_SAMPLES: u64 = 100;
        let Some(used) = self.used.filter(|_| quality.samples >= ENOUGH_SAMPLES) else {
            return Quality { achieved_millihertz: 0, ..quality };
        };
        let samples = quality.samples as f64;
        let missing = (used - self.sampled) / self.period;
        // What chance alone makes of the number of samples.
        let chance = 2.0 * (used / self.period).sqrt();
        // As those that were taken go: an observation may stand for several periods.
        let missing = (missing - chance).max(0.0) * samples / (self.sampled / self.period).max(1.0);
        Quality {
            achieved_millihertz: (samples * 1e12 / used.max(1.0)) as u64,
            lost: quality.lost.max(missing as u64),
            ..quality
        }
    }
}

/// A little longer than the library's interval between two saves.
const SAVED_AFTER: Duration = Duration::from_millis(1500);

fn summary(options: &RecordOptions, elapsed: Duration, profile: &Profile, quality: &Quality) -> Summary {
    let unresolved =
        profile.locations().iter().filter(|location| profile.lines_of(location).is_empty()).count();
    Summary {
        engine: Quality::INSIDE_A_COMMAND.to_owned(),
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

/// What all processes have saved.
struct Gathered {
    profile: Profile,
    quality: Quality,
    runtimes: Runtimes,
}

/// The memory that the profiles of all processes may take; more are left out.
const MOST_MEMORY: u64 = 2 << 30;

/// Returns whether a profile measures what the library measures. A recorded process may leave any other; it could not be
/// merged with those of the others.
fn is_of_sampler(profile: &Profile) -> bool {
    let types =
        profile.sample_types().iter().map(|value| (profile.string(value.kind), profile.string(value.unit)));
    types.eq([("samples", "count"), ("cpu", "nanoseconds")])
}

/// Merges the profiles of all processes, each labelled with its process, and their quality.
fn gather(folder: &PreloadFolder) -> Result<Gathered> {
    let (mut quality, mut runtimes) = (Quality::default(), Runtimes::default());
    let (mut profiles, mut room, mut memory) = (Vec::new(), Room::new(), MOST_MEMORY);
    for path in folder.files(PROFILE_ENDING) {
        let Some(bytes) = room.read(&path, MOST_BYTES) else { continue };
        let limits = Limits::of_memory(memory.min(Limits::PERSON.memory));
        let Ok(mut profile) = pprof::read(&bytes, &limits) else { continue };
        memory = memory.saturating_sub(profile.byte_size() as u64);
        if !is_of_sampler(&profile) {
            continue;
        }
        if let Some(own) = profile.quality {
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut quality.samples, own.samples);
            add(&mut quality.lost, own.lost);
            add(&mut quality.truncated, own.truncated);
            add(&mut quality.own_cpu_nanos, own.own_cpu_nanos);
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let pid = stem.split('-').next().unwrap_or_default();
        profile.label_all("pid", pid);
        pid.parse().into_iter().for_each(|pid| runtimes.name(&mut profile, pid));
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
    Ok(Gathered { profile: merged, quality, runtimes })
}

fn no_samples(folder: &PreloadFolder) -> Error {
    let refused = folder.files(REFUSED_ENDING).iter().find_map(|path| PreloadFolder::read(path));
    let why = refused.map(|why| String::from_utf8_lossy(&why).into_owned());
    let why = why.as_deref().unwrap_or("it ended before it could be sampled, or could not load the library");
    Error::new(ErrorKind::Unsupported, format!("the command has left no samples: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of CPU time at 100 Hz, in which `samples` were taken and the processes themselves miss `lost`.
    fn corrected(used: Option<f64>, samples: u64, lost: u64) -> (u64, u64) {
        let coverage = Coverage { used, sampled: samples as f64 * 1e7, period: 1e7 };
        let quality = Quality { samples, lost, achieved_millihertz: 21_752_000, ..Quality::default() };
        let quality = coverage.correct(quality);
        (quality.achieved_millihertz, quality.lost)
    }

    #[test]
    fn the_rate_is_that_of_all_processes_together() {
        assert_eq!(corrected(Some(2e9), 200, 0), (100_000, 0));
        assert_eq!(corrected(Some(2e9), 190, 0), (95_000, 0), "chance");
        assert_eq!(corrected(Some(2e9), 190, 30), (95_000, 30), "the processes know better");
        // 100 of 400: 300 are missing, of which chance may account for 40.
        assert_eq!(corrected(Some(4e9), 100, 0), (25_000, 260));
    }

    #[test]
    fn only_what_the_library_measures_is_merged() {
        let of =
            |types: &[(&str, &str)]| is_of_sampler(&flamelet_profile::ProfileBuilder::new(types).finish());
        assert!(of(&[("samples", "count"), ("cpu", "nanoseconds")]));
        for other in [
            &[("alloc_space", "bytes")][..],
            &[("samples", "count")],
            &[("samples", "count"), ("cpu", "bytes")],
            &[],
        ] {
            assert!(!of(other), "{other:?}");
        }
    }

    #[test]
    fn a_rate_that_nobody_knows_is_not_stated() {
        assert_eq!(corrected(None, 200, 3), (0, 3));
        assert_eq!(corrected(Some(2e8), 20, 3), (0, 3), "too few samples");
    }
}
