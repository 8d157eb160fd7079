//! flamelet's own commands, run as `cargo xtask COMMAND`: a file or a folder for each command, and what
//! they share.
//!
//! Exit status: 0 success, 1 something failed, 2 wrong usage or a program that this machine lacks.

mod bench;
mod check;
mod dist;
mod fuzz;
mod gates;
mod golang;
mod peers;
mod pictures;
mod processes;
mod release;
mod run;
mod skips;
mod tally;
mod test;
mod tools;
mod wheels;
mod workspace;

use std::process::ExitCode;

/// A command, and the lines of the usage about it.
struct Command {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "  test [CARGO-TEST-ARGS]   install what the tests need, then run every test and every gate
       --quick             skip formatting, clippy, crate edges, module cycles and the gates
       --no-install        report what is missing instead of installing it
",
        run: test::run,
    },
    Command {
        name: "check",
        usage: "  check                    formatting, clippy, docs, crate edges, module cycles, feature combinations, other machines,
                           stale documents
",
        run: check::run,
    },
    Command {
        name: "gate",
        usage: "  gate [NAME...]           only these gates of `test` (default: all):
                           {gates}
",
        run: gates::run,
    },
    Command {
        name: "fuzz",
        usage: "  fuzz [TARGET...]         run fuzz targets (default: all), in parallel, and save crashes in fuzz/artifacts
       --minutes N         for this many minutes in total (default: 10)
",
        run: fuzz::run,
    },
    Command {
        name: "bench",
        usage: "  bench NAME [OPTIONS]     measure side by side with the peers, and write docs/benchmarks.md. Names:
                           {benches}
       --rounds N          report the median of N runs, an odd number (default: 3)
       --quick             tiny runs that only check that everything works
",
        run: bench::run,
    },
    Command {
        name: "dist",
        usage: "  dist                     make what a release needs under target/dist: crates, tarball, .deb, bill of materials
       --no-crates         leave out packaging and building every crate
       --no-build          take the command that target/release has
",
        run: dist::run,
    },
    Command {
        name: "pictures",
        usage: "  pictures                 draw the pictures of the documents again
",
        run: pictures::run,
    },
    Command {
        name: "release",
        usage: "  release VERSION          give every crate this version, and the changelog a heading for it
",
        run: release::run,
    },
    Command {
        name: "tools",
        usage: "  tools                    only install what the tests need, and print the environment they get
       --no-install        report what is missing instead of installing it
       --peers             also build the receiver for `--test peers`, into ~/.cache/flamelet (takes minutes), and
                           install an S3 server for the tests of buckets
",
        run: test::prepare_only,
    },
];

fn usage() -> String {
    let commands: String = COMMANDS.iter().map(|command| command.usage).collect();
    let commands = commands
        .replace("{gates}", &wrapped(&gates::names()))
        .replace("{benches}", &wrapped(&bench::names()));
    format!("usage: cargo xtask COMMAND\n\n{commands}")
}

/// Breaks a list of names into lines below the descriptions of the commands.
fn wrapped(names: &str) -> String {
    const WIDTH: usize = 80;
    let mut lines = vec![String::new()];
    for name in names.split_inclusive(", ") {
        if lines.last().is_some_and(|line| line.len() + name.len() > WIDTH) {
            lines.push(String::new());
        }
        lines.last_mut().into_iter().for_each(|line| line.push_str(name));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join(&format!("\n{:27}", ""))
}

/// The message and the exit status of a failed command.
#[derive(Debug)]
struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// A check failed.
    fn failed(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into() }
    }

    /// The command line, or the machine, does not allow the work to start.
    fn unusable(message: impl Into<String>) -> Self {
        Self { status: 2, message: message.into() }
    }
}

type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match COMMANDS.iter().find(|known| known.name == command) {
        Some(known) => (known.run)(rest),
        None if ["help", "--help", "-h"].contains(&command) => {
            print!("{}", usage());
            Ok(())
        }
        None => Err(Failure::unusable(format!("unknown command `{command}`\n\n{}", usage()))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_has_every_command_and_its_names() {
        let usage = usage();
        for command in COMMANDS {
            assert!(usage.contains(&format!("\n  {} ", command.name)), "{}\n{usage}", command.name);
        }
        assert!(
            !usage.contains('{') && usage.contains("clean-clone") && usage.contains("heap-record"),
            "{usage}"
        );
        assert!(usage.lines().all(|line| line.chars().count() <= 120), "{usage}");
    }

    /// Returns the words of a source that look like options: `--name` in quotes of their own.
    fn options(source: &str) -> impl Iterator<Item = &str> {
        let quoted = source.split('"').skip(1).step_by(2);
        quoted.filter(|word| word.starts_with("--") && word.len() > 3 && !word.contains(['=', ' ']))
    }

    /// The functions that read each command's arguments, and no others.
    #[test]
    fn the_usage_has_every_option_that_is_read() {
        let parsers = [
            ("test.rs", include_str!("test.rs")),
            ("fuzz.rs", include_str!("fuzz.rs")),
            ("bench", include_str!("bench/mod.rs")),
        ];
        for (file, source) in parsers {
            let start = source.find("fn parse(").expect("it reads arguments");
            let end = start + source[start..].find("\n}\n").expect("it ends");
            for option in options(&source[start..end]) {
                assert!(usage().contains(option), "{file} reads {option}");
            }
        }
    }
}
