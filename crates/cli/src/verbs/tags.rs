//! `flamelet tags`: the cost of each label value.

use crate::arguments::guide::Guide;
use crate::arguments::options::Tags;
use crate::arguments::report::{JsonArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Tags>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what each label value cost",
        examples: &[
            ("flamelet tags cpu.pb.gz", "what each route, thread, … cost"),
            ("flamelet tags cpu.pb.gz --tagshow route", "of one label"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Tags, &args.sources.sources, args.json.json).run()
}
