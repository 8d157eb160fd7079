//! `flamelet heap`: what holds memory, what frees it, how long it lives, and what grows.

mod arguments;

use std::io::{Read, Write};
use std::path::Path;

use flamelet_profile::{HeapView, Profile, open_regular};
use flamelet_report::heap;
use flamelet_report::{Report, ReportKind, ReportOptions};
use serde::Serialize;

use crate::arguments::guide::Guide;
#[cfg(target_os = "linux")]
use crate::error::About;
use crate::error::{Failure, Result};
use crate::profiles::{SourceOptions, is_service};
use crate::{job, output};
pub(crate) use arguments::Args;

/// How long a service watches growth by default.
const GROWTH_SECONDS: u64 = 10;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show which functions hold memory, free it or leak it, and how long it lives",
        examples: &[
            ("flamelet heap http://localhost:3000", "memory in use now"),
            ("flamelet heap http://localhost:3000 --growth --seconds 60", "growth over a minute"),
            (
                "flamelet heap monday.pb.gz tuesday.pb.gz wednesday.pb.gz",
                "what grew, and whether it keeps growing",
            ),
            ("flamelet heap http://localhost:3000 --freed", "where memory is freed and was allocated"),
            ("flamelet heap http://localhost:3000 --temporary", "short-lived allocations"),
            ("flamelet heap /var/lib/service/heap.ledger --peak", "the peak of a service that was killed"),
        ],
        own_help: vec![(
            "seconds",
            format!("Watch the service for this many seconds [default: {GROWTH_SECONDS} for --growth]"),
        )],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let asked = args.view();
    let mut source = args.compared.source(args.sources.clone());
    output::check(args.compared.output.output.as_deref())?;
    source.note_unused();
    if asked == Some(HeapView::Growth)
        && source.fetch.seconds.is_none()
        && args.sources.iter().any(|text| is_service(text))
    {
        source.fetch.seconds = Some(GROWTH_SECONDS);
    }
    let mut notes = Vec::new();
    let mut profiles = Vec::new();
    for text in &args.sources {
        let mut profile = open(text, asked.unwrap_or(HeapView::InUse), &source, &mut notes)?;
        profile.drop_uninteresting()?;
        profiles.push(profile);
    }
    notes.iter().for_each(|note| note!("{note}"));
    let options = &args.compared.options.options;
    let answer = answer(profiles, asked, options)?;
    let limit = match options.node_count.unwrap_or(ReportKind::Heap.usual_node_count()) {
        0 => usize::MAX,
        rows => rows,
    };
    args.compared.write(|is_json, out| answer.write(is_json, limit, out))
}

