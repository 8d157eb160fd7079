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
        about: "Say what stands out, how sure that is, and what usually helps",
        examples: &[
            ("flamelet explain cpu.pb.gz", "what stands out, the largest first"),
            ("flamelet explain http://localhost:3000 --seconds 10", "in a running service"),
            ("flamelet explain heap.pb.gz -i inuse_space", "in a heap"),
            ("flamelet explain cpu.pb.gz --mine '^house_'", "with the crates of the house as your own code"),
            ("flamelet explain cpu.pb.gz --json", "as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let sources = &args.sources.sources;
    let question = Question::Explain { mine: args.mine.mine.clone(), file: sources.join(" ") };
    args.report.job(question, sources, args.json.json).run()
}
