//! `flamelet list`: annotated source.

use crate::arguments::guide::Guide;
use crate::arguments::options::List;
use crate::arguments::report::MatchReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = MatchReport<List>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the source of matching functions, with the cost of each line",
        examples: &[
            ("flamelet list my_service::handler cpu.pb.gz", "the cost of each line"),
            (
                "flamelet list handler cpu.pb.gz --source-path /src/my-service",
                "with another path to the source",
            ),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::List)
}
