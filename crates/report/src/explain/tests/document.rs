//! docs/explain.md is made from the rules.

use std::path::{Path, PathBuf};

use super::super::about::Subject;
use super::super::rule::Rule;
use super::RULES;

/// What the tests record, for each rule.
const PROGRAMS: &str = "tests/tests/yours/programs/pairs.txt";
const FIRST: &str =
    "| rule | profiles | what it reports | from | reported | not reported |\n|---|---|---|---|---|---|\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns what a rule reports in a test, and what it does not.
fn examples(rule: &Rule, programs: &str) -> (String, String) {
    let rows = programs.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let of_rule = rows.filter(|words| words[0] == rule.id && words.len() == 4);
    // A program with the flags of its compiler, or several routes of a service.
    let shown = |word: &str| format!("`{}`", word.replace(',', " ").replace('+', " + "));
    let (mut loud, mut quiet): (Vec<String>, Vec<String>) =
        of_rule.map(|words| (shown(words[2]), shown(words[3]))).unzip();
    assert!(!loud.is_empty(), "{PROGRAMS} has a pair for {}", rule.id);
    loud.dedup();
    quiet.dedup();
    (loud.join(", "), quiet.join(", "))
}

fn row(rule: &Rule, programs: &str) -> String {
    let profiles = match rule.about {
        Subject::Time => "CPU",
        Subject::Memory => "heap",
        Subject::Locks => "locks",
        Subject::Awaits => "awaits",
        Subject::Polls => "polls",
        Subject::Any => "any",
    };
    let from = if rule.least > 0.0 { format!("{:.0} %", rule.least * 100.0) } else { String::new() };
    let (loud, quiet) = examples(rule, programs);
    // A bar ends a cell.
    let cells = [rule.title, &from, &loud, &quiet].map(|cell| cell.replace('|', "\\|"));
    format!("| `{}` | {profiles} | {} |\n", rule.id, cells.join(" | "))
}

#[test]
fn the_document_has_every_rule() {
    let path = repository().join("docs/explain.md");
    let text = std::fs::read_to_string(&path).expect("docs/explain.md");
    let programs = std::fs::read_to_string(repository().join(PROGRAMS)).expect(PROGRAMS);
    let (before, rest) = text.split_once(FIRST).expect("docs/explain.md has the table");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let rows: String = RULES.iter().map(|rule| row(rule, &programs)).collect();
    let right = format!("{before}{FIRST}{rows}\n{after}");
    if std::env::var_os("FLAMELET_REGENERATE").is_some() {
        std::fs::write(&path, &right).expect("docs/explain.md can be written");
        return;
    }
    assert_eq!(text, right, "run `FLAMELET_REGENERATE=1 cargo test -p flamelet-report --lib document`");
}
