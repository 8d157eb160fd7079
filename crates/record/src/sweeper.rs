//! Cleans up after a recorder that was killed.
//!
//! A separate process waits for the other end of a pipe to close, which the kernel does however the recorder ends,
//! and then does the one thing that it was started for. It has its own process group, so that a signal from the
//! terminal that ends the recorder does not end it too.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits silently; cleans up unless it was dismissed.
const WAIT: &str = "trap '' HUP INT TERM; read -r dismissed || ";
const REMOVE_FOLDER: &str = "rm -rf -- \"$1\"";
/// Appends, because opening the kernel's list in any other way would remove all existing probes. A probe that is in
/// use cannot be removed, and the kernel closes the recorder's events at about the time it closes the pipe.
const APPEND_LINE: &str =
    "{ n=0; until printf '%s\\n' \"$2\" >> \"$1\" || [ $((n += 1)) -ge 100 ]; do sleep 0.1; done; }";

/// A process that cleans up when this process ends without dismissing it.
#[derive(Debug)]
pub(crate) struct Sweeper {
    child: Child,
}

impl Sweeper {
    /// Removes `folder`. Returns `None` if there is no shell; the next recording then cleans up.
    pub(crate) fn of_folder(folder: &Path) -> Option<Self> {
        Self::start(REMOVE_FOLDER, &[folder.as_os_str()])
    }

    /// Appends `line` to `file`.
    pub(crate) fn of_line(file: &Path, line: &str) -> Option<Self> {
        Self::start(APPEND_LINE, &[file.as_os_str(), OsStr::new(line)])
    }

    fn start(work: &str, arguments: &[&OsStr]) -> Option<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{WAIT}{work}")).arg("flamelet-sweeper").args(arguments);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // It needs neither the environment nor the working folder of the recording.
        shell.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").process_group(0);
        Some(Self { child: shell.spawn().ok()? })
    }

    /// Ends it: there is nothing to clean up any more.
    pub(crate) fn dismiss(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_when_the_pipe_closes_and_not_when_it_is_dismissed() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, list) = (place.path().join("a folder"), place.path().join("list"));
        std::fs::create_dir_all(folder.join("below")).expect("ours");
        std::fs::write(&list, "one\n").expect("ours");
        Sweeper::of_folder(&folder).expect("a shell").dismiss();
        assert!(folder.exists());
        for mut sweeper in
            [Sweeper::of_folder(&folder), Sweeper::of_line(&list, "-:two")].map(|it| it.expect("a shell"))
        {
            drop(sweeper.child.stdin.take());
            sweeper.child.wait().expect("it ends");
        }
        assert!(!folder.exists());
        assert_eq!(std::fs::read_to_string(&list).expect("there"), "one\n-:two\n");
    }
}
