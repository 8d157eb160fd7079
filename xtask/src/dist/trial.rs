//! Unpacks what was made into empty folders, and runs it there without the repository's environment.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Dist, remake};
use crate::{Failure, Outcome, run, workspace};

pub(super) fn try_all(dist: &Dist) -> Outcome {
    run::heading("trying what was made");
    run::output(
        Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&dist.folder),
    )?;
    try_tarball(dist)?;
    try_deb(dist)?;
    let bill = std::fs::read_to_string(dist.path("bom.cdx.json"))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let bill: Value =
        serde_json::from_str(&bill).map_err(|error| Failure::failed(format!("the bill: {error}")))?;
    let count = bill["components"].as_array().map_or(0, Vec::len);
    println!("   checksums hold, {count} crates are on the bill");
    Ok(())
}

fn try_tarball(dist: &Dist) -> Outcome {
    let root = workspace::target().join("dist-try-tarball");
    remake(&root)?;
    let tarball = dist.path(&format!("{}.tar.gz", dist.name()));
    run::output(
        Command::new("tar").arg("--extract").arg("--file").arg(tarball).arg("--directory").arg(&root),
    )?;
    try_installed(dist, &root.join(dist.name()), "share/man/man1/flamelet-top.1")
}

fn try_deb(dist: &Dist) -> Outcome {
    let root = workspace::target().join("dist-try-deb");
    remake(&root)?;
    let packages = std::fs::read_dir(&dist.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let package = packages.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "deb"));
    let package = package.ok_or_else(|| Failure::failed("there is no Debian package"))?;
    let version = run::output(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Version"))?;
    expect(version.trim() == dist.version, &format!("the Debian package says it is {version}"))?;
    run::output(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root))?;
    try_installed(dist, &root.join("usr"), "share/man/man1/flamelet-top.1.gz")
}

/// Runs the programs below `prefix`, and looks for what comes with them.
fn try_installed(dist: &Dist, prefix: &Path, page: &str) -> Outcome {
    let flamelet = prefix.join("bin/flamelet");
    let said = run::output(alone(&flamelet, prefix).arg("--version"))?;
    expect(said.trim() == format!("flamelet {}", dist.version), &format!("it says it is {said}"))?;
    let profile = workspace::root().join("testdata/go-cpu.pb.gz");
    let top = run::output(alone(&flamelet, prefix).arg("top").arg(&profile))?;
    expect(top.contains("flat%"), "top shows nothing")?;
    // The libraries inside the command are those of this build.
    let recording = prefix.join("try.pb.gz");
    let mut record = alone(&flamelet, prefix);
    record.args(["record", "--heap", "-o"]).arg(&recording).args(["--", "ls", "/"]);
    run::output(&mut record)?;
    let heap = run::output(alone(&flamelet, prefix).args(["info"]).arg(&recording))?;
    expect(heap.contains("alloc_space"), "a recorded heap has no allocations")?;
    run::output(alone(&prefix.join("bin/cargo-flamelet"), prefix).args(["flamelet", "--help"]))?;
    for file in [page, "share/bash-completion/completions/flamelet", "share/doc/flamelet/LICENSE-MIT"] {
        expect(prefix.join(file).is_file(), &format!("{file} is missing in {}", prefix.display()))?;
    }
    println!("   {} works", prefix.display());
    Ok(())
}

/// A program without the environment of this build.
fn alone(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).current_dir(home);
    command
}

fn expect(holds: bool, else_say: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Failure::failed(else_say)) }
}
