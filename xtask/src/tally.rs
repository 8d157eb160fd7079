//! Counts what test runners print: passed, failed, skipped.

/// A test that did not check what it is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The name of the test, or of its program.
    pub(crate) test: String,
    /// The text after `SKIP: `.
    pub(crate) reason: String,
}

/// Sums over all suites.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and passed.
    pub(crate) passed: u64,
    /// Tests that failed, and suites that did not run to their end.
    pub(crate) failed: u64,
    /// Tests that printed `SKIP: why`, or that the runner was told to leave out.
    pub(crate) skipped: u64,
    /// The skips with a reason.
    pub(crate) skips: Vec<Skip>,
}

impl Tally {
    /// Adds another tally.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.skips.extend(other.skips);
    }

    /// Reports that a part of xtask itself skips something, in a line that begins like those of tests.
    pub(crate) fn skip(&mut self, part: &str, line: &str) {
        eprintln!("{line}");
        self.skipped += 1;
        let reason = line.trim_start_matches("SKIP: ").to_owned();
        self.skips.push(Skip { test: part.to_owned(), reason });
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the output of `cargo test -- --show-output` line by line.
///
/// The output of tests that passed is needed for its `SKIP:` lines only, so [`Watch::line`] returns which lines to
/// show.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    tally: Tally,
    /// The source of the lines: a test, or a program that has no tests of its own.
    speaker: String,
    in_successes: bool,
    /// The test program that runs, and those that have ended with how many seconds each took.
    program: String,
    times: Vec<(f64, String)>,
}

impl Watch {
    /// Watches a part of xtask itself, which is the source of the lines before any test.
    pub(crate) fn of(part: &str) -> Self {
        Self { speaker: part.to_owned(), ..Self::default() }
    }

    /// Reads one line. Returns true if it is worth showing.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if let Some(reason) = line.trim_start().strip_prefix("SKIP: ") {
            let named = reason.strip_suffix(')').and_then(|reason| reason.rsplit_once(" ("));
            let (reason, test) = named.filter(|(_, test)| is_test(test)).unwrap_or((reason, &self.speaker));
            self.tally.skips.push(Skip { test: test.to_owned(), reason: reason.to_owned() });
            return true;
        }
        if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" {
            self.in_successes = false;
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            self.tally.passed += count_before(counts, " passed");
            self.tally.failed += count_before(counts, " failed");
            self.tally.skipped += count_before(counts, " ignored");
            self.times.extend(seconds(counts).map(|seconds| (seconds, self.program.clone())));
        } else if let Some(count) = node_count(line, "pass") {
            self.tally.passed += count;
        } else if let Some(count) = node_count(line, "fail") {
            self.tally.failed += count;
        } else if let Some(count) = node_count(line, "skipped") {
            self.tally.skipped += count;
        } else if let Some(speaker) = speaker(line) {
            speaker.clone_into(&mut self.speaker);
        }
        if let Some(program) = program(line) {
            self.program = program;
        }
        !self.in_successes
    }

    /// Returns a line for each of the programs that took longest, if there were many.
    pub(crate) fn slowest(&self) -> impl Iterator<Item = String> {
        const SHOWN: usize = 10;
        let mut times = self.times.clone();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        let shown = if times.len() > SHOWN { SHOWN } else { 0 };
        times.into_iter().take(shown).map(|(seconds, program)| format!("slow: {seconds:>4.0} s {program}"))
    }

    /// Returns the counts of a suite that ended with `success`. A test that printed `SKIP:` does not also count as
    /// passed; a suite that broke without a failed test (it did not compile, it was killed) is one failure.
    pub(crate) fn finish(self, success: bool) -> Tally {
        let mut tally = self.tally;
        let said_skip = tally.skips.len() as u64;
        tally.passed = tally.passed.saturating_sub(said_skip);
        tally.skipped += said_skip;
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// Returns whether this is the name of a test, as at the end of the line of `skip!`.
fn is_test(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

/// Returns the source of the output that follows: a test, after `---- NAME stdout ----`, or a program, after
/// `Running FILE (PROGRAM)`.
fn speaker(line: &str) -> Option<&str> {
    let test = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
    let program = || line.trim_start().strip_prefix("Running ")?.split(" (").next();
    test.or_else(program)
}

/// Returns the test program of `Running FILE (PROGRAM)` or `Doc-tests CRATE`, with its source, because several crates have
/// tests of the same name.
fn program(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line.to_owned());
    }
    let (source, program) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let name = program.rsplit('/').next()?.rsplit_once('-')?.0;
    Some(format!("{name} ({source})"))
}

