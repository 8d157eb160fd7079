//! One report on one profile: open, filter, compute, write.

mod disasm;
mod list;
mod repeat;
mod yours;

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flamelet_profile::{Granularity, Profile, filter, pprof};
use flamelet_report::by::Grouping;
use flamelet_report::files::{callgrind, dot, graph_svg, raw, timeline_svg};
use flamelet_report::flame::{self, FlameOptions};
use flamelet_report::{Report, ReportKind, ReportOptions, graph, info, labels, page, top, traces, tree};
use serde::Serialize;

use crate::error::{Failure, Result};
use crate::profiles::{SourceOptions, SymbolOptions};
use crate::{output, picture};
pub(crate) use repeat::{Repeat, RepeatedOption};
pub(crate) use yours::owners;

/// The form of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Picture {
    // A picture with search and zoom.
    Svg,
    // One interactive page.
    Html,
    // A picture of pixels.
    Png,
}

/// A report to make of a profile.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Top,
    By(Grouping, Vec<String>),
    /// `repeat` completes the commands to copy.
    Explain {
        mine: Vec<String>,
        repeat: Repeat,
    },
    Tree,
    Peek(String),
    List(String),
    Disasm(String),
    Traces,
    Tags,
    Raw,
    Info,
    Comments,
    Dot,
    Graph,
    GraphPng,
    Callgrind,
    Proto,
    TopProto,
    Flame(Picture, Box<FlameOptions>),
}

impl Question {
    fn command(&self) -> ReportKind {
        match self {
            Self::Top | Self::By(..) => ReportKind::Top,
            Self::Explain { .. } => ReportKind::Explain,
            Self::Tree => ReportKind::Tree,
            Self::Peek(_) => ReportKind::Peek,
            Self::List(_) => ReportKind::List,
            Self::Disasm(_) => ReportKind::Disasm,
            Self::Traces => ReportKind::Traces,
            Self::Tags => ReportKind::Tags,
            Self::Raw | Self::Info | Self::Comments => ReportKind::Raw,
            Self::Dot | Self::Graph | Self::GraphPng => ReportKind::Dot,
            Self::Callgrind => ReportKind::Callgrind,
            Self::Proto => ReportKind::Proto,
            Self::TopProto => ReportKind::TopProto,
            Self::Flame(..) => ReportKind::Flame,
        }
    }

    /// Returns whether the answer uses frames that the profile itself marks to be dropped: they say what your code makes
    /// the allocator do.
    fn uses_dropped_frames(&self) -> bool {
        let is_page = matches!(self, Self::Flame(Picture::Html, _));
        is_page || matches!(self, Self::Explain { .. } | Self::By(Grouping::Yours | Grouping::Line, _))
    }

    /// Returns whether the answer is text for people; the others are file formats.
    fn is_text(&self) -> bool {
        match self {
            Self::Top
            | Self::By(..)
            | Self::Explain { .. }
            | Self::Tree
            | Self::Peek(_)
            | Self::List(_)
            | Self::Disasm(_) => true,
            Self::Traces | Self::Tags | Self::Raw | Self::Info | Self::Comments => true,
            Self::Dot | Self::Graph | Self::GraphPng | Self::Callgrind => false,
            Self::Proto | Self::TopProto | Self::Flame(..) => false,
        }
    }
}

/// A report, its profile, and where the output goes.
pub(crate) struct Job {
    pub(crate) question: Question,
    pub(crate) source: SourceOptions,
    pub(crate) options: ReportOptions,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Job {
    pub(crate) fn run(mut self) -> Result<()> {
        self.source.with_dropped_frames |= self.question.uses_dropped_frames();
        // Check first: a service may take a minute to answer, which should not be wasted.
        output::check(self.output.as_deref())?;
        let opened = self.source.open()?;
        opened.notes.iter().for_each(|note| note!("{note}"));
        let ask = Ask { options: &self.options, symbols: &self.source.symbols, json: self.json };
        answer_to(&self.question, opened.profile, &ask, self.output.as_deref())
    }
}

/// How to answer a question.
pub(crate) struct Ask<'a> {
    pub(crate) options: &'a ReportOptions,
    pub(crate) symbols: &'a SymbolOptions,
    pub(crate) json: bool,
}

