//! Recording system calls: `flamelet record --syscalls` beside `strace -f -c`; a part of the benchmark `record`.

use std::process::Command;
use std::time::Duration;

use super::measure::cost;
use super::statistics::{median, seconds};
use crate::{Failure, run, workspace};

/// 20,500 calls each.
const REPEATS: &str = "20";

/// A line that says how long each took for the same calls, and whether the goal is reached.
pub(super) fn compare(
    flamelet: &std::path::Path,
    folder: &std::path::Path,
    rounds: usize,
) -> Result<Vec<String>, Failure> {
    if run::which("strace").is_none() {
        eprintln!("SKIP: system calls, because strace is not installed");
        return Ok(Vec::new());
    }
    let program = folder.join("calls");
    let mut build = Command::new("cc");
    build.args(["-O2", "-g", "-o"]).arg(&program);
    build.arg(workspace::root().join("crates/record/tests/programs/calls.c"));
    run::step("building the program of many system calls", &mut build)?;
    let (mut alone, mut strace, mut ours): (Vec<Duration>, Vec<Duration>, Vec<Duration>) = Default::default();
    let (table, profile) = (folder.join("calls.strace"), folder.join("calls.pb.gz"));
    for round in 1..=rounds {
        println!("   410,000 system calls, round {round} of {rounds}");
        alone.push(cost(Command::new(&program).arg(REPEATS))?.wall);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-c", "-o"]).arg(&table).arg(&program).arg(REPEATS);
        strace.push(cost(&mut traced)?.wall);
        let mut recorded = Command::new(flamelet);
        recorded.args(["record", "--syscalls", "-o"]).arg(&profile).arg("--").arg(&program).arg(REPEATS);
        ours.push(cost(&mut recorded)?.wall);
    }
    let (alone, strace, ours) = (median(alone), median(strace), median(ours));
    let ratio = strace.as_secs_f64() / ours.as_secs_f64();
    Ok(vec![format!(
        "410,000 system calls at a tenth of `strace -f -c`'s time or less: alone {}, strace {}, flamelet {} (start and \
         names included): {ratio:.1} times less, {}",
        seconds(alone),
        seconds(strace),
        seconds(ours),
        if ratio >= 10.0 { "reached" } else { "**missed**" }
    )])
}
