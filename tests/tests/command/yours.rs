//! The owner of code: `top --by`, `explain` and `--mine`.

use std::path::Path;

use flamelet_profile::{Line, Mapping, ProfileBuilder, pprof};
use serde_json::Value;

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, json_of, run_flamelet};

fn sum_of_flat(answer: &Value) -> i64 {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["flat"].as_i64().expect("a number")).sum()
}

#[test]
fn whatever_the_groups_nothing_is_lost() {
    for file in profiles::all() {
        let file = file.display().to_string();
        let expected = sum_of_flat(&json_of(["top", "--json", "--no-trim", &file]));
        for by in ["yours", "crate", "module", "line", "thread"] {
            let groups = json_of(["top", "--by", by, "--json", "--no-trim", &file]);
            assert_eq!(sum_of_flat(&groups), expected, "--by {by} {file}");
            assert_eq!(groups["by"], by);
        }
    }
}

#[test]
fn in_a_go_program_main_is_yours_and_the_runtime_is_not() {
    let file = profiles::committed("go-cpu").display().to_string();
    let groups = json_of(["top", "--by", "yours", "--json", "--no-trim", &file]);
    let rows = groups["rows"].as_array().expect("rows");
    let named =
        |start: &str| rows.iter().any(|row| row["name"].as_str().is_some_and(|name| name.starts_with(start)));
    assert!(named("main."), "{groups}");
    assert!(!named("runtime."), "{groups}");
}

#[test]
fn explain_gives_at_most_ten_complete_findings() {
    for file in profiles::all() {
        let file = file.display().to_string();
        let answer = json_of(["explain", "--json", &file]);
        let findings = answer["findings"].as_array().expect("findings");
        assert!(findings.len() <= 10, "{file}");
        for finding in findings {
            for field in ["rule", "title", "confidence", "why", "helps", "dig"] {
                assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {finding}");
            }
        }
        let text = run_flamelet(["explain", &file]);
        assert_eq!(text.status, Some(0), "{}", text.stderr);
        assert!(!text.stdout.is_empty(), "{file}");
    }
}

/// Returns the words of a command that `explain` offers, as a shell would.
fn offered(stdout: &str) -> Vec<Vec<String>> {
    let lines = stdout.lines().filter_map(|line| line.split_once("Look closer: flamelet "));
    let words = lines.map(|(_, line)| {
        let shell = answer(command(Path::new("sh")).args(["-c", &format!("printf '%s\\n' {line}")]));
        shell.stdout.lines().map(str::to_owned).collect()
    });
    words.collect()
}

#[test]
fn the_commands_that_explain_offers_repeat_what_it_was_given() {
    let folder = profiles::scratch().join("a folder that's quoted");
    std::fs::create_dir_all(&folder).expect("our own folder");
    let heap = folder.join("heap.pb.gz").display().to_string();
    std::fs::copy(profiles::committed("go-heap"), &heap).expect("copied");
    let given = ["explain", "-i", "inuse_objects", "--mine", "^runtime|main", "--ignore", "nothing at all"];
    let explained = run_flamelet(given.into_iter().chain(["--json", &heap]));
    assert_eq!(explained.status, Some(0), "{}", explained.stderr);
    let explained = run_flamelet(given.into_iter().chain(["-o", "/dev/stdout", &heap]));
    let offered = offered(&explained.stdout);
    assert!(!offered.is_empty(), "{}", explained.stdout);
    for words in &offered {
        assert!(words.ends_with(std::slice::from_ref(&heap)), "{words:?}");
        assert!(!words.contains(&"-o".to_owned()) && !words.contains(&"--json".to_owned()), "{words:?}");
        if words[0] == "top" {
            let text = words.join(" ");
            assert!(text.contains("-i inuse_objects") || text.contains("-i temporary_objects"), "{text}");
            assert!(
                text.contains("--mine ^runtime|main") && text.contains("--ignore nothing at all"),
                "{text}"
            );
        }
        let closer = run_flamelet(words);
        assert_eq!(closer.status, Some(0), "{words:?}: {}", closer.stderr);
    }
}

