//! `cargo flamelet run|test|bench`: builds with names and lines kept, and records the right binary.

#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use]
#[allow(dead_code, reason = "the other program collects notes, too")]
mod note;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
cargo flamelet builds a binary with debug information and records it.

  cargo flamelet run   [--bin NAME | --example NAME] [cargo options] [--record OPTION]… [-- ARGS…]
  cargo flamelet test  [--test NAME | --lib] [cargo options] [--record OPTION]… [-- ARGS…]
  cargo flamelet bench [--bench NAME] [cargo options] [--record OPTION]… [-- ARGS…]

The build uses cargo's release profile (bench uses the bench profile); select another with --profile NAME. Debug
information is added for this build whatever the manifest says, and the manifest is not changed. Tests run in the
current folder, so call `cargo flamelet test` in the folder of their package, as cargo does.

Options of `flamelet record` are given one word at a time after --record:
  cargo flamelet run --bin service --record -o --record cpu.html -- --port 3000
  cargo flamelet run --profile quick-release --record --heap
  cargo flamelet test --test queries -- deletes_three_chunks";

const NAME_ONE: &str = "select one with --bin, --example, --lib, --test or --bench";

/// Settings that a recorded build needs, whatever its profile says, for functions, files, lines and inlined calls.
/// (Line tables only would leave the crate and module out of the names of inlined functions.)
const KEPT: [&str; 2] = ["debug=\"limited\"", "strip=\"none\""];

fn main() -> ExitCode {
    // cargo calls `cargo-flamelet flamelet …`.
    let words: Vec<String> = std::env::args().skip(1).skip_while(|word| word == "flamelet").collect();
    match CargoPlan::parse(&words) {
        Ok(Some(plan)) => plan.run().unwrap_or_else(|message| {
            note!("cargo flamelet: {message}");
            ExitCode::from(2)
        }),
        Ok(None) => {
            // A closed pipe is not an error.
            let _ = writeln!(std::io::stdout(), "{HELP}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            note!("cargo flamelet: {message}");
            ExitCode::from(2)
        }
    }
}

/// What to build, how to record it, and with which arguments.
struct CargoPlan {
    build: Vec<String>,
    /// A test or a benchmark is to be recorded: then cargo also builds the programs that it may call.
    is_test: bool,
    record: Vec<String>,
    arguments: Vec<String>,
}

impl CargoPlan {
    fn parse(words: &[String]) -> Result<Option<Self>, String> {
        let Some((verb, rest)) = words.split_first() else { return Ok(None) };
        let (verb, usual_profile): (&[&str], &str) = match verb.as_str() {
            "run" => (&["build"], "release"),
            "test" => (&["test", "--no-run"], "release"),
            "bench" => (&["bench", "--no-run"], "bench"),
            "help" | "-h" | "--help" => return Ok(None),
            other => return Err(format!("unknown verb '{other}': use run, test or bench")),
        };
        let (mut own, mut record, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        let mut profile = usual_profile.to_owned();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--" => arguments = rest.by_ref().cloned().collect(),
                "--record" => {
                    record.push(rest.next().ok_or("--record needs an option of flamelet record")?.clone());
                }
                "--profile" => profile.clone_from(rest.next().ok_or("--profile needs a name")?),
                "-r" | "--release" => "release".clone_into(&mut profile),
                _ => match word.strip_prefix("--profile=") {
                    Some(name) => name.clone_into(&mut profile),
                    None => own.push(word.clone()),
                },
            }
        }
        if verb.starts_with(&["bench"]) {
            // As cargo does; without it, benchmarks run only once, as tests.
            arguments.push("--bench".to_owned());
        }
        let mut build: Vec<String> = verb.iter().copied().map(String::from).collect();
        build.extend(["--profile".to_owned(), profile.clone()]);
        // Before the user's own arguments, so that their --config takes precedence.
        build.extend(
            KEPT.into_iter().flat_map(|kept| ["--config".to_owned(), format!("profile.{profile}.{kept}")]),
        );
        build.extend(own);
        Ok(Some(Self { build, is_test: verb != ["build"], record, arguments }))
    }

    fn run(&self) -> Result<ExitCode, String> {
        if !cfg!(target_os = "linux") {
            // Before the build, which may take minutes.
            return Err("records on Linux only; see `flamelet record --help`".to_owned());
        }
        let binary = self.built_binary()?;
        let flamelet = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("flamelet");
        let mut command = Command::new(flamelet);
        command.arg("record").args(&self.record).arg("--").arg(binary).args(&self.arguments);
        let status = command.status().map_err(|error| format!("flamelet: {error}"))?;
        Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
    }

    /// Builds, and returns the one executable that was built.
    fn built_binary(&self) -> Result<PathBuf, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut child = Command::new(cargo)
            .args(&self.build)
            .arg("--message-format=json-render-diagnostics")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cargo: {error}"))?;
        let output = child.stdout.take().ok_or("cargo has no output")?;
        let binaries: Vec<PathBuf> = BufReader::new(output)
            .lines()
            .map_while(std::io::Result::ok)
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(&line).ok())
            .filter(|message| message["reason"] == "compiler-artifact")
            .filter(|message| message["profile"]["test"] == self.is_test)
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .collect();
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err("the build failed".into());
        }
        match binaries.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(format!("the build produced no binary; {NAME_ONE}")),
            several => {
                let names: Vec<_> = several.iter().filter_map(|path| path.file_name()?.to_str()).collect();
                Err(format!("the build produced several binaries ({}); {NAME_ONE}", names.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        CargoPlan::parse(&words).expect("good").expect("not help").build.join(" ")
    }

    #[test]
    fn names_and_lines_are_kept_in_the_profile_that_is_built() {
        let release = "--profile release --config profile.release.debug=\"limited\" \
                       --config profile.release.strip=\"none\"";
        let quick = release.replace("release", "quick-release");
        assert_eq!(build("run --bin x"), format!("build {release} --bin x"));
        assert_eq!(build("run --release"), format!("build {release}"));
        assert_eq!(build("test -r --lib"), format!("test --no-run {release} --lib"));
        assert_eq!(build("run --profile quick-release"), format!("build {quick}"));
        assert_eq!(build("test --profile=quick-release"), format!("test --no-run {quick}"));
        assert_eq!(build("bench"), format!("bench --no-run {}", release.replace("release", "bench")));
    }

    #[test]
    fn what_belongs_to_the_program_and_to_record_is_not_cargos() {
        let words = ["run", "--record", "-o", "--record", "cpu.html", "--", "--profile", "x"];
        let plan = CargoPlan::parse(&words.map(String::from)).expect("good").expect("not help");
        assert_eq!(plan.record, ["-o", "cpu.html"]);
        assert_eq!(plan.arguments, ["--profile", "x"]);
        assert!(plan.build.iter().all(|word| word != "x"), "{:?}", plan.build);
        let plan =
            CargoPlan::parse(&["bench", "--", "one"].map(String::from)).expect("good").expect("not help");
        assert_eq!(plan.arguments, ["one", "--bench"]);
        for bad in [&["run", "--profile"][..], &["run", "--record"], &["fly"]] {
            let words: Vec<String> = bad.iter().copied().map(String::from).collect();
            assert!(CargoPlan::parse(&words).is_err(), "{bad:?}");
        }
    }
}
