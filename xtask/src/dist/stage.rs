//! The files of the command as they are installed: programs, manual pages, completions, licences.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Dist, remake};
use crate::{Failure, Outcome, run, workspace};

/// Where each shell looks for completions, below `share/`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/flamelet"),
    ("zsh", "zsh/site-functions/_flamelet"),
    ("fish", "fish/vendor_completions.d/flamelet.fish"),
];
/// Files of the repository that come along.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// Files that were made for the release and come along.
const MADE: [&str; 2] = ["THIRD-PARTY.txt", "bom.cdx.json"];

/// The programs of the package.
pub(super) const PROGRAMS: [&str; 2] = ["flamelet", "cargo-flamelet"];

/// A folder with `bin/` and `share/`.
pub(super) struct Stage {
    pub(super) folder: PathBuf,
}

impl Stage {
    pub(super) fn new(dist: &Dist) -> Result<Self, Failure> {
        let stage = Self { folder: workspace::target().join("dist-stage") };
        remake(&stage.folder)?;
        stage.programs(dist)?;
        let flamelet = stage.folder.join("bin/flamelet");
        run::output(Command::new(&flamelet).arg("man").arg(stage.folder.join("share/man/man1")))?;
        for (shell, place) in COMPLETIONS {
            let script = run::output(Command::new(&flamelet).args(["completions", shell]))?;
            write(&stage.folder.join("share").join(place), script.as_bytes())?;
        }
        let own = DOCUMENTS.iter().map(|name| workspace::root().join(name));
        for from in own.chain(MADE.iter().map(|name| dist.path(name))) {
            let name = from.file_name().unwrap_or_default();
            copy(&from, &stage.folder.join("share/doc/flamelet").join(name))?;
        }
        Ok(stage)
    }

    /// Copies the programs without their debug information, which is ten times their size; names stay.
    fn programs(&self, dist: &Dist) -> Outcome {
        for name in PROGRAMS {
            let to = self.folder.join("bin").join(name);
            copy(&dist.programs.join(name), &to)?;
            run::output(Command::new("objcopy").arg("--strip-debug").arg(&to))?;
        }
        Ok(())
    }
}

pub(super) fn copy(from: &Path, to: &Path) -> Outcome {
    make_parent(to)?;
    let copied = std::fs::copy(from, to).map(drop);
    copied.map_err(|error| Failure::failed(format!("{}: {error}", from.display())))
}

pub(super) fn write(to: &Path, bytes: &[u8]) -> Outcome {
    make_parent(to)?;
    std::fs::write(to, bytes).map_err(|error| Failure::failed(format!("{}: {error}", to.display())))
}

fn make_parent(path: &Path) -> Outcome {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
}
