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
