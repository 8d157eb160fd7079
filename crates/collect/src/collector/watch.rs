//! The watch: compares the versions of all services every now and then, and remembers what got slower.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use flamelet_profile::{Error, Limits, moment};
use serde::Serialize;

use crate::ask::{self, Asked, Changes, Deploy};
use crate::lock::lock;
use crate::reader::Reader;

/// How far back versions are compared.
const RANGE: i64 = 86_400_000_000_000;
/// What reading one service may use.
const READING: Limits = Limits::of_memory(512 << 20);
/// Deploys that are remembered, so that each is reported once.
const MOST_TOLD: usize = 10_000;

/// What the watch of a collector knows.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: u64,
    failures: u64,
    /// When the last run began, in nanoseconds since 1970.
    last: Option<i64>,
    error: Option<String>,
    found: Option<Changes>,
    /// Deploys that the user knows of: service, version before and after.
    told: BTreeSet<(String, String, String)>,
}

/// The answer of `/api/watch`. Its JSON form is stable.
#[derive(Serialize)]
struct WatchReport<'a> {
    every_seconds: u64,
    runs: u64,
    failures: u64,
    last_run: Option<String>,
    /// Why the last run failed; the rest is then from the run before.
    error: Option<&'a str>,
    regressed: bool,
    services: &'a [ask::ServiceChanges],
}

impl Watch {
    /// Compares the versions of the last day before `now`, and returns a line for each deploy that is found slower for the
    /// first time.
    pub(crate) fn run(&self, reader: &Reader, now: i64) -> Vec<String> {
        let asked = Asked {
            service: None,
            select: None,
            from: now.saturating_sub(RANGE),
            to: now.saturating_add(1),
            limits: READING,
        };
        let outcome = ask::changes(reader, &asked, |_| {});
        let mut state = lock(&self.state);
        state.runs += 1;
        state.last = Some(now);
        match outcome {
            Ok(found) => state.keep(found),
            Err(error) => state.fail(&error),
        }
    }

    /// Returns what is known, as JSON.
    pub(crate) fn report(&self, every: Duration) -> Vec<u8> {
        let state = lock(&self.state);
        let found = state.found.as_ref();
        let report = WatchReport {
            every_seconds: every.as_secs(),
            runs: state.runs,
            failures: state.failures,
            last_run: state.last.map(moment::format),
            error: state.error.as_deref(),
            regressed: found.is_some_and(|found| found.regressed),
            services: found.map_or(&[][..], |found| &found.services),
        };
        serde_json::to_vec(&report).unwrap_or_default()
    }

    /// Returns the figures as Prometheus reads them.
    pub(crate) fn metrics(&self) -> String {
        let state = lock(&self.state);
        let mut text = String::new();
        let seconds = state.last.unwrap_or(0).div_euclid(1_000_000_000);
        for (name, kind, value) in [
            ("watch_runs_total", "counter", i128::from(state.runs)),
            ("watch_failures_total", "counter", i128::from(state.failures)),
            ("watch_last_run_timestamp_seconds", "gauge", i128::from(seconds)),
        ] {
            text += &format!("# TYPE flamelet_collect_{name} {kind}\nflamelet_collect_{name} {value}\n");
        }
        text += "# TYPE flamelet_collect_slower_functions gauge\n";
        for service in state.found.iter().flat_map(|found| &found.services) {
            let Some(newest) = service.deploys.last() else { continue };
            let name = escaped(&service.service);
            let count = newest.slower.len();
            text += &format!("flamelet_collect_slower_functions{{service_name=\"{name}\"}} {count}\n");
        }
        text
    }
}

impl State {
    fn keep(&mut self, found: Changes) -> Vec<String> {
        let mut lines = Vec::new();
        for service in &found.services {
            for deploy in service.deploys.iter().filter(|deploy| !deploy.slower.is_empty()) {
                let key = (service.service.clone(), deploy.before.clone(), deploy.after.clone());
                if self.told.len() < MOST_TOLD && self.told.insert(key) {
                    lines.push(line(&service.service, deploy));
                }
            }
        }
        (self.error, self.found) = (None, Some(found));
        lines
    }

    fn fail(&mut self, error: &Error) -> Vec<String> {
        self.failures += 1;
        let message = error.to_string();
        let is_new = self.error.as_ref() != Some(&message);
        self.error = Some(message);
        let line = self.error.as_ref().map(|error| format!("the versions cannot be compared: {error}"));
        line.filter(|_| is_new).into_iter().collect()
    }
}

/// Says what got slower with a deploy.
fn line(service: &str, deploy: &Deploy) -> String {
    let since = moment::format(deploy.since);
    let mut text = format!("{service} {} got slower than {} (since {since}):", deploy.after, deploy.before);
    for row in deploy.slower.iter().take(3) {
        text += &format!(" {} {:+.1}%", row.function, row.growth * 100.0);
    }
    if deploy.slower.len() > 3 {
        text += &format!(" and {} more", deploy.slower.len() - 3);
    }
    // A name from a profile must not begin another line.
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Writes a text for the value of a label, as Prometheus reads it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
