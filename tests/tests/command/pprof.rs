//! `flamelet pprof`: the flags that make pictures and pages, and its help. The reports are compared with pprof's own in
//! `differential`.

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, run_flamelet};

fn cpu() -> String {
    profiles::committed("go-cpu").display().to_string()
}

#[test]
fn svg_is_the_call_graph_as_in_pprof() {
    let graph = run_flamelet(["graph", "--all-frames", &cpu()]);
    assert_eq!(run_flamelet(["pprof", "-svg", &cpu()]).stdout, graph.stdout);
    let folded = run_flamelet(["graph", &cpu()]);
    assert!(folded.stdout.contains("[folded: std]") && !graph.stdout.contains("[folded: "));
    let flame = run_flamelet(["flame", "--title", "flamelet", &cpu()]);
    assert_eq!(run_flamelet(["pprof", "-flamegraph", &cpu()]).stdout, flame.stdout);
    assert!(graph.stdout != flame.stdout && flame.stdout.contains("<svg"));
}

#[test]
fn web_leaves_a_picture_for_the_browser() {
    let folder = profiles::scratch().join("pictures");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let mut run = command(flamelet());
    // Without a desktop: nothing is opened.
    run.env("TMPDIR", &folder).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let done = answer(run.args(["pprof", "-web", &cpu()]));
    assert_eq!((done.status, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    let path = done.stderr.split("Wrote ").nth(1).and_then(|rest| rest.split(';').next()).expect("a path");
    assert!(path.starts_with(folder.to_str().expect("UTF-8")) && path.ends_with(".svg"), "{path}");
    let picture = std::fs::read_to_string(path).expect("it stays");
    assert_eq!(picture, run_flamelet(["graph", "--all-frames", &cpu()]).stdout);
}

/// For every flag of pprof that flamelet does not have, the message says what to use instead, and never another tool.
#[test]
fn what_is_not_there_names_what_is() {
    for (flag, instead) in [
        ("-gif", "-png"),
        ("-pdf", "flamelet graph FILE"),
        ("-ps", "-svg"),
        ("-evince", "-web"),
        ("-weblist=main", "-list=REGEX"),
        ("-kcachegrind", "-callgrind"),
        ("-no_such_flag", "flamelet pprof -help"),
        ("-http=8080", "HOST:PORT"),
        ("-http=localhost:99999", "HOST:PORT"),
        ("-no_browser", "-http"),
    ] {
        let done = run_flamelet(["pprof", flag, &cpu()]);
        assert_eq!((done.status, done.stdout.as_str()), (Some(2), ""), "{flag}: {}", done.stderr);
        assert!(done.stderr.contains(instead), "{flag}: {}", done.stderr);
    }
    let both = run_flamelet(["pprof", "-http=:0", "-top", &cpu()]);
    assert_eq!(both.status, Some(2), "{}", both.stderr);
}

#[test]
fn help_lists_the_flags() {
    let help = run_flamelet(["pprof", "-help"]);
    assert_eq!(help.status, Some(0));
    for flag in [
        "-top",
        "-text",
        "-tree",
        "-peek",
        "-list",
        "-disasm",
        "-traces",
        "-tags",
        "-raw",
        "-comments",
        "-svg",
        "-web",
        "-dot",
        "-flamegraph",
        "-html",
        "-callgrind",
        "-proto",
        "-topproto",
        "-http",
        "-no_browser",
        "-output",
        "-base",
        "-diff_base",
        "-normalize",
        "-seconds",
        "-timeout",
        "-tls_ca",
        "-symbolize",
        "-focus",
        "-ignore",
        "-hide",
        "-show",
        "-show_from",
        "-prune_from",
        "-tagfocus",
        "-tagignore",
        "-tagshow",
        "-taghide",
        "-sample_index",
        "-inuse_space",
        "-mean",
        "-unit",
        "-divide_by",
        "-relative_percentages",
        "-granularity",
        "-lines",
        "-noinlines",
        "-showcolumns",
        "-tagroot",
        "-tagleaf",
        "-call_tree",
        "-cum",
        "-sort",
        "-nodecount",
        "-nodefraction",
        "-edgefraction",
        "-trim",
        "-drop_negative",
        "-compact_labels",
        "-intel_syntax",
        "-source_path",
        "-trim_path",
    ] {
        assert!(help.stdout.contains(flag), "{flag} is not in the help");
    }
}

/// The options of reports in the help, which follow the flags about profiles.
fn options_of_help() -> Vec<String> {
    let help = run_flamelet(["pprof", "-help"]).stdout;
    let options = help.split("\nFilter:\n").nth(1).expect("a section of filters").lines();
    let flags = options.filter_map(|line| line.strip_prefix("  -")).map(|flag| flag.split([' ', ',', '=']));
    flags.filter_map(|mut words| words.next().map(str::to_owned)).collect()
}

/// What the shell of pprof prints for `lines`.
fn shell(lines: &str) -> String {
    let script = profiles::scratch().join(format!("shell-{}", lines.len()));
    std::fs::write(&script, lines).expect("a file below target/");
    let input = std::fs::File::open(&script).expect("just written");
    answer(command(flamelet()).args(["pprof", &cpu()]).stdin(input)).stdout
}

#[test]
fn the_shell_lists_and_explains_every_option() {
    let options = options_of_help();
    for known in ["focus", "granularity", "showcolumns", "trim_path", "nodefraction", "compact_labels"] {
        assert!(options.iter().any(|option| option == known), "{known} is not in {options:?}");
    }
    let listed = shell("options\n");
    let listed: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut sorted: Vec<&str> = options.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
    let explained = shell(&options.iter().map(|option| format!("help {option}\n")).collect::<String>());
    assert!(explained.contains("-focus=REGEX          Keep samples"), "{explained}");
    assert!(options.iter().all(|option| explained.contains(&format!("  -{option}"))), "{explained}");
}

#[test]
fn the_shell_refuses_what_the_command_line_refuses() {
    let listed = shell("nodefraction=7\nedgefraction=-1\ngranularity=lines\ncum\noptions\n");
    for kept in ["nodefraction              = 0.005", "edgefraction              = 0.001"] {
        assert!(listed.contains(kept), "{listed}");
    }
    // A sample type that the profile does not have would fail every report.
    let listed = shell("inuse_space\nsample_index=nonsense\nsample_index=samples\nlines\ncum\noptions\n");
    assert!(listed.contains("sample_index              = samples"), "{listed}");
    for set in ["granularity               = lines", "sort                      = cum"] {
        assert!(listed.contains(set), "{listed}");
    }
}
