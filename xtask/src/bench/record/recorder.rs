//! The recorders, and their command lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Tools;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorder {
    /// No recorder: the baseline for the slowdown.
    Nothing,
    Flamelet,
    Samply,
    Perf,
    Flamegraph,
}

impl Recorder {
    /// Returns the available recorders.
    pub(super) fn all(tools: &Tools) -> Vec<Self> {
        let peers = &tools.peers;
        let wanted = [
            (Self::Flamelet, true),
            (Self::Samply, peers.samply.is_some()),
            (Self::Perf, peers.has_perf),
            (Self::Flamegraph, peers.flamegraph.is_some()),
        ];
        wanted.into_iter().filter(|(_, is_here)| *is_here).map(|(recorder, _)| recorder).collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nobody",
            Self::Flamelet => "`flamelet record`",
            Self::Samply => "`samply record`",
            Self::Perf => "`perf record --call-graph dwarf`",
            Self::Flamegraph => "cargo-flamegraph",
        }
    }

    /// Returns the file that it writes samples into.
    pub(super) fn file(self, tools: &Tools) -> PathBuf {
        tools.folder.join(match self {
            Self::Nothing => "record-nothing",
            Self::Flamelet => "record-flamelet.pb.gz",
            Self::Samply => "record-samply.json.gz",
            Self::Perf => "record-perf.data",
            // It always uses this name, in the folder where it runs.
            Self::Flamegraph => "perf.data",
        })
    }

    /// Returns a command that records the program appended to it, with its standard error in `errors`.
    pub(super) fn command(self, tools: &Tools, hertz: u32, errors: &Path) -> Command {
        let (hertz, file) = (hertz.to_string(), self.file(tools));
        let mut command = Command::new("sh");
        command.args(["-c", "exec 2>\"$0\"; exec \"$@\""]).arg(errors).current_dir(&tools.folder);
        match self {
            Self::Nothing => {}
            Self::Flamelet => {
                command.arg(&tools.flamelet).args(["record", "-F", &hertz, "-o"]).arg(file).arg("--");
            }
            Self::Samply => {
                // With its names in a file next to it; the other recorders have them in their file.
                let program = tools.peers.samply.as_deref().unwrap_or(Path::new("samply"));
                let options = ["record", "--save-only", "--unstable-presymbolicate", "-r", &hertz, "-o"];
                command.arg(program).args(options).arg(file).arg("--");
            }
            Self::Perf => {
                let options = ["record", "-F", &hertz, "-e", "cpu-clock:u", "--call-graph", "dwarf", "-o"];
                command.arg("perf").args(options).arg(file).arg("--");
            }
            Self::Flamegraph => {
                let program = tools.peers.flamegraph.as_deref().unwrap_or(Path::new("flamegraph"));
                command.arg(program).args(["-F", &hertz, "-o"]).arg(tools.picture()).arg("--");
            }
        }
        command
    }
}
