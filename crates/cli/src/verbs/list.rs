//! `flamelet list`: annotated source.

use crate::arguments::guide::Guide;
use crate::arguments::options::List;
use crate::arguments::report::{JsonArgs, MatchArgs, ReportArgs};
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    report: ReportArgs<List>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the source of the functions that match an expression, with the cost of each line",
        examples: &[
            ("flamelet list my_service::handler cpu.pb.gz", "the cost of each line"),
            (
                "flamelet list handler cpu.pb.gz --source-path /src/my-service",
                "where the source is elsewhere",
            ),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (expression, sources) = args.matched.expression_and_sources();
    args.report.job(Question::List(expression), sources, args.json.json).run()
}