/// Returns the duration in cargo's "…; finished in 1.20s".
fn seconds(counts: &str) -> Option<f64> {
    counts.split_once("finished in ")?.1.strip_suffix('s')?.parse().ok()
}

/// Returns the number before `word` in cargo's "ok. 3 passed; 0 failed; …".
fn count_before(counts: &str, word: &str) -> u64 {
    let Some(end) = counts.find(word) else { return 0 };
    let digits = counts[..end].rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the count of node's own test runner: `ℹ pass 12` or `# pass 12`.
fn node_count(line: &str, word: &str) -> Option<u64> {
    let rest = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# "))?;
    rest.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(lines: &[&str]) -> (Vec<String>, Watch) {
        let mut watch = Watch::default();
        let shown = lines.iter().filter(|line| watch.line(line)).map(|line| line.to_string()).collect();
        (shown, watch)
    }

    fn counts(tally: &Tally) -> (u64, u64, u64) {
        (tally.passed, tally.failed, tally.skipped)
    }

    #[test]
    fn cargo_results_of_all_binaries_are_summed() {
        let (_, watch) = watch(&[
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(counts(&watch.finish(false)), (15, 2, 1));
    }

    #[test]
    fn output_of_passed_tests_is_hidden_but_for_skips() {
        let (shown, watch) = watch(&[
            "test a ... ok",
            "successes:",
            "---- a stdout ----",
            "chatter",
            "SKIP: no perf here",
            "successes:",
            "    a",
            "test result: ok. 2 passed; 0 failed; 0 ignored",
        ]);
        assert_eq!(
            shown,
            ["test a ... ok", "SKIP: no perf here", "test result: ok. 2 passed; 0 failed; 0 ignored"]
        );
        let tally = watch.finish(true);
        assert_eq!(counts(&tally), (1, 0, 1));
        assert_eq!(tally.skips, [Skip { test: "a".to_owned(), reason: "no perf here".to_owned() }]);
    }

    #[test]
    fn skips_have_the_name_of_their_test() {
        let (_, watch) = watch(&[
            "     Running tests/single.rs (target/debug/deps/single-0a)",
            "SKIP: no ptrace",
            "SKIP: no go (`cargo xtask tools` prepares it)",
            "SKIP: no perf here (events::one_of_several)",
        ]);
        let tally = watch.finish(true);
        let skips: Vec<_> =
            tally.skips.iter().map(|skip| (skip.test.as_str(), skip.reason.as_str())).collect();
        let no_go = "no go (`cargo xtask tools` prepares it)";
        let of_program = [("tests/single.rs", "no ptrace"), ("tests/single.rs", no_go)];
        assert_eq!(skips, [&of_program[..], &[("events::one_of_several", "no perf here")]].concat());
    }

    #[test]
    fn failures_are_shown_after_successes() {
        let (shown, _) = watch(&["successes:", "quiet", "failures:", "---- b stdout ----", "left: 1"]);
        assert_eq!(shown, ["failures:", "---- b stdout ----", "left: 1"]);
    }

    #[test]
    fn a_suite_that_does_not_compile_is_one_failure() {
        let (_, watch) = watch(&["error[E0308]: mismatched types"]);
        assert_eq!(counts(&watch.finish(false)), (0, 1, 0));
    }

    #[test]
    fn the_ten_slowest_programs_are_told_slowest_first() {
        let mut lines = Vec::new();
        for at in 0..11 {
            lines.push(format!("     Running tests/a{at}.rs (target/debug/deps/a{at}-0a)"));
            lines.push(format!("test result: ok. 1 passed; 0 failed; finished in {at}.20s"));
        }
        lines.extend(["   Doc-tests flamelet".to_owned(), "test result: ok. finished in 9.50s".to_owned()]);
        let (_, watch) = watch(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let slowest: Vec<String> = watch.slowest().collect();
        assert_eq!((slowest.len(), slowest[0].as_str()), (10, "slow:   10 s a10 (tests/a10.rs)"));
        assert_eq!(slowest[1], "slow:   10 s Doc-tests flamelet");
        assert_eq!(slowest[9], "slow:    2 s a2 (tests/a2.rs)");
    }

    #[test]
    fn few_programs_are_not_told() {
        let (_, watch) = watch(&["test result: ok. 1 passed; 0 failed; finished in 3.20s"]);
        assert_eq!(watch.slowest().count(), 0);
    }

    #[test]
    fn node_counts() {
        let (_, watch) = watch(&["ℹ tests 3", "ℹ pass 2", "ℹ fail 0", "ℹ skipped 1"]);
        assert_eq!(counts(&watch.finish(true)), (2, 0, 1));
    }
}
