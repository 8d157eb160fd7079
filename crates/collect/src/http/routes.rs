//! The paths of a collector: each is served as its line of one table says, and docs/fleet.md lists the table.

use axum::http::Method;
use axum::response::Response;
use flamelet_remote::push::{OTLP_PATH, PARCA_PATH, PYROSCOPE_PATH};
use flamelet_remote::receive::INGEST_PATH;
use flamelet_remote::receive::otlp::EXPORT_PATH;
use flamelet_remote::receive::parca::GATEWAY_PATHS;

use super::call::Asking;
use super::receive::{Receiver, otlp, parca, pyroscope};
use super::symbols::SYMBOLS;
use super::{QUERIER, ask, pages};
use crate::ask as questions;
use crate::collector::Refused;
use crate::site;

/// A path that is served.
pub(super) struct Route {
    pub(super) method: Method,
    /// One that ends in a slash stands for everything below it.
    path: &'static str,
    /// What it is for, as docs/fleet.md says it.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
    about: &'static str,
    pub(super) work: Work,
}

/// What is done for a request.
pub(super) enum Work {
    /// Anybody may know whether the collector runs.
    Probe,
    /// Answers a question about what is kept.
    Ask(fn(&Asking<'_>) -> Result<Response, Refused>),
    /// Answers a question with JSON.
    Api(&'static questions::ApiCall),
    /// Keeps the files of builds.
    Symbols,
    /// Keeps the profile in the body.
    Ingest,
    /// Keeps the profiles of a message.
    Receive(Receiver),
    /// The viewer, which has a router of its own.
    View,
}

const fn get(path: &'static str, work: Work, about: &'static str) -> Route {
    Route { method: Method::GET, path, about, work }
}

const fn post(path: &'static str, work: Work, about: &'static str) -> Route {
    Route { method: Method::POST, path, about, work }
}

pub(super) static ROUTES: &[Route] = &[
    get("/", Work::Ask(pages::first), "the services: a page for a browser, else a list"),
    get("/top", Work::Ask(pages::top), "a page of what costs most across the fleet"),
    get("/changes", Work::Ask(pages::what_changed), "a page of what got slower with a deploy"),
    get(site::STYLE_PATH, Work::Ask(pages::style), "the style of these pages"),
    get(site::VIEWER, Work::View, "the viewer"),
    get(
        "/api/services",
        Work::Api(&questions::SERVICES),
        "the services with their CPU cores and a sparkline; `from` is -1h unless given",
    ),
    get("/api/labels", Work::Api(&questions::LABELS), "labels and their values, of a service or of all"),
    get(
        "/api/top",
        Work::Api(&questions::TOP),
        "functions across the fleet in CPU cores and, with a price, money; `by` is `function`, `service`, `crate`, \
         `module`, `yours`, `line` or `thread`",
    ),
    get(
        "/api/diff",
        Work::Api(&questions::DIFF),
        "what differs between two ranges, two selections, or two values of a label",
    ),
    get("/api/changes", Work::Api(&questions::CHANGES), "what got slower from one version to the next"),
    get(
        "/api/watch",
        Work::Ask(ask::watch),
        "what the last run of `--watch` found: the answer of `/api/changes`, with when it ran",
    ),
    get("/metrics", Work::Ask(ask::metrics), "what was accepted, refused and recognized, for Prometheus"),
    get("/ready", Work::Probe, "whether it runs; needs no token"),
    get("/healthz", Work::Probe, "the same"),
    post(QUERIER, Work::Ask(ask::query), "Pyroscope's queries, for Grafana"),
    get("/pyroscope/render", Work::Ask(ask::render), "Pyroscope's older query"),
    get("/pyroscope/render-diff", Work::Ask(ask::render), "the same, of two ranges"),
    post(PYROSCOPE_PATH, Work::Receive(pyroscope::push), "profiles of Pyroscope's agents"),
    post(INGEST_PATH, Work::Ingest, "a profile of an older agent"),
    post(OTLP_PATH, Work::Receive(otlp::export), "profiles of OpenTelemetry over HTTP"),
    post(EXPORT_PATH, Work::Receive(otlp::export), "the same over gRPC"),
    post(PARCA_PATH, Work::Receive(parca::write_raw), "profiles of Parca's senders, over gRPC"),
    post(GATEWAY_PATHS[0], Work::Receive(parca::write_raw), "the same as JSON"),
    post(GATEWAY_PATHS[1], Work::Receive(parca::write_raw), "the same as JSON"),
    post(SYMBOLS, Work::Symbols, "the file of a build, as Pyroscope receives it (`flamelet symbols push`)"),
];

impl Route {
    /// Returns how a path is served, whatever the method.
    pub(super) fn of(path: &str) -> Option<&'static Self> {
        ROUTES.iter().find(|route| route.is_of(path))
    }

    fn is_of(&self, path: &str) -> bool {
        let has_more = self.path.len() > 1 && self.path.ends_with('/');
        path == self.path || (has_more && path.starts_with(self.path))
    }

    /// Returns whether profiles or symbols are received here.
    pub(super) fn is_receiving(&self) -> bool {
        matches!(self.work, Work::Ingest | Work::Receive(_) | Work::Symbols)
    }

    /// Refuses other methods; where GET is allowed, HEAD is too.
    pub(super) fn check_method(&self, method: &Method) -> Result<(), Refused> {
        let is_good = *method == self.method || (self.method == Method::GET && *method == Method::HEAD);
        match is_good {
            true => Ok(()),
            false if self.method == Method::GET => Err(Refused::new(405, "ask with GET")),
            false => Err(Refused::new(405, "send it with POST")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the table as docs/fleet.md has it.
    fn table() -> String {
        let mut text = "\n| method | path | what it is for |\n|---|---|---|\n".to_owned();
        for Route { method, path, about, work } in ROUTES {
            let parameters = match work {
                Work::Api(call) => format!("; parameters: `{}`", call.parameters.join("`, `")),
                _ => String::new(),
            };
            let below = if path.len() > 1 && path.ends_with('/') { "…" } else { "" };
            text += &format!("| {method} | `{path}{below}` | {about}{parameters} |\n");
        }
        text
    }

    /// `FLAMELET_REGENERATE=1` writes it.
    #[test]
    fn the_document_lists_the_paths() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
        let text = std::fs::read_to_string(&path).expect("docs/fleet.md");
        let (begin, end) = ("<!-- paths -->\n", "<!-- end of paths -->");
        let (before, rest) = text.split_once(begin).expect("a mark");
        let (_, after) = rest.split_once(end).expect("a mark");
        let wanted = format!("{before}{begin}{}\n{end}{after}", table());
        if std::env::var_os("FLAMELET_REGENERATE").is_some() {
            std::fs::write(&path, &wanted).expect("written");
        } else {
            assert!(text == wanted, "docs/fleet.md is out of date");
        }
    }

    #[test]
    fn each_path_has_one_line() {
        for (at, route) in ROUTES.iter().enumerate() {
            let found = ROUTES.iter().position(|other| other.is_of(route.path));
            assert_eq!(found, Some(at), "{}", route.path);
        }
        assert!(Route::of("/nothing").is_none() && Route::of("/api/").is_none());
        assert!(Route::of("/view/app.js").is_some() && Route::of("/view").is_none());
    }
}
