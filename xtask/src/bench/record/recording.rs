//! One recording: its cost and its results.

use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime};

use super::peers::Permission;
use super::recorder::Recorder;
use super::rooted::{self, SamplySeen};
use super::{Load, Tools};
use crate::Failure;
use crate::bench::measure::{Cost, cost};

pub(super) struct Recording {
    pub(super) cost: Cost,
    /// Turns that the target made, and its CPU time in seconds.
    pub(super) turns_a_second: f64,
    target_cpu: f64,
    /// Seconds of CPU for finding names, if the recorder reports that.
    names_cpu: f64,
    pub(super) bytes: u64,
    pub(super) samples: Option<u64>,
    pub(super) lost: Option<u64>,
    pub(super) rooted: Option<f64>,
    /// The percentage of work not done, compared with unrecorded runs; the caller fills it in.
    pub(super) slowdown: Option<f64>,
    /// Seconds from the target's end to the file, and to a picture.
    pub(super) to_file: f64,
    pub(super) to_picture: Option<f64>,
}

impl Recording {
    /// Records `load` with `recorder`.
    pub(super) fn make(tools: &Tools, load: Load, recorder: Recorder) -> Result<Self, Failure> {
        let (report, errors) =
            (tools.folder.join("record-report.txt"), tools.folder.join("record-errors.txt"));
        let file = recorder.file(tools);
        let _ = std::fs::remove_file(&report);
        let _ = std::fs::remove_file(&file);
        let _permission = (recorder == Recorder::Samply).then(Permission::take);
        let mut command = recorder.command(tools, load.hertz, &errors);
        command.arg(&tools.target).arg(load.kind);
        command.args([load.threads, load.millis].map(|number| number.to_string())).arg(&report);
        let cost = cost(&mut command)?;
        let to_file = since_end(&report)?;
        let errors = std::fs::read_to_string(&errors).unwrap_or_default();
        let [turns, _, ticks] = numbers(&report)?;
        let mut recording = Self {
            cost,
            turns_a_second: turns * 1e3 / f64::from(load.millis),
            target_cpu: ticks / 100.0,
            names_cpu: 0.0,
            bytes: std::fs::metadata(&file).map_or(0, |file| file.len()),
            samples: number_before(&errors, " samples"),
            lost: number_before(&errors, " lost"),
            rooted: None,
            slowdown: None,
            to_file,
            to_picture: None,
        };
        recording.look_at(tools, recorder, &file, &errors)?;
        Ok(recording)
    }

    /// Examines the file, and measures how long a picture of it takes.
    fn look_at(
        &mut self,
        tools: &Tools,
        recorder: Recorder,
        file: &Path,
        errors: &str,
    ) -> Result<(), Failure> {
        match recorder {
            Recorder::Nothing => {}
            Recorder::Flamelet => {
                self.names_cpu = number_before(errors, " ms)").unwrap_or(0) as f64 / 1e3;
                let truncated = number_before(errors, " stacks truncated").unwrap_or(0);
                self.rooted = self.samples.map(|all| 1.0 - truncated as f64 / all.max(1) as f64);
                let mut flame = Command::new(&tools.flamelet);
                flame.arg("flame").arg(file).arg("-o").arg(tools.picture());
                self.to_picture = Some(self.to_file + cost(&mut flame)?.wall.as_secs_f64());
            }
            Recorder::Samply => {
                // It prints nothing when it lost nothing.
                self.lost = Some(errors.lines().filter_map(|line| number_after(line, "Lost ")).sum());
                let names = file.with_extension("").with_extension("json.syms.json");
                self.bytes += std::fs::metadata(names).map_or(0, |file| file.len());
                let seen = rooted::read_json(file).and_then(|profile| rooted::of_samply(&profile));
                if let Some(SamplySeen { samples, rooted }) = seen {
                    (self.samples, self.rooted) = (Some(samples), rooted);
                }
            }
            Recorder::Perf => {
                self.lost = Some(number_after(errors, "lost ").unwrap_or(0));
                let started = Instant::now();
                let text = tools.folder.join("record-perf.txt");
                let mut script = Command::new("sh");
                script.args(["-c", "perf script -i \"$0\" > \"$1\" 2>/dev/null"]).arg(file).arg(&text);
                cost(&mut script)?;
                cost(Command::new(&tools.inferno).arg("2").arg(&text).arg(tools.picture()))?;
                self.to_picture = Some(self.to_file + started.elapsed().as_secs_f64());
                let text = std::fs::read(&text).unwrap_or_default();
                self.rooted = rooted::of_perf_script(&String::from_utf8_lossy(&text));
            }
            Recorder::Flamegraph => {
                self.lost = Some(number_after(errors, "lost ").unwrap_or(0));
                self.to_picture = Some(self.to_file);
                let svg = std::fs::read_to_string(tools.picture()).unwrap_or_default();
                self.rooted = rooted::of_flame_graph(&svg);
            }
        }
        Ok(())
    }

    /// Returns the CPU time of everything that the recorder started, without the target's.
    pub(super) fn recorder_cpu(&self) -> f64 {
        (self.cost.cpu.as_secs_f64() - self.target_cpu).max(0.0)
    }

    pub(super) fn bytes_a_sample(&self) -> Option<f64> {
        Some(self.bytes as f64 / self.samples?.max(1) as f64)
    }

    pub(super) fn micros_a_sample(&self) -> Option<f64> {
        Some(self.recorder_cpu() * 1e6 / self.samples?.max(1) as f64)
    }

    /// Returns the same without finding names, which takes as long for a thousand samples as for a million.
    pub(super) fn micros_without_names(&self) -> Option<f64> {
        Some((self.recorder_cpu() - self.names_cpu).max(0.0) * 1e6 / self.samples?.max(1) as f64)
    }
}

/// Returns the last number right before `word`.
pub(in crate::bench) fn number_before(text: &str, word: &str) -> Option<u64> {
    let (before, _) = text.rsplit_once(word)?;
    let digits = before.len() - before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    before[before.len() - digits..].parse().ok()
}

/// Returns the number that follows `word`.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, after) = text.rsplit_once(word)?;
    after.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Reads the three numbers that the target writes when it ends.
fn numbers(report: &Path) -> Result<[f64; 3], Failure> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers
        .try_into()
        .map_err(|_| Failure::failed(format!("the recorded program reported `{}`", text.trim())))
}

fn since_end(report: &Path) -> Result<f64, Failure> {
    let [_, end, _] = numbers(report)?;
    Ok(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64() - end / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_the_recorders_words() {
        let perf = "[ perf record: Captured and wrote 579.000 MB perf.data (9011 samples) ]";
        assert_eq!(number_before(perf, " samples"), Some(9011));
        assert_eq!(number_after("Processed 9 events and lost 13 chunks!", "lost "), Some(13));
        assert_eq!(number_after("Lost 14 events.", "Lost "), Some(14));
        let ours = "148 samples, 0 lost, 116 stacks truncated, 2 frames unresolved";
        assert_eq!(number_before(ours, " lost"), Some(0));
        assert_eq!(number_before(ours, " stacks truncated"), Some(116));
    }
}
