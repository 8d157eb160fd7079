//! `flamelet top`: functions by cost.

use crate::arguments::guide::Guide;
use crate::arguments::options::Top;
use crate::arguments::report::{JsonArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Top>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the functions that cost most",
        examples: &[
            ("flamelet top cpu.pb.gz", "the functions that cost most"),
            ("flamelet top cpu.pb.gz --cum -n 10", "ten, with all that they call"),
            ("flamelet top cpu.pb.gz --focus serde", "only what passes through it"),
            ("flamelet top http://localhost:3000 --seconds 5", "of a running service"),
            ("flamelet top heap.pb.gz -i alloc_space --json", "another of its values, as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Top, &args.sources.sources, args.json.json).run()
}
