//! Help and manual pages besides the options: examples, exit status, environment.

use clap::Command;

/// The help of a verb, or of the command itself.
#[derive(Default)]
pub(crate) struct Guide {
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// Command lines, and what each of them does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// A paragraph or a table after the examples.
    pub(crate) more: String,
    /// The meaning of the exit status, if there is more to say than [`EXIT_STATUS`].
    pub(crate) exit_status: Option<&'static str>,
    /// Arguments, by their ids, whose help differs from that in other verbs.
    pub(crate) own_help: Vec<(&'static str, String)>,
}

/// The exit status of most verbs.
pub(crate) const EXIT_STATUS: &str = "0 success, 2 bad usage or bad input.";

/// The environment variables that are read, and what they are for.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    ("PPROF_BINARY_PATH", "Folders to search for binaries and debug files [default: ~/pprof/binaries]."),
    ("PERF_BUILDID_DIR", "The binaries that perf has recorded, by build id [default: ~/.debug]."),
    ("DEBUGINFOD_URLS", "Servers for debug files by build id."),
    ("DEBUGINFOD_TIMEOUT", "Seconds to wait for such a server."),
    ("XDG_CACHE_HOME", "The cache for their files, in flamelet/ [default: ~/.cache]."),
    ("RUSTUP_HOME", "Where to find the source of the standard library [default: ~/.rustup]."),
    ("DISPLAY, WAYLAND_DISPLAY", "If either is set, view, demo, pprof -http and pprof -web open a browser."),
];

/// How wide an example may be to have its description next to it, and the width of a line.
const BESIDE: usize = 42;
const WIDEST: usize = 80;

impl Guide {
    /// Adds this help to a clap command.
    pub(crate) fn put_on(&self, command: Command) -> Command {
        let own = self.own_help.iter().cloned();
        let command = own.fold(command, |command, (id, help)| command.mut_arg(id, |arg| arg.help(help)));
        // The argument groups of a verb have doc comments too, which clap would print.
        command.about(self.about).long_about(None::<&str>).after_help(self.text())
    }

    /// Returns the part below the options.
    pub(crate) fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.examples.is_empty() {
            let lines: Vec<String> = self.examples.iter().map(|&(line, what)| example(line, what)).collect();
            parts.push(format!("Examples:\n{}", lines.join("\n")));
        }
        if !self.more.is_empty() {
            parts.push(self.more.clone());
        }
        parts.extend(self.exit_status.map(|status| format!("Exit status: {status}")));
        parts.join("\n\n")
    }
}

fn example(line: &str, what: &str) -> String {
    if what.is_empty() {
        format!("  {line}")
    } else if line.len() + 2 <= BESIDE && 2 + BESIDE + what.chars().count() <= WIDEST {
        format!("  {line:<BESIDE$}{what}")
    } else {
        format!("  {line}\n      {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_about_names_has_the_variables_of_the_manual_pages() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/symbols.md");
        let text = std::fs::read_to_string(path).expect("docs/symbols.md");
        let rows = text.lines().skip_while(|line| !line.starts_with("| variable |")).skip(2);
        let rows = rows.map_while(|line| line.strip_prefix("| `")?.split_once('`'));
        let documented: Vec<&str> = rows.map(|(name, _)| name).collect();
        // The last is about browsers.
        let (_, ours) = ENVIRONMENT.split_last().expect("some variables");
        assert_eq!(documented, ours.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
