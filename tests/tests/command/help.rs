//! The command explains itself, and brings its own completions and manual.

use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

/// The verbs that the top-level help lists.
fn verbs() -> Vec<String> {
    let help = run_flamelet(["--help"]).stdout;
    let list = help.split("Commands:").nth(1).expect("a list of commands");
    let lines = list.lines().skip(1).take_while(|line| line.starts_with("  "));
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_verb_has_help() {
    let verbs = verbs();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs.iter().filter(|verb| *verb != "pprof") {
        let answer = run_flamelet([verb, "--help"]);
        assert_eq!(answer.status, Some(0), "{verb}: {}", answer.stderr);
        assert!(answer.stdout.contains("Usage:"), "{verb}: {}", answer.stdout);
    }
}

#[test]
fn version_says_its_name() {
    let answer = run_flamelet(["--version"]);
    assert_eq!(answer.status, Some(0));
    assert!(answer.stdout.starts_with("flamelet "), "{}", answer.stdout);
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let answer = run_flamelet(["completions", shell]);
        assert_eq!(answer.status, Some(0), "{shell}: {}", answer.stderr);
        assert!(answer.stdout.contains("flamelet") && answer.stdout.contains("tagfocus"), "{shell}");
    }
}

#[test]
fn manual_pages() {
    let folder = profiles::scratch().join("man");
    let answer = run_flamelet(["man".as_ref(), folder.as_os_str()]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let page = std::fs::read_to_string(folder.join("flamelet.1")).expect("flamelet.1");
    assert!(page.contains(".TH"), "{page:.200}");
    for verb in verbs() {
        assert!(folder.join(format!("flamelet-{verb}.1")).is_file(), "no page for {verb}");
    }
}