/// Answers a question about a profile that is already open.
pub(crate) fn answer_to(
    question: &Question,
    profile: Profile,
    ask: &Ask<'_>,
    destination: Option<&Path>,
) -> Result<()> {
    // Facts about the file itself are reported before any filter.
    let is_text = question.is_text() && !ask.json;
    if let Question::Info | Question::Comments = question {
        return write(is_text, destination, |out| about(question, &profile, ask.json, out));
    }
    let mut profile = profile;
    if is_text {
        output::text::keep_rows_apart(&mut profile, destination);
    }
    if let Question::Explain { .. } = question {
        yours::note_build(&mut profile, ask.symbols);
    }
    let question = &with_whole_profile(question, &mut profile, ask)?;
    let report = report(question, profile, ask)?;
    write(is_text, destination, |out| answer(question, report, ask, out))
}

/// Drops the frames that the profile of a page marks to be dropped, and keeps the whole profile for the page's summary.
fn with_whole_profile<'q>(
    question: &'q Question,
    profile: &mut Profile,
    ask: &Ask<'_>,
) -> Result<Cow<'q, Question>> {
    let Question::Flame(Picture::Html, options) = question else { return Ok(Cow::Borrowed(question)) };
    if profile.header.drop_frames.is_empty() {
        return Ok(Cow::Borrowed(question));
    }
    let whole = Report::new(profile.clone(), ask.options, question.command())?.into_profile();
    profile.drop_uninteresting()?;
    let options = FlameOptions { whole: Some(Arc::new(whole)), ..FlameOptions::clone(options) };
    Ok(Cow::Owned(Question::Flame(Picture::Html, Box::new(options))))
}

/// Writes the text that answers a question about a profile that is already open, escaped.
pub(crate) fn answer_as_text(
    question: &Question,
    mut profile: Profile,
    ask: &Ask<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    output::text::keep_rows_apart(&mut profile, None);
    output::text::plainly(out, |out| match question {
        Question::Info | Question::Comments => about(question, &profile, ask.json, out),
        _ => answer(question, report(question, profile, ask)?, ask, out),
    })
}

fn report(question: &Question, profile: Profile, ask: &Ask<'_>) -> Result<Report> {
    // Answers about owners say more about what is missing in a profile.
    let has_note = matches!(question, Question::By(..) | Question::Explain { .. });
    if profile.sample_count() == 0 && !has_note {
        note!("{}", yours::EMPTY);
    }
    let report = Report::new(profile, &shaped(ask.options, question), question.command())?;
    report.warnings.iter().for_each(|warning| note!("{warning}"));
    Ok(report)
}

/// Returns the options that the question needs: the file of a function shows whose code it is.
fn shaped<'o>(options: &'o ReportOptions, question: &Question) -> Cow<'o, ReportOptions> {
    match question {
        Question::By(..) => {
            Cow::Owned(ReportOptions { granularity: Some(Granularity::Lines), ..options.clone() })
        }
        _ => Cow::Borrowed(options),
    }
}

fn write(
    is_text: bool,
    destination: Option<&Path>,
    produce: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    if is_text { output::text::write(destination, produce) } else { output::write(destination, produce) }
}

fn about(question: &Question, profile: &Profile, json: bool, mut out: &mut dyn Write) -> Result<()> {
    let facts = info::info(profile);
    match (question, json) {
        (Question::Info, true) => write_json(&facts, out),
        (Question::Info, false) => Ok(facts.write_text(&mut out)?),
        (_, true) => write_json(&serde_json::json!({ "comments": facts.comments }), out),
        (_, false) => Ok(facts.comments.iter().try_for_each(|comment| writeln!(out, "{comment}"))?),
    }
}

