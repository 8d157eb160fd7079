//! Finds failed requests in a log.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// A line about a request that failed: its route is the second group.
const FAILED: &str = r#"^\S+ \S+ \S+ \[[^\]]+\] "(GET|POST|PUT|DELETE) (/\S*) HTTP/1\.1" 5\d\d \d+"#;

static PATTERN: LazyLock<Regex> = LazyLock::new(compile);

fn compile() -> Regex {
    Regex::new(FAILED).expect("a valid pattern")
}

/// Counts the failed requests of each route.
pub(crate) fn count(log: &str, is_fixed: bool) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in log.lines() {
        if let Some(route) = failed_route(line, is_fixed) {
            *counts.entry(route).or_default() += 1;
        }
    }
    counts
}

/// Returns the route if the request of this line failed.
fn failed_route(line: &str, is_fixed: bool) -> Option<&str> {
    if is_fixed {
        return route(&PATTERN, line);
    }
    // The problem: this compiles the pattern again for each line.
    route(&compile(), line)
}

fn route<'l>(pattern: &Regex, line: &'l str) -> Option<&'l str> {
    Some(pattern.captures(line)?.get(2)?.as_str())
}
