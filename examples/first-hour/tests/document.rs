//! `docs/first-hour.md` is true: its commands run, and what it quotes is what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flamelet_tests::programs::{Answer, answer, command, flamelet, repository};

/// A command of the document, and what the document quotes of its output.
struct Step {
    command: String,
    quoted: Vec<String>,
}

/// The commands in shell blocks, each with the block of text that follows it.
fn steps() -> Vec<Step> {
    let text = std::fs::read_to_string(repository().join("docs/first-hour.md")).expect("the document");
    let mut steps: Vec<Step> = Vec::new();
    let mut block = "";
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_empty() { language } else { "" };
            continue;
        }
        match block {
            "sh" => steps.push(Step { command: line.to_owned(), quoted: Vec::new() }),
            "text" => steps.last_mut().expect("a command first").quoted.push(line.to_owned()),
            _ => {}
        }
    }
    assert!(steps.len() > 6, "the document has {} commands", steps.len());
    steps
}

fn folder(name: &str) -> PathBuf {
    let folder = flamelet_tests::profiles::scratch().join(name);
    std::fs::create_dir_all(&folder).expect("our own folder");
    folder
}

/// Runs a command of the document in `folder`, with the service that cargo built for this test.
fn run(step: &Step, folder: &Path) -> Answer {
    let mut words = step.command.split_whitespace().map(|word| match word {
        "flamelet" => flamelet().to_str().expect("UTF-8"),
        "target/release/first-hour" => env!("CARGO_BIN_EXE_first-hour"),
        // The service is not optimized here, and one request is enough.
        "100" => "1",
        word => word,
    });
    let program = words.next().expect("a program");
    answer(command(Path::new(program)).args(words).current_dir(folder))
}

/// Whether the command serves until it is ended.
fn is_viewer(step: &Step) -> bool {
    step.command.starts_with("flamelet view ")
}

#[test]
fn every_command_runs() {
    let folder = folder("first-hour-live");
    for step in steps() {
        if step.command.starts_with("cargo ") {
            assert_eq!(
                step.command, "cargo build --release -p first-hour",
                "cargo has built it for this test"
            );
            continue;
        }
        if is_viewer(&step) {
            view(&step, &folder);
            continue;
        }
        let said = run(&step, &folder);
        if step.command.contains(" record ") && said.status != Some(0) {
            flamelet_test_support::skip!("nothing can be recorded here: {}", said.stderr.trim());
            return;
        }
        assert_eq!(said.status, Some(0), "{}: {}", step.command, said.stderr);
        let all = format!("{}{}", said.stdout, said.stderr);
        match step.command.as_str() {
            "flamelet explain before.pb.gz" => {
                assert!(all.contains("regular expressions are compiled in a hot path"), "{all}");
                assert!(all.contains("first_hour::errors::compile"), "{all}");
            }
            "flamelet diff before.pb.gz after.pb.gz --explain" => {
                assert!(all.contains("Costs less:") && all.contains("first_hour::errors::compile"), "{all}");
            }
            service if service.starts_with("target/") => {
                assert!(all.contains("   28 /cart\n") && all.contains(" ms each"), "{all}");
            }
            _ => {}
        }
    }
}

/// Starts the viewer and reads the address that it prints.
fn view(step: &Step, folder: &Path) {
    let words = step.command.split_whitespace().skip(1).chain(["--no-browser"]);
    let mut viewer = Command::new(flamelet());
    viewer.args(words).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut viewer = viewer.spawn().expect("the command");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(viewer.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    viewer.kill().expect("it runs");
    viewer.wait().expect("it has ended");
    assert!(line.starts_with("http://127.0.0.1:"), "{line}");
}

/// The reports that the document quotes are of recordings in `testdata/`.
#[test]
fn what_is_quoted_is_what_is_printed() {
    let folder = folder("first-hour-quoted");
    for side in ["before", "after"] {
        let committed = repository().join(format!("testdata/first-hour-{side}.pb.gz"));
        std::fs::copy(committed, folder.join(format!("{side}.pb.gz"))).expect("a recording");
    }
    let mut count = 0;
    for step in steps().iter().filter(|step| step.command.starts_with("flamelet ")) {
        if is_viewer(step) || step.command.contains(" record ") {
            continue;
        }
        let said = run(step, &folder);
        assert_eq!(said.status, Some(0), "{}: {}", step.command, said.stderr);
        // The document leaves some lines out; those that it has come in this order.
        let mut printed = said.stdout.lines();
        for quoted in step.quoted.iter().filter(|line| *line != "…") {
            let is_printed = printed.any(|line| line.trim_end() == quoted.trim_end());
            assert!(is_printed, "{}: {quoted:?} is not in\n{}", step.command, said.stdout);
            count += 1;
        }
    }
    assert!(count > 10, "the document quotes {count} lines");
}
