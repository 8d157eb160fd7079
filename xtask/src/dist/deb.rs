//! The Debian package.

use std::path::Path;
use std::process::Command;

use super::stage::{Stage, write};
use super::{Dist, remake};
use crate::{Failure, Outcome, run, workspace};

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: flamelet

Files: *
Copyright: the authors of flamelet
License: MIT or Apache-2.0
Comment: The texts are in LICENSE-MIT and LICENSE-APACHE beside this file, those of the crates inside in THIRD-PARTY.txt.
";

/// Builds the package of the staged files.
pub(super) fn build(dist: &Dist, stage: &Stage) -> Outcome {
    let root = workspace::target().join("dist-deb");
    remake(&root)?;
    let usr = root.join("usr");
    run::output(Command::new("cp").arg("--recursive").arg(&stage.folder).arg(&usr))?;
    compress_pages(&usr.join("share/man/man1"))?;
    write(&usr.join("share/doc/flamelet/copyright"), COPYRIGHT.as_bytes())?;
    let architecture = architecture(&dist.target)?;
    let size = run::output(Command::new("du").args(["--summarize", "--block-size=1024"]).arg(&usr))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let libc = needed_libc(&usr.join("bin/flamelet"))?;
    let control = control(&dist.version, architecture, size, &libc);
    write(&root.join("DEBIAN/control"), control.as_bytes())?;
    run::output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let file = dist.path(&format!("flamelet_{}_{architecture}.deb", dist.version));
    let mut build = Command::new("dpkg-deb");
    // Times of files are the same for everybody, as in the tarball.
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&file).env("SOURCE_DATE_EPOCH", "0");
    run::step("the Debian package", &mut build)
}

fn control(version: &str, architecture: &str, kilobytes: &str, libc: &str) -> String {
    format!(
        "Package: flamelet\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: the authors of flamelet <noreply@localhost>\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= {libc}), libgcc-s1\n\
         Section: devel\n\
         Priority: optional\n\
         Description: profiler for Rust services\n \
         Records processes, opens every common profile format, compares and checks\n \
         profiles, and shows them in a terminal and in a browser.\n"
    )
}

fn architecture(target: &str) -> Result<&'static str, Failure> {
    match target.split('-').next() {
        Some("x86_64") => Ok("amd64"),
        Some("aarch64") => Ok("arm64"),
        _ => Err(Failure::unusable(format!("{target}: flamelet has no Debian package for it"))),
    }
}

/// Returns the newest version of the C library that a program requires.
fn needed_libc(program: &Path) -> Result<String, Failure> {
    let symbols = run::output(Command::new("objdump").arg("-T").arg(program))?;
    let newest = newest_libc(&symbols);
    newest.ok_or_else(|| Failure::failed(format!("{} uses no C library", program.display())))
}

fn newest_libc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1);
    let versions =
        versions.map(|rest| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or(""));
    let parts =
        |version: &&str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    versions.max_by_key(parts).map(str::to_owned)
}

fn compress_pages(folder: &Path) -> Outcome {
    let pages = std::fs::read_dir(folder).map_err(|error| Failure::failed(error.to_string()))?;
    let pages = pages.flatten().map(|entry| entry.path());
    run::output(Command::new("gzip").args(["--best", "--no-name"]).args(pages)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_2.34) dlsym\n0 (GLIBC_2.9) x\n0 (GCC_3.0) y\n";
        assert_eq!(newest_libc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_libc("nothing"), None);
    }

    #[test]
    fn the_control_file_has_one_field_a_line() {
        let control = control("1.2.3", "amd64", "7", "2.34");
        assert!(control.contains("\nVersion: 1.2.3\nArchitecture: amd64\n"), "{control}");
        assert!(control.contains("\nDepends: libc6 (>= 2.34), libgcc-s1\n"), "{control}");
        assert!(control.contains("services\n Records") && control.contains("checks\n profiles"), "{control}");
    }
}
