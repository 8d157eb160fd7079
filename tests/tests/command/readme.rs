//! The commands that the documents show exist.

use std::collections::BTreeMap;

use flamelet_tests::programs::{repository, run_flamelet};

const DOCUMENTS: [&str; 15] = [
    "README.md",
    "docs/coming-from.md",
    "docs/commands.md",
    "docs/continuous.md",
    "docs/explain.md",
    "docs/first-hour.md",
    "docs/fleet.md",
    "docs/memory.md",
    "docs/permissions.md",
    "docs/reading.md",
    "docs/recipes.md",
    "docs/service.md",
    "docs/symbols.md",
    "docs/systems.md",
    "docs/waiting.md",
];

/// The calls of flamelet in shell blocks and between back-quotes of a document, as words.
fn shown_commands(document: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(repository().join(document)).expect(document);
    let mut block: Option<bool> = None;
    let mut commands = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(["sh", "console", "bash"].contains(&language)) };
            continue;
        }
        let pieces: Vec<&str> = match block {
            Some(true) => vec![line.split(" #").next().unwrap_or(line)],
            Some(false) => continue,
            None => line.split('`').skip(1).step_by(2).collect(),
        };
        let calls = pieces.into_iter().map(|piece| piece.trim().trim_start_matches("sudo "));
        let calls = calls.filter(|piece| piece.starts_with("flamelet ") && !piece.starts_with("flamelet ="));
        commands.extend(calls.map(|call| call.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
    }
    commands
}

#[test]
fn verbs_and_options_of_the_documents_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    for document in DOCUMENTS {
        let commands = shown_commands(document);
        assert!(!commands.is_empty(), "{document} shows no command");
        for command in commands {
            let verb = &command[1];
            if verb.starts_with('-') || verb == "pprof" {
                continue;
            }
            let shown = command.join(" ");
            let help = helps.entry(verb.clone()).or_insert_with(|| {
                let help = run_flamelet([verb, "--help"]);
                assert_eq!(help.status, Some(0), "{document}: `{shown}`: {}", help.stderr);
                help.stdout
            });
            let ours = command.iter().take_while(|word| *word != "--" && *word != "|");
            for option in ours.filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap_or(option);
                assert!(help.contains(name), "{document}: `{shown}`: {verb} has no {name}");
            }
        }
    }
}

#[test]
fn the_list_of_commands_names_every_verb() {
    let text = std::fs::read_to_string(repository().join("docs/commands.md")).expect("docs/commands.md");
    let shown = shown_commands("docs/commands.md");
    let is_named =
        |verb: &str| text.contains(&format!("`{verb}`")) || shown.iter().any(|command| command[1] == verb);
    let unnamed: Vec<String> = crate::help::verbs().into_iter().filter(|verb| !is_named(verb)).collect();
    assert_eq!(unnamed, Vec::<String>::new());
}
