//! `flamelet list`: annotated source.

use crate::arguments::guide::Guide;
use crate::arguments::options::List;
use crate::arguments::report::MatchReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = MatchReport<List>;

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
    args.answer(Question::List)
}
