//! `flamelet tree`: functions with their callers and callees.

use crate::arguments::guide::Guide;
use crate::arguments::options::Tree;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<Tree>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show functions with their callers and callees",
        examples: &[
            ("flamelet tree cpu.pb.gz -n 20", "twenty functions, with their calls"),
            ("flamelet tree cpu.pb.gz --ignore 'tokio::'", "without stacks through tokio"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Tree)
}
