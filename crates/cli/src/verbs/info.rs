//! `flamelet info`: what a profile is and how good it is.

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
        about: "Say what a profile is and how good it is",
        examples: &[
            ("flamelet info cpu.pb.gz", "what it is, and how good"),
            ("flamelet info cpu.pb.gz --json", "as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Info, &args.sources.sources, args.json.json).run()
}
