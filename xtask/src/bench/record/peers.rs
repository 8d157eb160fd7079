//! The peers, built once from crates.io into target/bench/tools.

use std::path::{Path, PathBuf};

use crate::{Failure, run, workspace};

/// samply and cargo-flamegraph's `flamegraph`; one that is not available is reported and left out.
pub(super) struct Peers {
    pub(super) samply: Option<PathBuf>,
    pub(super) flamegraph: Option<PathBuf>,
    pub(super) has_perf: bool,
}

impl Peers {
    pub(super) fn prepare(folder: &Path) -> Self {
        let has_perf = run::which("perf").is_some();
        if !has_perf {
            eprintln!("SKIP: perf and cargo-flamegraph, because perf is not installed (Debian: linux-perf)");
        }
        Self {
            samply: installed(folder, "samply", "samply"),
            flamegraph: installed(folder, "flamegraph", "flamegraph").filter(|_| has_perf),
            has_perf,
        }
    }
}

fn installed(folder: &Path, package: &str, program: &str) -> Option<PathBuf> {
    let root = folder.join("tools");
    let built = root.join("bin").join(program);
    // A lock file may name a version that was yanked; then cargo chooses.
    for locked in [true, false] {
        if built.is_file() {
            break;
        }
        let mut install = workspace::cargo();
        install.args(["install", "--quiet", "--root"]).arg(&root).arg(package);
        install.args(locked.then_some("--locked"));
        let title = format!("building {package} from crates.io");
        if let Err(Failure { message, .. }) = run::step(&title, &mut install) {
            eprintln!("   {message}");
        }
    }
    if !built.is_file() {
        eprintln!("SKIP: {package}, which cannot be built here");
        return None;
    }
    Some(built)
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Lowers `kernel.perf_event_paranoid` for samply, which wants that even from root. It is restored on drop.
pub(super) struct Permission {
    before: Option<String>,
}

impl Permission {
    pub(super) fn take() -> Self {
        let before = std::fs::read_to_string(PARANOID).ok();
        let is_high = before
            .as_deref()
            .and_then(|level| level.trim().parse::<i32>().ok())
            .is_some_and(|level| level > 1);
        let lowered = is_high && std::fs::write(PARANOID, "1").is_ok();
        Self { before: before.filter(|_| lowered) }
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(PARANOID, before);
        }
    }
}
