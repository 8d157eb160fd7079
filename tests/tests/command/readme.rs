//! The commands that the README shows exist.

use flamelet_tests::programs::{repository, run_flamelet};

/// Lines of the README's shell blocks that call flamelet, as words.
fn shown_commands() -> Vec<Vec<String>> {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("README.md");
    let mut inside = false;
    let mut commands = Vec::new();
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = !inside && ["```sh", "```console", "```bash"].contains(&line.trim());
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        if inside && line.starts_with("flamelet ") {
            let code = line.split('#').next().unwrap_or(line);
            commands.push(code.split_whitespace().map(str::to_owned).collect());
        }
    }
    commands
}

#[test]
fn verbs_and_options_of_the_readme_exist() {
    let commands = shown_commands();
    assert!(!commands.is_empty(), "the README shows no command");
    for command in commands {
        let verb = &command[1];
        if verb.starts_with('-') || verb == "pprof" {
            continue;
        }
        let help = run_flamelet([verb, "--help"]);
        assert_eq!(help.status, Some(0), "`{}`: {}", command.join(" "), help.stderr);
        let ours = command.iter().take_while(|word| *word != "--" && *word != "|");
        for option in ours.filter(|word| word.starts_with("--")) {
            let name = option.split('=').next().unwrap_or(option);
            assert!(help.stdout.contains(name), "`{}`: {verb} has no {name}", command.join(" "));
        }
    }
}
