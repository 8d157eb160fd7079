//! Checks that the crates that services link compile for the other machines whose standard library is installed.
//!
//! `rustup target add NAME` installs one. Without rustup, Debian's `libstd-rust-dev:arm64` beside its own rustc does,
//! and `qemu-user` then runs the tests too; see CONTRIBUTING.md.

use crate::tally::Tally;
use crate::{Outcome, run, workspace};

/// The first can sample; the others must build and report "not supported here".
const TARGETS: [&str; 3] = ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "x86_64-pc-windows-gnu"];
const LINKED_BY_SERVICES: [&str; 3] = ["flamelet-unwind", "flamelet-capture", "flamelet"];

/// Checks every installed target; the others are reported as skipped.
pub(super) fn check(tally: &mut Tally) -> Outcome {
    for target in TARGETS {
        if !workspace::library_folder(target)?.is_dir() {
            let reason =
                format!("SKIP: {target}: its standard library is not installed (rustup target add {target})");
            tally.skip("other machines", &reason);
            continue;
        }
        let mut command = workspace::cargo();
        command.args(["check", "--quiet", "--target", target]);
        for package in LINKED_BY_SERVICES {
            command.args(["--package", package]);
        }
        run::step(target, command.env("RUSTFLAGS", "--deny warnings"))?;
    }
    Ok(())
}
