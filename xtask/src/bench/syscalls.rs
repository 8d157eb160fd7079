//! Recording system calls: `flamelet record --syscalls` compared with `strace -f -c`; a part of the benchmark
//! `record`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::measure::cost;
use super::page::verdict;
use super::statistics::{median, seconds};
use crate::{Failure, run, workspace};

/// 20,500 calls each.
const REPEATS: &str = "20";

/// Returns lines that say how long each took for the same calls, whether the counts agree, and whether the goal is
/// reached.
pub(super) fn compare(flamelet: &Path, folder: &Path, rounds: usize) -> Result<Vec<String>, Failure> {
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
    let (mut lost, mut differ) = (0, 0);
    for round in 1..=rounds {
        println!("   410,000 system calls, round {round} of {rounds}");
        alone.push(cost(Command::new(&program).arg(REPEATS))?.wall);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-c", "-U", "calls,errors,name", "-o"]).arg(&table).arg(&program).arg(REPEATS);
        strace.push(cost(&mut traced)?.wall);
        let mut recorded = Command::new(flamelet);
        recorded.args(["record", "--syscalls", "-o"]).arg(&profile).arg("--").arg(&program).arg(REPEATS);
        ours.push(cost(&mut recorded)?.wall);
        let seen = run::output(Command::new(flamelet).args(["info"]).arg(&profile))?;
        lost += super::record::number_before(&seen, " lost").unwrap_or(0);
        let (theirs, seen) =
            (counted_by_strace(&std::fs::read_to_string(&table).unwrap_or_default()), counted_by_us(&seen));
        differ += theirs.iter().filter(|(name, count)| seen.get(*name) != Some(count)).count();
        if theirs.is_empty() {
            return Err(Failure::failed("strace counted nothing"));
        }
    }
    let (alone, strace, ours) = (median(alone), median(strace), median(ours));
    let share = ours.as_secs_f64() * 100.0 / strace.as_secs_f64();
    Ok(vec![
        format!(
            "410,000 system calls at a tenth of `strace -f -c`'s time or less: alone {}, strace {}, flamelet {} (start and \
             names included): {share:.1} %, {}",
            seconds(alone),
            seconds(strace),
            seconds(ours),
            verdict(share <= 10.0)
        ),
        format!(
            "… nothing lost, and the same counts and errors as strace for every call: {lost} lost, {differ} differ, {}",
            verdict(lost == 0 && differ == 0)
        ),
    ])
}

/// Returns calls and errors by name, from the table of `strace -c -U calls,errors,name`.
fn counted_by_strace(table: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&name, numbers) = words.split_last()?;
        let calls = numbers.first()?.parse().ok()?;
        let errors = numbers.get(1).map_or(Some(0), |errors| errors.parse().ok())?;
        (name != "total").then(|| (name.to_owned(), (calls, errors)))
    };
    table.lines().filter_map(row).collect()
}

/// Returns the same from the comments of a profile: `syscall NAME: N calls, N errors, …`.
fn counted_by_us(info: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let (name, rest) = line.split_once("syscall ")?.1.split_once(": ")?;
        let mut numbers = rest.split(", ").map(|part| part.split(' ').next()?.parse().ok());
        Some((name.to_owned(), (numbers.next()??, numbers.next()??)))
    };
    info.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables() {
        let strace = "    calls    errors syscall\n--------- --------- ----------------\n      502       500 openat\n\
                      \x20     12           mmap\n--------- --------- ----------------\n      514       500 total\n";
        let ours = "comment: syscall openat: 502 calls, 500 errors, 9 ns, p50 1 ns\nsyscall mmap: 12 calls, 0 errors, 5 ns\n";
        let expected = BTreeMap::from([("openat".to_owned(), (502, 500)), ("mmap".to_owned(), (12, 0))]);
        assert_eq!(counted_by_strace(strace), expected);
        assert_eq!(counted_by_us(ours), expected);
    }
}
