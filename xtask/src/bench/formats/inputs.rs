//! The files that the readers are measured on: generated, or freshly recorded by the real tools.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{folder, generate};
use crate::{Failure, run, workspace};

/// The tools that make the files, and their size.
pub(super) struct Inputs<'a> {
    pub(super) flamelet: &'a Path,
    pub(super) quick: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "that is how map_err hands it over")]
fn failed(error: std::io::Error) -> Failure {
    Failure::failed(error.to_string())
}

/// Returns a number that depends only on the name, so that a function keeps its address.
fn number_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        >> 32
}

impl Inputs<'_> {
    fn stacks(&self) -> usize {
        if self.quick { 1_000 } else { 50_000 }
    }

    /// Returns the generated profile in a format that flamelet writes.
    pub(super) fn converted(&self, format: &str) -> Result<PathBuf, Failure> {
        self.converted_from(self.stacks(), format)
    }

    fn converted_from(&self, stacks: usize, format: &str) -> Result<PathBuf, Failure> {
        let file = folder()?.join(format!("stacks-{stacks}.{format}"));
        let mut command = Command::new(self.flamelet);
        command.arg("convert").arg(generate(stacks)?).args(["--to", format, "-o"]).arg(&file);
        run::output(&mut command)?;
        Ok(file)
    }

    /// Returns the generated stacks as `perf script` prints them, `times` times; calls come from two places in a
    /// function.
    pub(super) fn perf_script(&self, name: &str, times: usize) -> Result<PathBuf, Failure> {
        let folded = self.converted("folded")?;
        write_text(&folded, &format!("perf-script-{name}"), times, |frame, callee, _| {
            number_of(frame) * 64 + number_of(callee) % 2 * 32
        })
    }

    /// Does the same, but with a different address of a function at every depth.
    pub(super) fn perf_script_with_sites(&self) -> Result<PathBuf, Failure> {
        let folded = self.converted("folded")?;
        write_text(&folded, "perf-script-sites", 1, |frame, _, depth| number_of(frame) * 64 + depth as u64)
    }

    /// Returns the same amount of text, with only a thousand stacks.
    pub(super) fn repeated_text(&self) -> Result<PathBuf, Failure> {
        let folded = self.converted_from(1_000, "folded")?;
        write_text(&folded, "perf-script-few", self.stacks() / 1_000, |frame, callee, _| {
            number_of(frame) * 64 + number_of(callee) % 2 * 32
        })
    }

    /// Returns the folded stacks, `times` times.
    pub(super) fn repeated_folded(&self, times: usize) -> Result<PathBuf, Failure> {
        let once = self.converted("folded")?;
        let file = folder()?.join(format!("folded-{times}.folded"));
        let mut out = File::create(&file).map_err(failed)?;
        for _ in 0..times {
            std::io::copy(&mut File::open(&once).map_err(failed)?, &mut out).map_err(failed)?;
        }
        Ok(file)
    }

    /// Returns a log of system calls, as `strace -f -T -ttt` writes it.
    pub(super) fn strace_log(&self, times: usize) -> Result<PathBuf, Failure> {
        let file = folder()?.join(format!("strace-{times}.log"));
        let mut out = BufWriter::new(File::create(&file).map_err(failed)?);
        for call in 0..self.stacks() * times * 4 {
            let (second, micros) = (call / 10_000, call % 10_000 * 100);
            writeln!(
                out,
                "{} {second}.{micros:06} write(1, \"0123456789012345678901234567890\"..., {}) = 31 <0.000012>",
                100 + call % 4,
                call % 97
            )
            .map_err(failed)?;
        }
        out.flush().map_err(failed)?;
        Ok(file)
    }

    /// Records with frame pointers, at a high rate.
    pub(super) fn frame_pointers(&self) -> Result<Option<PathBuf>, Failure> {
        let program =
            build("deep-fp", "crates/record/tests/programs/deep.rs", &["-Cforce-frame-pointers=yes"])?;
        let millis = if self.quick { "200" } else { "15000" };
        record("deep-fp.perf.data", &["-F", "8000", "--call-graph", "fp"], &program, &["2", millis])
    }

    /// Records with stack dumps, fifty thousand samples.
    pub(super) fn dumps(&self) -> Result<Option<PathBuf>, Failure> {
        self.dumps_for(25)
    }

    /// Records with stack dumps, about two thousand samples for each of `seconds`.
    pub(super) fn dumps_for(&self, seconds: u64) -> Result<Option<PathBuf>, Failure> {
        let program = build("deep", "crates/record/tests/programs/deep.rs", &[])?;
        let millis = if self.quick { 50 * seconds } else { 1000 * seconds };
        let name = format!("deep-{seconds}.perf.data");
        record(&name, &["-F", "997", "--call-graph", "dwarf,16384"], &program, &["2", &millis.to_string()])
    }

    /// Records flamelet itself at work: many locations, most of them inlined. The work is a `part` of the usual one.
    pub(super) fn rust_program(&self, name: &str, part: usize) -> Result<Option<PathBuf>, Failure> {
        let profile = generate(self.stacks() / part)?;
        let options = ["-F", "997", "--call-graph", "dwarf,16384"];
        let file = profile.to_string_lossy().into_owned();
        record(&format!("{name}.perf.data"), &options, self.flamelet, &["flame", &file, "-o", "/dev/null"])
    }
}

