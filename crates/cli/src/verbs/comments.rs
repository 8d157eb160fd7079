//! `flamelet comments`: the comments of a profile.

use crate::arguments::guide::Guide;
use crate::arguments::options::NoOptions;
use crate::arguments::report::{JsonArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<NoOptions>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the comments of a profile",
        examples: &[("flamelet comments cpu.pb.gz", "what its writer noted")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Comments, &args.sources.sources, args.json.json).run()
}
