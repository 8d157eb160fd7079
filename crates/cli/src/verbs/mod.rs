//! What the command can do, one file a verb; the reports share [`crate::report_job`].

mod check;
mod convert;
mod demo;
mod diff;
pub(crate) mod disasm;
mod doctor;
mod flame;
mod heap;
pub(crate) mod list;
mod man;
mod merge;
mod pprof;
mod record;
mod record_heap;
mod record_syscalls;
mod recover;
mod run;
pub(crate) mod view;

use std::process::ExitCode;

use crate::args::{MatchArgs, ReportArgs, Verb};
use crate::error::Result;
use crate::report_job::{Job, Question};

/// Does what the command line says.
pub(crate) fn run(verb: Verb) -> Result<ExitCode> {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match verb {
        Verb::Top(args) => done(report(Question::Top, args)),
        Verb::Tree(args) => done(report(Question::Tree, args)),
        Verb::Peek(args) => done(matching(Question::Peek, args)),
        Verb::List(args) => done(matching(Question::List, args)),
        Verb::Disasm(args) => done(matching(Question::Disasm, args)),
        Verb::Traces(args) => done(report(Question::Traces, args)),
        Verb::Tags(args) => done(report(Question::Tags, args)),
        Verb::Raw(args) => done(report(Question::Raw, args)),
        Verb::Info(args) => done(report(Question::Info, args)),
        Verb::Comments(args) => done(report(Question::Comments, args)),
        Verb::Dot(args) => done(report(Question::Dot, args)),
        Verb::Graph(args) => done(graph(args)),
        Verb::Callgrind(args) => done(report(Question::Callgrind, args)),
        Verb::Proto(args) => done(report(Question::Proto, args)),
        Verb::Topproto(args) => done(report(Question::TopProto, args)),
        Verb::Flame(args) => done(flame::run(args)),
        Verb::Heap(args) => done(heap::run(&args)),
        Verb::Diff(args) => done(diff::run(&args)),
        Verb::Check(args) => check::run(&args),
        Verb::Merge(args) => done(merge::merge(&args)),
        Verb::Symbolize(args) => done(merge::symbolize(args)),
        Verb::Fetch(args) => done(merge::fetch(&args)),
        Verb::Convert(args) => done(convert::run(&args)),
        Verb::Record(args) => record::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Doctor { subject } => doctor::run(subject.as_deref()),
        Verb::Recover(args) => done(recover::run(&args)),
        Verb::View(args) => done(view::run(&args)),
        Verb::Demo(args) => done(demo::run(&args)),
        Verb::Pprof { arguments } => done(pprof::run(&arguments)),
        Verb::Completions { shell } => done(man::completions(shell)),
        Verb::Man { folder } => done(man::pages(&folder)),
    }
}

fn report(question: Question, args: ReportArgs) -> Result<()> {
    let (sources, shape) = args.parts();
    job(question, sources, &shape).run()
}

/// A picture, unless the output's name asks for Graphviz's text or the page.
fn graph(args: ReportArgs) -> Result<()> {
    let (sources, shape) = args.parts();
    let ending = shape.output.as_deref().and_then(|path| path.extension()?.to_str());
    let question = match ending {
        Some("dot" | "gv") => Question::Dot,
        Some("html" | "htm") => Question::Flame(crate::args::Picture::Html, Box::default()),
        _ => Question::Graph,
    };
    job(question, sources, &shape).run()
}

fn matching(question: fn(String) -> Question, args: MatchArgs) -> Result<()> {
    let (expression, sources, shape) = args.parts();
    job(question(expression), sources, &shape).run()
}

fn job(question: Question, sources: Vec<String>, shape: &crate::args::ShapeArgs) -> Job {
    Job {
        question,
        source: shape.source_options(sources),
        options: shape.report_options(),
        output: shape.output.clone(),
        json: shape.json,
    }
}
