//! Bad command lines and bad input: status 2, nothing on standard output, and a message that says what to do instead.

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, run_flamelet};

/// Runs `line`, whose words `CPU` and `HEAP` are profiles, and checks that it is refused with `words`.
fn refused(line: &str, words: &[&str]) {
    let [cpu, heap] = ["go-cpu", "go-heap"].map(|name| profiles::committed(name).display().to_string());
    let arguments = line.split(' ').map(|word| match word {
        "CPU" => &cpu,
        "HEAP" => &heap,
        other => other,
    });
    let folder = profiles::scratch().join("refusals");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let answer = answer(command(flamelet()).args(arguments).current_dir(&folder));
    assert_eq!((answer.status, answer.stdout.as_str()), (Some(2), ""), "{line}: {}", answer.stderr);
    assert!(answer.stderr.starts_with("flamelet: "), "{line}: {}", answer.stderr);
    for word in words {
        assert!(answer.stderr.contains(word), "{line}: no `{word}` in {}", answer.stderr);
    }
    assert!(!answer.stderr.contains("os error"), "{line}: {}", answer.stderr);
}

#[test]
fn profiles_of_different_kinds_are_not_compared() {
    let kinds = "cannot compare cpu (nanoseconds) with inuse_space (bytes)";
    refused("diff CPU HEAP", &[kinds, "no sample type in common"]);
    refused("check CPU HEAP", &[kinds]);
    refused("diff CPU HEAP -i 0", &["samples (count) with alloc_objects (count)"]);
}

/// A profile of the same program in a format that holds only one of its values.
#[test]
fn the_kind_that_both_profiles_have_is_offered_and_works() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let folded = profiles::scratch().join("kinds.folded").display().to_string();
    let sampled = profiles::scratch().join("sampled.pb.gz").display().to_string();
    assert_eq!(run_flamelet(["convert", &cpu, "-o", &folded]).status, Some(0));
    assert_eq!(run_flamelet(["convert", &folded, "-o", &sampled]).status, Some(0));
    let types = |path: &str| run_flamelet(["info", path]).stdout;
    let answer = run_flamelet(["diff", &cpu, &sampled]);
    assert_eq!(answer.status, Some(2), "{}{}", types(&cpu), types(&sampled));
    assert!(answer.stderr.contains("-i: samples (count)"), "{}", answer.stderr);
    let answer = run_flamelet(["diff", &cpu, &sampled, "-i", "samples"]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
}

#[test]
fn names_of_pictures_say_what_they_are() {
    refused("flame CPU -o x.gif", &["x.gif", ".svg, .html or .png", "--format"]);
    refused("flame CPU -o x.pdf", &["x.pdf"]);
    refused("graph CPU -o x.gif", &["x.gif", ".dot"]);
    refused("dot CPU -o x.svg", &["x.svg", "flamelet graph"]);
    refused("record -o x.gif -- true", &["x.gif", "pb.gz", "svg", "html", "png"]);
    refused("convert CPU -o x.foo", &["--to"]);
    let folder = profiles::scratch().join("refusals");
    let left: Vec<_> = std::fs::read_dir(&folder).expect("our folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_picture_may_be_called_anything_that_promises_nothing_else() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    for (words, start) in [
        (&["flame", "-o", "plain"][..], "<svg"),
        (&["flame", "--format=svg", "-o", "told.png"], "<svg"),
        (&["graph", "-o", "graph.gv"], "digraph"),
        (&["dot", "-o", "dot.txt"], "digraph"),
    ] {
        let folder = profiles::scratch();
        let done = answer(command(flamelet()).args(words).arg(&cpu).current_dir(folder));
        assert_eq!(done.status, Some(0), "{words:?}: {}", done.stderr);
        let file = words.last().expect("a name");
        let text = std::fs::read_to_string(folder.join(file)).expect("written");
        assert!(text.contains(start), "{words:?}: {text:.100}");
    }
}

/// Each of these was once accepted without any effect.
#[test]
fn options_that_a_verb_ignores_are_refused() {
    for line in [
        "diff CPU CPU --nodefraction 0.1",
        "check CPU CPU --diff-base nofile",
        "check CPU CPU --cum",
        "fetch CPU --base nofile",
        "fetch CPU --symbolize none",
        "recover x --seconds 5",
        "recover x --base nofile",
        "symbolize CPU --symbolize none",
        "heap HEAP --base nofile",
        "info CPU --focus main",
        "flame CPU --json",
        "callgrind CPU --json",
        "proto CPU --json",
        "topproto CPU --json",
        "top CPU --intel-syntax",
        "top CPU --call-tree",
        "traces CPU --nodecount 5",
        "proto CPU --granularity lines",
    ] {
        refused(line, &["unexpected argument"]);
    }
    refused("diff CPU CPU --base nofile", &["cannot be used with", "--base"]);
    refused("flame CPU --json", &["traces --json"]);
    refused("view . --base CPU", &["--base", "files"]);
    refused("run strace --script x -- true", &["bpftrace"]);
}

