//! `flamelet explain`: what stands out, in sentences.

use std::path::Path;

use flamelet_profile::{HeapView, Profile};
use flamelet_report::explain::explain_moments;
use flamelet_report::{Report, ReportKind};

use crate::arguments::given::{Given, arguments_of};
use crate::arguments::guide::Guide;
use crate::arguments::options::Explain;
use crate::arguments::report::{JsonArgs, MineArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::{self, Question, Repeat};
use crate::output;
use crate::verbs::{heap, info, list, top};

#[derive(clap::Args)]
pub(crate) struct Args {
    // First, because reading an argument takes it away.
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Explain>,
    #[command(flatten)]
    mine: MineArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Explain what stands out in a profile and what usually helps",
        examples: &[
            ("flamelet explain cpu.pb.gz", "findings, largest first"),
            ("flamelet explain http://localhost:3000 --seconds 10", "of a running service"),
            ("flamelet explain heap.pb.gz -i inuse_space", "of a heap profile"),
            (
                "flamelet explain heap-1.pb.gz heap-2.pb.gz heap-3.pb.gz heap-4.pb.gz",
                "what grows from one profile to the next",
            ),
            ("flamelet explain cpu.pb.gz --mine '^house_'", "count crates named house_… as your code"),
            ("flamelet explain cpu.pb.gz --json", "as JSON"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let sources = &args.sources.sources;
    if let Some(moments) = moments(args)? {
        return explain_growth(args, &moments);
    }
    let question = Question::Explain { mine: args.mine.mine.clone(), repeat: repeat(args, sources.clone()) };
    args.report.job(question, sources, args.json.json).run()
}

/// Returns what the commands to copy repeat: the options that were given, and these sources.
fn repeat(args: &Args, sources: Vec<String>) -> Repeat {
    // The verbs of the commands that `explain` offers.
    let verbs = [
        arguments_of::<top::Args>("top"),
        arguments_of::<list::Args>("list"),
        arguments_of::<heap::Args>("heap"),
        arguments_of::<info::Args>("info"),
    ];
    Repeat { options: args.given.options::<Args>(&verbs), sources: sources.clone(), one: sources }
}

/// Returns the profiles with their sources, in time order, if several files were named and all say what is in use: adding them up would
/// count the same memory several times.
fn moments(args: &Args) -> Result<Option<Vec<(String, Profile)>>> {
    let sources = &args.sources.sources;
    if sources.len() < 2 || !sources.iter().all(|source| Path::new(source).is_file()) {
        return Ok(None);
    }
    let job = args.report.job(Question::Info, sources, false);
    let mut source = job.source;
    source.take_binary();
    let mut notes = Vec::new();
    let mut profiles = Vec::new();
    for text in source.sources.clone() {
        let profile = source.open_one(&text, &mut notes)?;
        if HeapView::of(&profile) != Some(HeapView::InUse) || source.has_base() {
            return Ok(None);
        }
        profiles.push((text, profile));
    }
    notes.iter().for_each(|note| note!("{note}"));
    profiles.sort_by_key(|(_, profile)| profile.header.time_nanos);
    Ok((profiles.len() > 1).then_some(profiles))
}

fn explain_growth(args: &Args, profiles: &[(String, Profile)]) -> Result<()> {
    let job = args.report.job(Question::Info, &args.sources.sources, args.json.json);
    let mut reports = Vec::new();
    for (_, profile) in profiles {
        let mut profile = profile.clone();
        profile.drop_uninteresting()?;
        reports.push(Report::new(profile, &job.options, ReportKind::Heap)?);
    }
    let Some((last_source, last)) = profiles.last() else { return Ok(()) };
    let last = Report::new(last.clone(), &job.options, ReportKind::Explain)?;
    last.warnings.iter().for_each(|warning| note!("{warning}"));
    let owners = job::owners(&[&last], &args.mine.mine)?;
    let mut answer = explain_moments(&reports, &last, &owners[0])?;
    let sources = profiles.iter().map(|(source, _)| source.clone()).collect();
    // Adding the profiles up would count the same memory several times.
    let repeat = Repeat { one: vec![last_source.clone()], ..repeat(args, sources) };
    answer.complete_commands(|closer| repeat.words(closer));
    match job.json {
        true => output::write(job.output.as_deref(), |out| job::write_json(&answer, out)),
        false => output::text::write(job.output.as_deref(), |mut out| Ok(answer.write_text(&mut out)?)),
    }
}