fn answer(question: &Question, report: Report, ask: &Ask<'_>, mut out: &mut dyn Write) -> Result<()> {
    let json = ask.json;
    match question {
        Question::Top if json => write_json(&top::top(&report), out),
        Question::Top => Ok(top::top(&report).write_text(&report, &mut out)?),
        Question::By(grouping, mine) => yours::write_groups(&report, *grouping, mine, json, out),
        Question::Explain { mine, repeat } => yours::write_explanation(&report, mine, repeat, json, out),
        Question::Tree => write_tree(&report, None, json, out),
        Question::Peek(expression) => write_tree(&report, Some(expression), json, out),
        Question::Tags if json => write_json(&labels::tags(&report), out),
        Question::Tags => Ok(labels::tags(&report).write_text(&report, &mut out)?),
        Question::Traces | Question::Raw if json => write_json_traces(&report, out),
        Question::Traces => Ok(flamelet_report::text::write_traces(&report, &mut out)?),
        Question::Raw => Ok(raw::write_text(&report, &mut out)?),
        Question::Dot | Question::Graph | Question::GraphPng if json => {
            write_json(&graph::graph(&report), out)
        }
        Question::Dot => Ok(dot::write_text(&report, &mut out)?),
        Question::Graph => Ok(out.write_all(graph_svg::svg(&report).as_bytes())?),
        Question::GraphPng => Ok(out.write_all(&picture::png(&graph_svg::svg(&report))?)?),
        Question::List(expression) => list::write(&report, expression, ask, out),
        Question::Disasm(expression) => disasm::write(&report, expression, ask.symbols, json, out),
        Question::Flame(Picture::Html, options) => {
            let options = flame_options(options, &report);
            Ok(out.write_all(page::html(report.profile(), &options).as_bytes())?)
        }
        Question::Flame(Picture::Svg, options) => Ok(out.write_all(drawn(options, &report)?.as_bytes())?),
        Question::Flame(Picture::Png, options) => {
            Ok(out.write_all(&picture::png(&drawn(options, &report)?)?)?)
        }
        Question::Callgrind => Ok(callgrind::write_text(&report, &mut out)?),
        Question::Proto => Ok(pprof::write_gzip(&report.into_profile(), out)?),
        Question::TopProto => Ok(pprof::write_gzip(&top::top_profile(&report), out)?),
        Question::Info | Question::Comments => unreachable!("answered before the filters"),
    }
}

/// Draws a flame graph, or a timeline.
fn drawn(options: &FlameOptions, report: &Report) -> Result<String> {
    let options = flame_options(options, report);
    if !options.timeline {
        return Ok(flame::svg(report.profile(), &options));
    }
    let message = "--timeline: the profile does not say when its samples were taken";
    timeline_svg::svg(report.profile(), &options).ok_or_else(|| Failure::new(message))
}

fn flame_options(options: &FlameOptions, report: &Report) -> FlameOptions {
    let owners = report.owners().cloned();
    FlameOptions { sample_type: Some(report.value_index()), owners, ..options.clone() }
}

fn write_tree(report: &Report, expression: Option<&str>, json: bool, mut out: &mut dyn Write) -> Result<()> {
    let wanted = expression.map(|text| filter::regex("the expression", text)).transpose()?.flatten();
    let answer = tree::tree(report, wanted.as_ref());
    if json {
        return write_json(&answer, out);
    }
    answer.write_text(report, &mut out)?;
    match expression {
        Some(expression) if answer.entries.is_empty() => {
            Err(Failure::new(format!("no function matches '{expression}'")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn write_json(answer: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Writes all traces as one object, one at a time: there may be millions.
fn write_json_traces(report: &Report, out: &mut dyn Write) -> Result<()> {
    let text = |text: &str| serde_json::to_string(text).map_err(std::io::Error::from);
    let (kind, unit) = (text(&report.value_name())?, text(report.unit())?);
    write!(out, "{{\n\"sample_type\": {kind},\n\"unit\": {unit},\n")?;
    write!(out, "\"total\": {},\n\"traces\": [", report.total())?;
    let mut separator = "\n";
    for trace in traces::traces(report) {
        write!(out, "{separator}")?;
        serde_json::to_writer(&mut *out, &trace).map_err(std::io::Error::from)?;
        separator = ",\n";
    }
    writeln!(out, "\n]\n}}")?;
    Ok(())
}
