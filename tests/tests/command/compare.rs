//! `diff` and `check` with several runs a side.

use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

#[test]
fn several_runs_a_side_are_compared() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let answer = run_flamelet(["check", "--base", &cpu, &cpu, "--new", &cpu, &cpu, &cpu]);
    assert_eq!(answer.status, Some(0), "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.contains("Noise: 2 and 3 runs"), "{}", answer.stdout);
    let answer = run_flamelet(["diff", "--base", &cpu, "--new", &cpu]);
    assert_eq!(answer.status, Some(0), "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.contains("only sampling noise is known"), "{}", answer.stdout);
}

#[test]
fn both_sides_are_asked_for() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    for words in [&["check", "--base", &cpu][..], &["check", "--new", &cpu], &["check", &cpu], &["check"]] {
        assert_eq!(run_flamelet(words).status, Some(2), "{words:?}");
    }
}
