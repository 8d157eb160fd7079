//! `flamelet disasm`: annotated instructions.

use crate::arguments::guide::Guide;
use crate::arguments::options::Disasm;
use crate::arguments::report::{JsonArgs, MatchArgs, ReportArgs};
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    report: ReportArgs<Disasm>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the instructions of the functions that match an expression, with the cost of each",
        examples: &[
            ("flamelet disasm my_service::hot_loop cpu.pb.gz", "the cost of each instruction"),
            ("flamelet disasm hot_loop cpu.pb.gz --binary ./service", "where the binary is elsewhere"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (expression, sources) = args.matched.expression_and_sources();
    args.report.job(Question::Disasm(expression), sources, args.json.json).run()
}
