//! `flamelet raw`: everything in the profile as text.

use crate::arguments::guide::Guide;
use crate::arguments::options::Raw;
use crate::arguments::report::{JsonArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Raw>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show everything in the profile as text",
        examples: &[("flamelet raw cpu.pb.gz | less", "samples, locations, mappings")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Raw, &args.sources.sources, args.json.json).run()
}
