//! `flamelet traces`: every stack.

use crate::arguments::guide::Guide;
use crate::arguments::options::Traces;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<Traces>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show every stack",
        examples: &[
            ("flamelet traces cpu.pb.gz --focus handler", "every stack with the handler in it"),
            ("flamelet traces cpu.pb.gz --json", "as JSON"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Traces)
}