/// The report to print.
enum HeapAnswer {
    Holders(&'static str, heap::Holders),
    Freed(heap::Freed),
    Lifetimes(heap::Lifetimes),
    Growth(heap::Growth),
}

fn answer(
    mut profiles: Vec<Profile>,
    asked: Option<HeapView>,
    options: &ReportOptions,
) -> Result<HeapAnswer> {
    let report = |profile: Profile| -> Result<Report> {
        let report = Report::new(profile, options, ReportKind::Heap)?;
        report.warnings.iter().for_each(|warning| note!("{warning}"));
        Ok(report)
    };
    if profiles.len() > 1 {
        if !matches!(asked, None | Some(HeapView::Growth)) {
            return Err(Failure::new("this view takes one profile; use --growth to compare several"));
        }
        profiles.sort_by_key(|profile| profile.header.time_nanos);
        let reports = profiles.into_iter().map(report).collect::<Result<Vec<_>>>()?;
        return Ok(HeapAnswer::Growth(heap::growth_between(&reports)?));
    }
    let Some(profile) = profiles.pop() else { return Err(Failure::new("no profile given")) };
    let own = HeapView::of(&profile);
    let Some(view) = asked.or(own) else {
        return Err(Failure::new("this is not a heap profile; see `flamelet info FILE`"));
    };
    if view == HeapView::Growth && own == Some(HeapView::InUse) {
        return Err(Failure::new("growth needs two or more heap profiles, or the URL of a service"));
    }
    let report = report(profile)?;
    Ok(match view {
        HeapView::InUse => HeapAnswer::Holders("In use", heap::holders(&report, view)?),
        HeapView::Allocated => HeapAnswer::Holders("Allocated", heap::holders(&report, view)?),
        HeapView::Peak => HeapAnswer::Holders("At the peak", heap::holders(&report, view)?),
        HeapView::Temporary => HeapAnswer::Holders("Temporary", heap::temporary(&report)?),
        HeapView::Growth => HeapAnswer::Growth(heap::growth(&report)?),
        HeapView::Freed => HeapAnswer::Freed(heap::freed(&report)?),
        HeapView::Lifetime => HeapAnswer::Lifetimes(heap::lifetimes(&report)?),
    })
}

impl HeapAnswer {
    fn write(&self, json: bool, limit: usize, mut out: &mut dyn Write) -> Result<()> {
        if json {
            return match self {
                Self::Holders(_, answer) => write_json("holders", answer, out),
                Self::Freed(answer) => write_json("freed", answer, out),
                Self::Lifetimes(answer) => write_json("lifetimes", answer, out),
                Self::Growth(answer) => write_json("growth", answer, out),
            };
        }
        match self {
            Self::Holders(title, answer) => answer.write_text(title, limit, &mut out)?,
            Self::Freed(answer) => answer.write_text(limit, &mut out)?,
            Self::Lifetimes(answer) => answer.write_text(limit, &mut out)?,
            Self::Growth(answer) => answer.write_text(limit, &mut out)?,
        }
        Ok(())
    }
}

fn write_json(kind: &'static str, answer: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    #[derive(Serialize)]
    struct Named<'a, A> {
        report: &'static str,
        #[serde(flatten)]
        answer: &'a A,
    }
    job::write_json(&Named { report: kind, answer }, out)
}

/// Opens a profile of `view`: from a service, from the file that a killed one left behind, or any heap profile.
fn open(text: &str, view: HeapView, source: &SourceOptions, notes: &mut Vec<String>) -> Result<Profile> {
    if is_service(text) {
        return source.open_one(&with_endpoint(text, view.endpoint()), notes);
    }
    if !is_ledger(Path::new(text)) {
        return source.open_one(text, notes);
    }
    let mut profile = recovered(text, view)?;
    source.symbols.apply(&mut profile, notes);
    Ok(profile)
}

#[cfg(target_os = "linux")]
fn recovered(text: &str, view: HeapView) -> Result<Profile> {
    flamelet::heap::recover_view(Path::new(text), view).about(text)
}

#[cfg(not(target_os = "linux"))]
fn recovered(text: &str, _: HeapView) -> Result<Profile> {
    let what =
        "recovery files are read on Linux only; run `flamelet recover` there and open its profile here";
    Err(Failure::new(format!("{text}: {what}")))
}

/// Returns whether `flamelet recover` can read the file.
fn is_ledger(path: &Path) -> bool {
    let mut magic = [0; 6];
    open_regular(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && &magic == b"FLHEAP"
}

/// Returns the address of an endpoint if `text` names only the service.
fn with_endpoint(text: &str, endpoint: &str) -> String {
    let (address, query) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let address = address.trim_end_matches('/');
    let after_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    if !after_scheme.contains('/') {
        format!("{address}/debug/pprof/{endpoint}{query}")
    } else if after_scheme.ends_with("/debug/pprof") {
        format!("{address}/{endpoint}{query}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::with_endpoint;

    #[test]
    fn a_service_is_asked_at_the_endpoint_of_the_view() {
        for service in ["http://h:1", "http://h:1/", "http://h:1/debug/pprof", "http://h:1/debug/pprof/"] {
            assert_eq!(with_endpoint(service, "peak"), "http://h:1/debug/pprof/peak");
        }
        assert_eq!(with_endpoint("h:1?x=1", "heap"), "h:1/debug/pprof/heap?x=1");
        assert_eq!(with_endpoint("https://h/in/debug/pprof/", "freed"), "https://h/in/debug/pprof/freed");
        assert_eq!(with_endpoint("h:1/debug/pprof/heap?seconds=5", "peak"), "h:1/debug/pprof/heap?seconds=5");
    }
}
