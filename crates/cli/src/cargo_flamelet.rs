//! `cargo flamelet run|test|bench`: builds with names and lines kept, and records the right binary.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
cargo flamelet builds a binary with names and lines kept and records it.

  cargo flamelet run   [--bin NAME | --example NAME] [cargo options] [--record OPTION]… [-- ARGS…]
  cargo flamelet test  [--test NAME | --lib] [cargo options] [-- ARGS…]
  cargo flamelet bench [--bench NAME] [cargo options] [-- ARGS…]

Options of `flamelet record` are given one word at a time after --record:
  cargo flamelet run --bin service --record -o --record cpu.html -- --port 3000";

fn main() -> ExitCode {
    // cargo calls `cargo-flamelet flamelet …`.
    let words: Vec<String> = std::env::args().skip(1).skip_while(|word| word == "flamelet").collect();
    match Plan::parse(&words) {
        Ok(Some(plan)) => plan.run().unwrap_or_else(|message| {
            eprintln!("cargo flamelet: {message}");
            ExitCode::from(2)
        }),
        Ok(None) => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("cargo flamelet: {message}");
            ExitCode::from(2)
        }
    }
}

/// What to build, how to record it, and with which arguments.
struct Plan {
    build: Vec<String>,
    record: Vec<String>,
    arguments: Vec<String>,
}

impl Plan {
    fn parse(words: &[String]) -> Result<Option<Self>, String> {
        let Some((verb, rest)) = words.split_first() else { return Ok(None) };
        let mut build: Vec<&str> = match verb.as_str() {
            "run" => vec!["build", "--release"],
            "test" => vec!["test", "--no-run", "--release"],
            "bench" => vec!["bench", "--no-run"],
            "help" | "-h" | "--help" => return Ok(None),
            other => return Err(format!("unknown verb '{other}': use run, test or bench")),
        };
        let (mut record, mut arguments) = (Vec::new(), Vec::new());
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--" => arguments = rest.by_ref().cloned().collect(),
                "--record" => {
                    record.push(rest.next().ok_or("--record needs an option of flamelet record")?.clone());
                }
                _ => build.push(word),
            }
        }
        Ok(Some(Self { build: build.into_iter().map(String::from).collect(), record, arguments }))
    }

    fn run(&self) -> Result<ExitCode, String> {
        let binary = self.built_binary()?;
        let flamelet = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("flamelet");
        let mut command = Command::new(flamelet);
        command.arg("record").args(&self.record).arg("--").arg(binary).args(&self.arguments);
        let status = command.status().map_err(|error| format!("flamelet: {error}"))?;
        Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
    }

    /// Builds, and returns the one executable that came out.
    fn built_binary(&self) -> Result<PathBuf, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut child = Command::new(cargo)
            .args(&self.build)
            .arg("--message-format=json-render-diagnostics")
            // Names and lines, without changing the user's manifest.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "limited")
            .env("CARGO_PROFILE_BENCH_DEBUG", "limited")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cargo: {error}"))?;
        let output = child.stdout.take().ok_or("cargo has no output")?;
        let binaries: Vec<PathBuf> = BufReader::new(output)
            .lines()
            .map_while(std::io::Result::ok)
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(&line).ok())
            .filter(|message| message["reason"] == "compiler-artifact")
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .collect();
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err("the build failed".into());
        }
        match binaries.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err("the build made no binary; name one with --bin, --example, --test or --bench".into()),
            several => {
                let names: Vec<_> = several.iter().filter_map(|path| path.file_name()?.to_str()).collect();
                Err(format!("the build made several binaries ({}); name one", names.join(", ")))
            }
        }
    }
}
