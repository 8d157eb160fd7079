//! Runs the tests of code that is `unsafe` or reads untrusted files under LLVM's address sanitizer.
//!
//! The stable compiler has it, behind an unstable switch. The preloaded library is not tested: it and the sanitizer
//! both replace `malloc`, and only one can. The parts that it counts with (`preload-ledger`, the distances between
//! samples) are.

use crate::tally::Tally;
use crate::{Failure, Outcome, test, workspace};

/// Crates whose tests are built together, so that what they depend on is built once; which of their tests run, and which are
/// left out.
struct Suite {
    packages: &'static [&'static str],
    tests: &'static [&'static str],
    /// Tests whose results the sanitizer itself changes.
    without: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite {
        packages: &[
            "flamelet-unwind",
            "flamelet-preload-ledger",
            "flamelet-profile",
            "flamelet-formats",
            "flamelet-symbol",
        ],
        tests: &[
            "--lib",
            "--test=live",
            "--test=codec",
            "--test=combine",
            "--test=hostile",
            "--test=known_answers",
            "--test=round_trip",
            "--test=lookup",
        ],
        // Its filter forbids a system call that the sanitizer makes when a thread ends.
        without: &["live::stack::tests::where_pages_cannot_be_checked_there_is_none"],
    },
    Suite { packages: &["flamelet-preload"], tests: &["--test=distances"], without: &[] },
    Suite {
        packages: &["flamelet-capture"],
        tests: &[
            "--lib",
            "--test=storms",
            "--test=heap_known_answers",
            "--test=heap_layouts",
            "--test=foreign_stack",
            "--test=own_sigprof",
            "--test=loaded_later",
            "--test=dlopened",
            "--test=full_buffer",
        ],
        without: &[],
    },
];

/// Walking a stack reads words that belong to no variable, so the sanitizer must not guard the gaps between
/// variables.
const FLAGS: &str = "-Zsanitizer=address -Cllvm-args=-asan-stack=0";

/// The sanitizer's options: it looks for leaks by tracing the process, which containers forbid.
pub(crate) const OPTIONS: &str = "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32";

pub(super) fn check(tally: &mut Tally) -> Outcome {
    if !is_there()? {
        tally.skip("sanitizer", "SKIP: this Rust comes without the address sanitizer's library");
        return Ok(());
    }
    let host = workspace::host()?;
    for suite in SUITES {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--no-fail-fast", "--color=never", "--target", &host, "--target-dir"]);
        cargo.arg(workspace::target().join("sanitizer"));
        suite.packages.iter().for_each(|name| {
            cargo.args(["--package", name]);
        });
        cargo.args(suite.tests).args(["--", "--show-output"]);
        suite.without.iter().for_each(|name| {
            cargo.args(["--skip", name]);
        });
        cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS).env("ASAN_OPTIONS", OPTIONS);
        // Without optimization, readers take minutes for the inputs of the tests with hostile files.
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        tally.add(test::suite(&suite.packages.join(", "), &mut cargo, &Vec::new())?);
    }
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed(format!("{} tests failed", tally.failed))) }
}

/// Returns whether the compiler has the sanitizer's library, as rustup's do for Linux.
pub(crate) fn is_there() -> Result<bool, Failure> {
    let folder = workspace::library_folder(&workspace::host()?)?;
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    Ok(files.map(|file| file.file_name()).any(|name| name.to_string_lossy().ends_with("_rt.asan.a")))
}
