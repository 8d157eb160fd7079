//! `flamelet traces`: every stack.

use crate::arguments::guide::Guide;
use crate::arguments::options::Traces;
use crate::arguments::report::{JsonArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Traces>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show every stack",
        examples: &[
            ("flamelet traces cpu.pb.gz --focus handler", "every stack with the handler in it"),
            ("flamelet traces cpu.pb.gz --json", "as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Traces, &args.sources.sources, args.json.json).run()
}