/// Writes folded stacks as `perf script` prints them; `address` returns a frame's address from its name, callee and
/// depth.
fn write_text(
    folded: &Path,
    name: &str,
    times: usize,
    address: impl Fn(&str, &str, usize) -> u64,
) -> Result<PathBuf, Failure> {
    let text = folder()?.join(format!("{name}.txt"));
    let mut out = BufWriter::new(File::create(&text).map_err(failed)?);
    let mut number = 0;
    for _ in 0..times {
        for line in BufReader::new(File::open(folded).map_err(failed)?).lines() {
            let line = line.map_err(failed)?;
            let frames = line.rsplit_once(' ').map_or(line.as_str(), |(frames, _)| frames);
            let (second, micros) = (number / 1000, number % 1000 * 1000);
            number += 1;
            writeln!(out, "checkout 4242/4243 [001] {second:>6}.{micros:06}:    1003009 cpu-clock:u: ")
                .map_err(failed)?;
            let mut callee = "";
            for (depth, frame) in frames.split(';').rev().enumerate() {
                let place = address(frame, callee, depth);
                writeln!(
                    out,
                    "\t{:>16x} {frame}+0x{:x} (/usr/bin/checkout)",
                    0x55d0_c000_0000 + place,
                    place % 64 + 7
                )
                .map_err(failed)?;
                callee = frame;
            }
            writeln!(out).map_err(failed)?;
        }
    }
    out.flush().map_err(failed)?;
    Ok(text)
}

/// Builds a program to be recorded.
fn build(name: &str, source: &str, options: &[&str]) -> Result<PathBuf, Failure> {
    let program = folder()?.join(name);
    let mut build = Command::new("rustc");
    build.args(["-O", "-g"]).args(options).arg("-o").arg(&program).arg(workspace::root().join(source));
    run::step("building the recorded program", &mut build)?;
    Ok(program)
}

/// Records with perf; `None` if perf may not record.
fn record(
    name: &str,
    options: &[&str],
    program: &Path,
    arguments: &[&str],
) -> Result<Option<PathBuf>, Failure> {
    if run::which("perf").is_none() {
        return Ok(None);
    }
    let data = folder()?.join(name);
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock:u"]).args(options).arg("-o").arg(&data);
    record.arg("--").arg(program).args(arguments);
    Ok(run::step("perf record", &mut record).is_ok().then_some(data))
}
