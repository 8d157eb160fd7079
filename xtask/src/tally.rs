//! Counting what test runners print: passed, failed, skipped.

/// Sums over all suites.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and held.
    pub(crate) passed: u64,
    /// Tests that did not hold, and suites that did not run to their end.
    pub(crate) failed: u64,
    /// Tests that said `SKIP: why`.
    pub(crate) skipped: u64,
}

impl Tally {
    /// The sum of two tallies.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the output of `cargo test -- --show-output` line by line.
///
/// The output of tests that passed is wanted for its `SKIP:` lines only, so [`Watch::line`] says which lines
/// a person should see.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    tally: Tally,
    /// `SKIP:` lines, whose tests the runner counts as passed.
    said_skip: u64,
    in_successes: bool,
}

impl Watch {
    /// Takes one line in; true if it is worth showing.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if line.trim_start().starts_with("SKIP: ") {
            self.said_skip += 1;
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
        } else if let Some(count) = node_count(line, "pass") {
            self.tally.passed += count;
        } else if let Some(count) = node_count(line, "fail") {
            self.tally.failed += count;
        } else if let Some(count) = node_count(line, "skipped") {
            self.tally.skipped += count;
        }
        !self.in_successes
    }

    /// The counts of a suite that ended with `success`. A test that said `SKIP:` is not also a pass; a suite
    /// that broke without a failed test (it did not compile, it was killed) is one failure.
    pub(crate) fn finish(self, success: bool) -> Tally {
        let mut tally = self.tally;
        tally.passed = tally.passed.saturating_sub(self.said_skip);
        tally.skipped += self.said_skip;
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// The number that stands before `word` in cargo's "ok. 3 passed; 0 failed; …".
fn count_before(counts: &str, word: &str) -> u64 {
    let Some(end) = counts.find(word) else { return 0 };
    let digits = counts[..end].rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The count of node's own test runner: `ℹ pass 12` or `# pass 12`.
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

    #[test]
    fn cargo_results_of_all_binaries_are_summed() {
        let (_, watch) = watch(&[
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(watch.finish(false), Tally { passed: 15, failed: 2, skipped: 1 });
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
        assert_eq!(watch.finish(true), Tally { passed: 1, failed: 0, skipped: 1 });
    }

    #[test]
    fn failures_are_shown_after_successes() {
        let (shown, _) = watch(&["successes:", "quiet", "failures:", "---- b stdout ----", "left: 1"]);
        assert_eq!(shown, ["failures:", "---- b stdout ----", "left: 1"]);
    }

    #[test]
    fn a_suite_that_does_not_compile_is_one_failure() {
        let (_, watch) = watch(&["error[E0308]: mismatched types"]);
        assert_eq!(watch.finish(false), Tally { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn node_counts() {
        let (_, watch) = watch(&["ℹ tests 3", "ℹ pass 2", "ℹ fail 0", "ℹ skipped 1"]);
        assert_eq!(watch.finish(true), Tally { passed: 2, failed: 0, skipped: 1 });
    }
}