#[test]
fn a_command_for_several_moments_adds_nothing_up() {
    let moments = [1i64, 2, 3, 4, 5].map(|moment| {
        let name = format!("moment-{moment}.pb.gz");
        let path = profiles::written(&name, || {
            let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
            builder.header_mut().time_nanos = moment * 60_000_000_000;
            let function = builder.named_function("shop::remember", "/home/me/shop/src/main.rs");
            let frame = builder.frame(function, 1);
            let stack = builder.stack(&[frame]);
            builder.sample(stack, Default::default(), &[moment << 10, moment << 20]);
            let mut bytes = Vec::new();
            pprof::write_gzip(&builder.finish(), &mut bytes).expect("memory");
            bytes
        });
        path.display().to_string()
    });
    // The newest is not the last that is named.
    let named = [4, 0, 1, 2, 3].map(|at: usize| moments[at].clone());
    let explained = run_flamelet(std::iter::once("explain".to_owned()).chain(named));
    assert_eq!(explained.status, Some(0), "{}", explained.stderr);
    let offered = offered(&explained.stdout);
    let growth = [&["heap".to_owned(), "--growth".to_owned()][..], &moments].concat();
    assert!(offered.contains(&growth), "{offered:?}");
    let others: Vec<_> = offered.iter().filter(|words| **words != growth).collect();
    assert!(!others.is_empty(), "{}", explained.stdout);
    for words in others {
        let sources: Vec<_> = words.iter().filter(|word| moments.contains(word)).collect();
        assert_eq!(sources, [&moments[4]], "{words:?}");
    }
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let file = profiles::committed("go-cpu").display().to_string();
    let unknown = run_flamelet(["top", "--by", "nonsense", &file]);
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.stderr.contains("yours, crate, module, line, thread"), "{}", unknown.stderr);
    let nothing = run_flamelet(["top", "--by", "yours", "--mine", "matches_nothing_here", &file]);
    assert_eq!(nothing.status, Some(0), "{}", nothing.stderr);
    assert!(
        nothing.stderr.contains("--mine 'matches_nothing_here' matches no function"),
        "{}",
        nothing.stderr
    );
    let broken = run_flamelet(["explain", "--mine", "(", &file]);
    assert_eq!(broken.status, Some(2));
    assert_eq!(broken.stderr.lines().count(), 1, "{}", broken.stderr);
}

#[test]
fn what_is_mine_is_charged() {
    let file = profiles::committed("go-cpu").display().to_string();
    let groups = json_of(["top", "--by", "yours", "--mine", "^runtime\\.", "--json", "--no-trim", &file]);
    let rows = groups["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["name"].as_str().is_some_and(|name| name.starts_with("runtime."))));
}

#[test]
fn pictures_open_on_your_code() {
    let demo = profiles::committed("demo-cpu").display().to_string();
    let folded = run_flamelet(["flame", &demo]).stdout;
    assert!(
        folded.contains("<g class=\"chain\"><title>tokio · ")
            && folded.contains("demo::service::count_primes")
    );
    let whole = run_flamelet(["flame", "--all-frames", &demo]).stdout;
    assert!(!whole.contains("class=\"chain\"") && whole.contains("tokio::runtime::task::raw::RawTask::poll"));
    let mine = run_flamelet(["flame", "--mine", "^tokio::", &demo]);
    assert!(mine.stdout.contains("<g class=\"yours\"><title>tokio::runtime::"), "{}", mine.stderr);
    let nothing = run_flamelet(["flame", "--mine", "no such thing", &demo]);
    assert!(
        nothing.stderr.contains("--mine 'no such thing' matches no function or file"),
        "{}",
        nothing.stderr
    );
    let graph = run_flamelet(["graph", &demo]).stdout;
    assert!(graph.contains("[folded: tokio]"));
    let text = run_flamelet(["tree", &demo]).stdout;
    assert!(!text.contains("[folded: "), "what mirrors pprof is folded only when asked");
    let wrong = run_flamelet(["view", "--no-browser", "--mine", "(", &demo]);
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.stderr.contains("mine: '(' is not a regular expression"), "{}", wrong.stderr);
}

/// A profile of one function with this many samples.
fn profile_of(file_name: &str, name: &str, file: &str, samples: i64) -> String {
    let path = profiles::written(file_name, || {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let filename = builder.string("/srv/shop");
        let mapping =
            builder.mapping(Mapping { filename, start: 0x1000, limit: 0x9000, ..Mapping::default() });
        if samples > 0 {
            let function = (!name.is_empty()).then(|| builder.named_function(name, file));
            let lines: Vec<Line> = function.iter().map(|_| Line { function, ..Line::default() }).collect();
            let location = builder.location(Some(mapping), 0x1234, &lines);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[samples, samples * 10_000_000]);
        }
        let mut bytes = Vec::new();
        pprof::write_gzip(&builder.finish(), &mut bytes).expect("memory");
        bytes
    });
    path.display().to_string()
}

