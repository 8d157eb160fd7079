//! Checks that crates compile for the other machines whose standard library is installed or can be downloaded: those that
//! services link everywhere, and the command on macOS.
//!
//! Nothing is linked or run: this is a type check. C sources of dependencies are not compiled either, because that needs the
//! other system's headers; a script stands in for the compiler, so that their build scripts succeed.
//!
//! Without rustup, Debian's `libstd-rust-dev:arm64` beside its own rustc installs a library, and `qemu-user` then runs the
//! tests too; see CONTRIBUTING.md.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

const LIBRARY: &[&str] =
    &["--package", "flamelet-unwind", "--package", "flamelet-capture", "--package", "flamelet"];
const COMMAND: &[&str] = &["--package", "flamelet-cli"];
/// The command, and the library with the allocators that it can wrap.
const BOTH_WHOLE: &[&str] = &["--package", "flamelet", "--package", "flamelet-cli", "--all-features"];

/// Another machine, and the arguments of `cargo check` for it. The first can sample; on the others, starting a capture
/// returns an error.
struct Target {
    name: &'static str,
    /// Whether its standard library is downloaded if it is missing.
    is_expected: bool,
    check: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { name: "aarch64-unknown-linux-gnu", is_expected: false, check: LIBRARY },
    Target { name: "aarch64-apple-darwin", is_expected: true, check: BOTH_WHOLE },
    Target { name: "x86_64-apple-darwin", is_expected: true, check: COMMAND },
    Target { name: "x86_64-pc-windows-gnu", is_expected: false, check: LIBRARY },
];

/// Checks every target whose library can be had; the others are reported as skipped.
pub(super) fn check(tally: &mut Tally) -> Outcome {
    let compiler = StandIn::new()?;
    for target in TARGETS {
        let name = target.name;
        if !has_library(target)? {
            let reason =
                format!("SKIP: {name}: its standard library is not installed (rustup target add {name})");
            tally.skip("other machines", &reason);
            continue;
        }
        let mut cargo = workspace::cargo();
        cargo.args(["check", "--quiet", "--locked", "--target", name]).args(target.check);
        compiler.stand_in(&mut cargo, name);
        let title = format!("{name} {}", target.check.join(" "));
        run::step(&title, cargo.env("RUSTFLAGS", "--deny warnings"))?;
    }
    Ok(())
}

/// Returns whether the target's standard library is installed, after an attempt to install an expected one.
fn has_library(target: &Target) -> Result<bool, Failure> {
    let folder = workspace::library_folder(target.name)?;
    if target.is_expected && !folder.is_dir() && run::which("rustup").is_some() {
        // Fails without a network.
        let _ = run::output(Command::new("rustup").args(["target", "add", target.name]));
    }
    Ok(folder.is_dir())
}

/// Programs in place of a C compiler and an archiver for another system.
struct StandIn {
    program: PathBuf,
    library: PathBuf,
}

/// Creates the file after `-o`, or the archive after ar's letters.
const SCRIPT: &str = r#"#!/bin/sh
# Stands in for the C compiler and the archiver of another system: `cargo check` reads none of their files.
case "$1" in c*|s) : > "$2" ;; esac
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
"#;

impl StandIn {
    fn new() -> Result<Self, Failure> {
        let folder = workspace::target().join("other-machines");
        let stand_in = Self { program: folder.join("cc"), library: folder.join("libjemalloc.a") };
        stand_in.write(&folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        Ok(stand_in)
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        // Only if it is missing: a newer file would make cargo run the build scripts again.
        if !self.program.is_file() {
            std::fs::write(&self.program, SCRIPT)?;
            std::fs::set_permissions(&self.program, std::fs::Permissions::from_mode(0o755))?;
            std::fs::write(&self.library, "")?;
        }
        Ok(())
    }

    /// Makes the build scripts of a check use these programs.
    fn stand_in(&self, cargo: &mut Command, target: &str) {
        let target = target.replace('-', "_");
        cargo.env(format!("CC_{target}"), &self.program).env(format!("AR_{target}"), &self.program);
        cargo.env("JEMALLOC_OVERRIDE", &self.library).env("SDKROOT", "/");
    }
}