#[test]
fn values_that_mean_nothing_are_refused() {
    refused("top CPU --binary /no/such/binary", &["/no/such/binary", "no such file"]);
    refused("record --binary /no/such/binary -- true", &["no such file"]);
    refused("top CPU --unit parsec", &["parsec", "ms", "GB"]);
    for fraction in ["7", "-1", "NaN", "5%"] {
        refused(&format!("top CPU --nodefraction={fraction}"), &["between 0 and 1"]);
        refused(&format!("tree CPU --edgefraction={fraction}"), &["between 0 and 1"]);
        // Once these printed an empty table.
        refused(&format!("pprof -top -nodefraction={fraction} CPU"), &["-nodefraction=", "between 0 and 1"]);
        refused(&format!("pprof -tree -edgefraction={fraction} CPU"), &["-edgefraction=", "between 0 and 1"]);
    }
    refused("convert CPU --to massif", &["speedscope", "otlp", "html"]);
    refused("record -p no-such-process", &["no process with the name or id \"no-such-process\""]);
    refused("top CPU --seconds abc", &["not a whole number"]);
    refused("top CPU --divide-by abc", &["not a number"]);
}

/// Options for services have no effect on files; a note says so.
#[test]
fn options_for_services_are_noted_where_there_is_none() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let plain = run_flamelet(["top", &cpu]);
    let answer = run_flamelet(["top", &cpu, "--seconds", "5", "--header", "X: y"]);
    assert_eq!((answer.status, &answer.stdout), (Some(0), &plain.stdout));
    assert_eq!(answer.stderr.trim_end(), "--seconds, --header: ignored, because no source is a service");
    assert_eq!(plain.stderr, "");
}

#[test]
fn files_that_cannot_be_opened() {
    for verb in ["top", "heap", "view --no-browser", "merge", "symbolize", "fetch", "recover", "doctor"] {
        refused(&format!("{verb} missing.pb.gz"), &["missing.pb.gz: no such file"]);
    }
    refused("top .", &["is a folder"]);
    refused("man /dev/null", &["/dev/null", "not a folder"]);
    refused("top CPU -o /no/such/folder/x", &["/no/such/folder/x", "no such folder"]);
    // Checked before the request to the service, which may take a minute.
    for verb in ["top", "heap", "merge", "fetch"] {
        let line = format!("{verb} http://127.0.0.1:1/debug/pprof/profile -o /no/such/folder/x");
        refused(&line, &["/no/such/folder/x", "no such folder"]);
    }
    refused(&format!("top {}", flamelet().display()), &["is a program", "flamelet record -- "]);
    let text = profiles::written("letter-to-nobody.txt", || b"This is no profile.\n".to_vec());
    refused(&format!("top {}", text.display()), &["`flamelet convert --help`"]);
    let whole = std::fs::read(profiles::committed("go-cpu")).expect("testdata");
    let cut = profiles::written("cut-off.pb.gz", || whole[..whole.len() / 2].to_vec());
    refused(&format!("top {}", cut.display()), &["cut off", "fetch it again"]);
}

/// Skipped for root, who can read every file.
#[test]
fn a_file_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let path = profiles::written("not-for-you.pb.gz", || b"secret".to_vec());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("it is ours");
    if std::fs::read(&path).is_ok() {
        flamelet_test_support::skip!("this user may read everything");
        return;
    }
    refused(&format!("top {}", path.display()), &["not-for-you.pb.gz: permission denied"]);
}

#[test]
fn addresses_that_are_none() {
    refused("top http://", &["expected http://HOST:PORT"]);
    refused("top ftp://x/y", &["expected http://HOST:PORT"]);
    refused("top http://127.0.0.1:99999", &["invalid port 99999"]);
}

#[test]
fn the_doctor_names_what_is_not_there() {
    refused("doctor 4194305", &["no process with id 4194305"]);
    refused("doctor nofile", &["flamelet: nofile: no such file"]);
    let line = run_flamelet(["doctor", "nofile"]).stderr;
    assert_eq!(line.matches("nofile").count(), 1, "{line}");
}
