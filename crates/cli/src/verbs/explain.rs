//! `flamelet explain`: what stands out, in sentences.

use crate::arguments::guide::Guide;
use crate::arguments::options::Explain;
use crate::arguments::report::{JsonArgs, MineArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
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
            ("flamelet explain cpu.pb.gz --mine '^house_'", "count crates named house_… as your code"),
            ("flamelet explain cpu.pb.gz --json", "as JSON"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let sources = &args.sources.sources;
    let question = Question::Explain { mine: args.mine.mine.clone(), file: sources.join(" ") };
    args.report.job(question, sources, args.json.json).run()
}
