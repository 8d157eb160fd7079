//! The programs that the tests need besides flamelet, and the Debian packages they come in.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Failure, Outcome, run, workspace};

/// A program that the tests in some folder start.
struct Need {
    /// The command to look for in `PATH`.
    command: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    /// The folder whose tests need it; without the folder, it is not required.
    used_by: &'static str,
}

const fn need(command: &'static str, package: &'static str, used_by: &'static str) -> Need {
    Need { command, package, used_by }
}

/// Every external program, by the part that needs it.
const NEEDS: &[Need] = &[
    need("cc", "gcc", "xtask"),
    need("python3", "python3", "xtask"),
    need("pip3", "python3-pip", "xtask"),
    need("objcopy", "binutils", "crates/symbol"),
    need("g++", "g++", "crates/symbol"),
    need("xz", "xz-utils", "crates/symbol"),
    need("dwz", "dwz", "crates/symbol"),
    need("zstd", "zstd", "crates/formats"),
    need("curl", "curl", "crates/flamelet"),
    need("perf", "linux-perf", "crates/formats"),
    need("valgrind", "valgrind", "crates/formats"),
    need("heaptrack", "heaptrack", "crates/formats"),
    need("jeprof", "libjemalloc-dev", "crates/formats"),
    need("strace", "strace", "crates/formats"),
    need("bpftrace", "bpftrace", "crates/formats"),
    need("tmux", "tmux", "crates/cli"),
    need("kill", "procps", "tests"),
    need("script", "bsdutils", "tests"),
    need("mount", "mount", "crates/flamelet"),
    need("node", "nodejs", "crates/formats"),
    need("npm", "npm", "crates/formats"),
    need("chromium", "chromium", "crates/formats"),
    need("node", "nodejs", "ui"),
    need("npm", "npm", "ui"),
    need("chromium", "chromium", "ui"),
];

/// Returns the packages of the programs that this machine lacks, each once.
fn missing_packages() -> Vec<&'static str> {
    let mut packages = Vec::new();
    for need in NEEDS.iter().filter(|need| workspace::root().join(need.used_by).exists()) {
        if run::which(need.command).is_none() && !packages.contains(&need.package) {
            packages.push(need.package);
        }
    }
    packages
}

/// Makes every needed program available: as root with apt, else by saying exactly what to type.
pub(crate) fn install(allowed: bool) -> Outcome {
    let packages = missing_packages();
    if packages.is_empty() {
        return Ok(());
    }
    install_packages(&packages, allowed)?;
    let still = missing_packages();
    if still.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(format!("installed, but their commands are not in PATH: {}", still.join(" "))))
    }
}

/// Installs Debian packages by name.
pub(crate) fn install_packages(packages: &[&str], allowed: bool) -> Outcome {
    let line = format!("apt-get install --yes --no-install-recommends {}", packages.join(" "));
    if !allowed || !is_root() || run::which("apt-get").is_none() {
        return Err(Failure::unusable(format!(
            "the tests need programs that are not installed. As root:\n  apt-get update && {line}"
        )));
    }
    update_lists()?;
    run::step(&line, apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Updates the package lists, in up to three tries: the machine itself may hold the lists, for which apt-get does not
/// wait, and mirrors may change during the update.
fn update_lists() -> Outcome {
    let update = || run::step("apt-get update", apt_get().arg("update"));
    let again = |_| {
        std::thread::sleep(Duration::from_secs(30));
        update()
    };
    update().or_else(again).or_else(again)
}

/// Returns an apt-get that waits for a fresh machine's own updates and retries failed connections.
fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=5", "--quiet"]);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Returns whether this process may install packages.
pub(crate) fn is_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
