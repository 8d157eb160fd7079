//! What the command can do, one file a verb; the reports share [`crate::report_job`].

mod check;
mod convert;
mod demo;
pub(crate) mod diff;
pub(crate) mod disasm;
mod doctor;
mod flame;
pub(crate) mod heap;
pub(crate) mod list;
mod man;
mod merge;
pub(crate) mod pprof;
mod record;
mod record_end;
mod record_heap;
mod record_syscalls;
mod recover;
mod run;
pub(crate) mod view;

use std::process::ExitCode;

use crate::args::Verb;
use crate::error::Result;
use crate::report_job::Question;

/// Does what the command line says.
pub(crate) fn run(verb: Verb) -> Result<ExitCode> {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match verb {
        Verb::Top(args) => done(args.job(Question::Top).run()),
        Verb::Tree(args) => done(args.job(Question::Tree).run()),
        Verb::Peek(args) => done(args.job().run()),
        Verb::List(args) => done(args.job().run()),
        Verb::Disasm(args) => done(args.job().run()),
        Verb::Traces(args) => done(args.job(Question::Traces).run()),
        Verb::Tags(args) => done(args.job(Question::Tags).run()),
        Verb::Raw(args) => done(args.job(Question::Raw).run()),
        Verb::Info(args) => done(args.job(Question::Info).run()),
        Verb::Comments(args) => done(args.job(Question::Comments).run()),
        Verb::Dot(args) => done(flame::dot(args)),
        Verb::Graph(args) => done(flame::graph(args)),
        Verb::Callgrind(args) => done(args.job(Question::Callgrind).run()),
        Verb::Proto(args) => done(args.job(Question::Proto).run()),
        Verb::Topproto(args) => done(args.job(Question::TopProto).run()),
        Verb::Flame(args) => done(flame::run(args)),
        Verb::Heap(args) => done(heap::run(&args)),
        Verb::Diff(args) => done(diff::run(&args)),
        Verb::Check(args) => check::run(&args),
        Verb::Merge(args) => done(merge::merge(&args)),
        Verb::Symbolize(args) => done(merge::symbolize(&args)),
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
