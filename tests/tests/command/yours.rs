//! The owner of code: `top --by`, `explain` and `--mine`.

use serde_json::Value;

use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

fn json_of(arguments: &[&str]) -> Value {
    let answer = run_flamelet(arguments);
    assert_eq!(answer.status, Some(0), "{arguments:?}: {}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn sum_of_flat(answer: &Value) -> i64 {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["flat"].as_i64().expect("a number")).sum()
}

#[test]
fn whatever_the_groups_nothing_is_lost() {
    for file in profiles::all() {
        let file = file.display().to_string();
        let expected = sum_of_flat(&json_of(&["top", "--json", "--no-trim", &file]));
        for by in ["yours", "crate", "module", "line", "thread"] {
            let groups = json_of(&["top", "--by", by, "--json", "--no-trim", &file]);
            assert_eq!(sum_of_flat(&groups), expected, "--by {by} {file}");
            assert_eq!(groups["by"], by);
        }
    }
}

#[test]
fn in_a_go_program_main_is_yours_and_the_runtime_is_not() {
    let file = profiles::committed("go-cpu").display().to_string();
    let groups = json_of(&["top", "--by", "yours", "--json", "--no-trim", &file]);
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
        let answer = json_of(&["explain", "--json", &file]);
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
    let groups = json_of(&["top", "--by", "yours", "--mine", "^runtime\\.", "--json", "--no-trim", &file]);
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
    assert!(!whole.contains("class=\"chain\"") && whole.contains("tokio::runtime::task::raw::poll"));
    let mine = run_flamelet(["flame", "--mine", "^tokio::", &demo]);
    assert!(mine.stdout.contains("<g class=\"yours\"><title>tokio::runtime::"), "{}", mine.stderr);
    let nothing = run_flamelet(["flame", "--mine", "no such thing", &demo]);
    assert!(
        nothing.stderr.contains("--mine 'no such thing' matches no function and no file"),
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
