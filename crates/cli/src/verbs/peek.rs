//! `flamelet peek`: callers and callees of the functions that match.

use crate::arguments::guide::Guide;
use crate::arguments::options::Peek;
use crate::arguments::report::{JsonArgs, MatchArgs, ReportArgs};
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    report: ReportArgs<Peek>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show callers and callees of the functions that match an expression",
        examples: &[("flamelet peek 'serde_json::de' cpu.pb.gz", "who calls it, whom it calls")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (expression, sources) = args.matched.expression_and_sources();
    args.report.job(Question::Peek(expression), sources, args.json.json).run()
}
