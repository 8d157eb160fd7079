//! Help, completions and man pages.

use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

/// The verbs that the top-level help lists.
pub(crate) fn verbs() -> Vec<String> {
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
        assert!(
            answer.stdout.contains(&format!("Examples:\n  flamelet {verb}")),
            "{verb}: {}",
            answer.stdout
        );
    }
}

/// Returns the heading that the option is listed under, and its line in the help.
fn placed(help: &str, option: &str) -> (String, String) {
    let mut heading = String::new();
    for (at, line) in help.lines().enumerate() {
        if !line.starts_with(' ') && line.ends_with(':') {
            heading = line.trim_end_matches(':').to_owned();
        }
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).take(3).collect();
        if words.first().is_some_and(|word| word.starts_with('-')) && words.contains(&option) {
            let rest = help.lines().skip(at + 1).take_while(|line| !line.trim_start().starts_with('-'));
            let text = std::iter::once(line).chain(rest).collect::<Vec<_>>().join(" ");
            return (heading, text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    panic!("no {option} in {help}");
}

/// A heading that leaks from a shared group would hide an option among others.
#[test]
fn options_stand_where_they_belong() {
    for (verb, option, heading) in [
        ("flame", "--format", "Picture"),
        ("flame", "--title", "Picture"),
        ("check", "--max-growth", "Verdict"),
        ("check", "--min-share", "Verdict"),
        ("heap", "--growth", "What to show"),
        ("heap", "--output", "Options"),
        ("heap", "--json", "Options"),
        ("top", "--compact-labels", "Options"),
        ("top", "--max-memory", "Options"),
        ("top", "--focus", "Filter"),
        ("top", "--nodecount", "Trim"),
        ("list", "--source-path", "Symbols"),
    ] {
        let help = run_flamelet([verb, "--help"]).stdout;
        assert_eq!(placed(&help, option).0, heading, "{verb} {option}");
    }
}

#[test]
fn defaults_are_in_the_help() {
    for (verb, option, default) in [
        ("top", "--seconds", "[default: 30 for CPU profiles]"),
        ("view", "--seconds", "[default: 10]"),
        ("heap", "--seconds", "[default: 10 for --growth]"),
        ("top", "--timeout", "[default: 1.5 times"),
        ("top", "--nodecount", "[default: all]"),
        ("tree", "--nodecount", "[default: 80]"),
        ("graph", "--nodecount", "[default: 80]"),
        ("diff", "--nodecount", "[default: 40]"),
        ("heap", "--nodecount", "[default: 20]"),
        ("top", "--granularity", "[default: functions]"),
        ("heap", "--granularity", "[default: filefunctions]"),
        ("flame", "--image-width", "from 200 to 20000 [default: 1200]"),
        ("record", "--output", "[default: profile.pb.gz, with --heap heap.pb.gz]"),
        ("fetch", "--output", "profile-001.pb.gz"),
        ("recover", "--output", "[default: heap.pb.gz]"),
        ("merge", "--output", "[default: standard output"),
        ("demo", "--output", "[default: flamelet-demo]"),
    ] {
        let help = run_flamelet([verb, "--help"]).stdout;
        let (_, line) = placed(&help, option);
        assert!(line.contains(default), "{verb} {option}: {line}");
    }
}

#[test]
fn convert_lists_what_it_reads_and_writes() {
    let help = run_flamelet(["convert", "--help"]).stdout;
    for format in ["speedscope", "chrome-trace", "otlp-json", "massif", "heaptrack", "perf-data", "xctrace"] {
        assert!(help.contains(format), "{format}: {help}");
    }
}

#[test]
fn exit_statuses_are_in_the_help() {
    for (verb, words) in [
        ("check", &["1 something grew"][..]),
        ("record", &["that of the command", "--strict", "2 if flamelet failed"]),
        ("doctor", &["1 something is missing"]),
    ] {
        let help = run_flamelet([verb, "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let status = help.split("Exit status: ").nth(1).unwrap_or_else(|| panic!("{verb}: {help}"));
        words.iter().for_each(|word| assert!(status.contains(word), "{verb}: {status}"));
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
    for name in verbs().iter().map(|verb| format!("flamelet-{verb}")).chain(["flamelet".to_owned()]) {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).expect("a page");
        let title = page.lines().find(|line| line.starts_with(".TH")).expect("a title");
        assert!(title.contains(&format!("flamelet {}", env!("CARGO_PKG_VERSION"))), "{title}");
        for section in ["SYNOPSIS", "EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT", "\"SEE ALSO\""] {
            assert!(page.contains(&format!(".SH {section}")), "{name} has no {section}");
        }
        assert!(!page.contains(".SH EXTRA") && page.contains("DEBUGINFOD_URLS"), "{name}");
    }
    let pprof = std::fs::read_to_string(folder.join("flamelet-pprof.1")).expect("a page");
    assert!(pprof.contains("http=HOST:PORT"), "{pprof}");
}
