//! flamelet and pprof on the same files with the same options.

use std::path::{Path, PathBuf};

use crate::programs::{self, Answer};
use crate::rows;

/// How often pprof is run again before its answer counts as different. pprof breaks ties by the order of Go's maps, in which
/// one of two orders may come up in one run of eight: in 20 runs it is missing once in 14 times, in 100 once in a million.
const PPROF_RUNS: usize = 100;

/// How an answer is read before it is compared.
pub type Reading = fn(&str) -> Vec<String>;

/// Both programs, and all differences so far.
pub struct Duel {
    pprof: PathBuf,
    compared: usize,
    differences: Vec<String>,
}

impl Duel {
    /// Returns `None`, with a `SKIP:` line, on a machine without pprof.
    pub fn begin() -> Option<Self> {
        Some(Self { pprof: programs::pprof()?, compared: 0, differences: Vec::new() })
    }

    /// Compares the reports `reports` with each of the `options`, on each of the files.
    pub fn each(&mut self, files: &[PathBuf], reports: &[&str], options: &[&[&str]]) {
        for file in files {
            for report in reports {
                for options in options {
                    self.text(&[&[*report], *options].concat(), &[file]);
                }
            }
        }
    }

    /// Compares one text report.
    pub fn text(&mut self, arguments: &[&str], files: &[&Path]) {
        self.compare(arguments, files, rows::rows);
    }

    /// Compares one report, as read by `reading`.
    ///
    /// pprof prints rows with the same name and value in random order (it iterates over
    /// hash maps). So a difference counts only if none of several runs of pprof gives flamelet's answer, and,
    /// where those runs differ among themselves, only if the rows differ whatever their order.
    pub fn compare(&mut self, arguments: &[&str], files: &[&Path], reading: Reading) {
        let found = ask_flamelet(arguments, files);
        let expected = self.ask_pprof(arguments, files);
        let mut difference = difference(&expected, &found, reading);
        for _ in 0..PPROF_RUNS {
            if difference.is_none() {
                break;
            }
            let again = self.ask_pprof(arguments, files);
            if again.stdout == expected.stdout {
                continue;
            }
            let same_rows = sorted(&again, reading) == sorted(&found, reading);
            difference = self::difference(&again, &found, reading).filter(|_| !same_rows);
        }
        self.note(arguments, files, difference);
    }

    /// Checks that both programs refuse.
    pub fn both_refuse(&mut self, arguments: &[&str], files: &[&Path]) {
        let (expected, found) = (self.ask_pprof(arguments, files), ask_flamelet(arguments, files));
        assert_ne!(expected.status, Some(0), "pprof takes {arguments:?} and prints\n{}", expected.stdout);
        let taken = found.status == Some(0);
        self.note(arguments, files, taken.then(|| format!("    pprof    {}", last_line(&expected.stderr))));
    }

    /// Returns pprof's answer.
    pub fn ask_pprof(&self, arguments: &[&str], files: &[&Path]) -> Answer {
        programs::answer(programs::command(&self.pprof).args(arguments).args(files))
    }

    /// Records the difference between two given answers, if there is one.
    pub fn judge(
        &mut self,
        arguments: &[&str],
        files: &[&Path],
        answers: (&Answer, &Answer),
        reading: Reading,
    ) {
        self.note(arguments, files, difference(answers.0, answers.1, reading));
    }

    fn note(&mut self, arguments: &[&str], files: &[&Path], difference: Option<String>) {
        self.compared += 1;
        if let Some(difference) = difference {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            let line = format!("flamelet pprof {} {}", quoted(arguments), files.join(" "));
            self.differences.push(format!("{line}\n{difference}"));
        }
    }

    /// Fails and lists all differences, if there are any.
    pub fn end(self) {
        let count = self.differences.len();
        assert!(
            self.differences.is_empty(),
            "{count} of {} comparisons differ\n\n{}",
            self.compared,
            self.differences.join("\n")
        );
    }
}

/// Returns the answer of `flamelet pprof`.
pub fn ask_flamelet(arguments: &[&str], files: &[&Path]) -> Answer {
    programs::answer(programs::command(programs::flamelet()).arg("pprof").args(arguments).args(files))
}

/// Returns the difference between pprof's answer and flamelet's. If pprof refuses, the table of the test is wrong.
fn difference(expected: &Answer, found: &Answer, reading: Reading) -> Option<String> {
    if expected.status != Some(0) {
        return Some(format!("    pprof    refuses: {}\n", last_line(&expected.stderr)));
    }
    if found.status != Some(0) {
        return Some(format!("    flamelet exits with {:?}: {}\n", found.status, last_line(&found.stderr)));
    }
    rows::first_difference(&reading(&expected.stdout), &reading(&found.stdout))
}

/// Returns the rows in sorted order, without the running sum, which depends on pprof's order.
fn sorted(answer: &Answer, reading: Reading) -> Vec<String> {
    let mut rows: Vec<String> = reading(&answer.stdout).iter().map(|row| without_sum(row)).collect();
    rows.sort();
    rows
}

/// `flat flat% sum% cum cum% name` without its third word.
fn without_sum(row: &str) -> String {
    let words: Vec<&str> = row.split(' ').collect();
    match words.as_slice() {
        [flat, share, sum, rest @ ..] if share.ends_with('%') && sum.ends_with('%') => {
            format!("{flat} {share} {}", rest.join(" "))
        }
        _ => row.to_owned(),
    }
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or("(no message)")
}

/// Returns the arguments as a user would type them.
fn quoted(arguments: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.:,/".contains(c);
    let quote = |text: &&str| if text.chars().all(plain) { (*text).to_owned() } else { format!("'{text}'") };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
}