#[test]
fn what_a_profile_lacks_is_said_in_a_sentence() {
    let cases = [
        (
            profile_of("empty.pb.gz", "", "", 0),
            "the profile is empty",
            "too poor for conclusions: it is empty",
        ),
        (profile_of("one.pb.gz", "shop::main", "/home/me/shop/src/main.rs", 1), "", "it has 1 sample"),
        (profile_of("nameless.pb.gz", "", "", 500), "--binary FILE", "none of its functions has a name"),
        (profile_of("pathless.pb.gz", "shop::main", "", 500), "--mine REGEX", ""),
    ];
    for (file, note, finding) in &cases {
        for words in [
            &["explain", file.as_str()][..],
            &["top", "--by", "yours", file],
            &["top", "--by", "crate", file],
        ] {
            let answer = run_flamelet(words);
            assert_eq!(answer.status, Some(0), "{words:?}: {}", answer.stderr);
            assert!(answer.stderr.contains(note), "{words:?}: {}", answer.stderr);
            // Of a program that is not on this machine, that is said too.
            assert!(answer.stderr.lines().count() <= 2, "{words:?}: {}", answer.stderr);
            if words[0] == "explain" {
                assert!(answer.stdout.contains(finding), "{words:?}: {}", answer.stdout);
            }
        }
        let diff = run_flamelet(["diff", "--explain", file, file]);
        assert_eq!(diff.status, Some(0), "{file}: {}", diff.stderr);
        assert!(diff.stdout.contains("None of your functions changed"), "{}", diff.stdout);
    }
    let [(empty, ..), .., (full, ..)] = &cases;
    for (files, which) in
        [([empty, full], "the first has no samples"), ([full, empty], "the second has no samples")]
    {
        let diff = run_flamelet(["diff", files[0], files[1]]);
        assert!(diff.stdout.contains(which), "{}", diff.stdout);
    }
}

#[test]
fn only_a_terminal_is_told_of_the_other_view() {
    const HINT: &str = "--by yours";
    let file = profiles::committed("go-cpu").display().to_string();
    let piped = run_flamelet(["top", &file]);
    assert!(!piped.stdout.contains(HINT), "{}", piped.stdout);
    // `script` gives its command a terminal.
    let in_terminal = |words: &str| {
        let line = format!("{} {words} {file}", flamelet().display());
        answer(command(Path::new("script")).args(["--quiet", "--return", "--command", &line, "/dev/null"]))
            .stdout
    };
    let shown = in_terminal("top");
    let last = shown.lines().rev().find(|line| !line.trim().is_empty()).expect("a line");
    assert!(last.contains(HINT), "{shown}");
    for words in ["top --json", "top --by yours", "top -o /dev/null"] {
        assert!(!in_terminal(words).contains(HINT), "{words}");
    }
}

#[test]
fn what_is_not_text_stays_away_from_a_terminal() {
    let file = profiles::committed("go-cpu").display().to_string();
    let folder = profiles::scratch().join("away from a terminal");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("our own folder");
    std::fs::write(folder.join("profile001.png"), "somebody else's").expect("our own folder");
    let in_terminal = |words: &str| {
        let line = format!("'{}' pprof {words} '{file}'", flamelet().display());
        let script = ["--quiet", "--return", "--command", &line, "/dev/null"];
        answer(command(Path::new("script")).args(script).current_dir(&folder))
    };
    for (words, name, start) in [
        ("-png", "profile002.png", &b"\x89PNG"[..]),
        ("-svg", "profile001.svg", b"<"),
        ("-proto", "profile001.pb.gz", b"\x1f\x8b"),
        ("-topproto", "profile002.pb.gz", b"\x1f\x8b"),
        ("-callgrind", "profile001.callgraph.out", b"positions:"),
    ] {
        let shown = in_terminal(words);
        assert_eq!(shown.status, Some(0), "{words}: {}", shown.stdout);
        assert_eq!(shown.stdout.trim(), format!("Generating report in {name}"), "{words}");
        let bytes = std::fs::read(folder.join(name)).expect("written");
        assert!(bytes.starts_with(start), "{words}: {:?}", &bytes[..bytes.len().min(16)]);
    }
    assert_eq!(std::fs::read(folder.join("profile001.png")).expect("still there"), b"somebody else's");
    let text = in_terminal("-top");
    assert!(text.stdout.contains("flat%"), "{}", text.stdout);
    let failed = in_terminal("-png -focus='('");
    assert_ne!(failed.status, Some(0), "{}", failed.stdout);
    assert!(!folder.join("profile003.png").exists(), "a report that fails leaves no file");
}

#[test]
fn pictures_of_pixels_are_written() {
    let file = profiles::committed("go-cpu").display().to_string();
    let folder = profiles::scratch();
    for (words, name) in [
        (&["flame", "-o", "flame.png"][..], "flame.png"),
        (&["graph", "-o", "graph.png"], "graph.png"),
        (&["pprof", "-png", "-output=pprof.png"], "pprof.png"),
        (&["convert", "-o", "convert.png"], "convert.png"),
    ] {
        let done = answer(command(flamelet()).args(words).arg(&file).current_dir(folder));
        assert_eq!(done.status, Some(0), "{words:?}: {}", done.stderr);
        let bytes = std::fs::read(folder.join(name)).expect("written");
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n", "{words:?}");
        let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert!(size(16) > 200 && size(20) > 100, "{words:?}: {} × {}", size(16), size(20));
    }
}
