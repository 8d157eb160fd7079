//! `flamelet list`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::ListArgs as Args;
use crate::error::Result;

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
    args.job().run()
}
