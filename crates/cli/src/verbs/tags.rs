//! `flamelet tags`: the cost of each label value.

use crate::arguments::guide::Guide;
use crate::arguments::options::Tags;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<Tags>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the cost of each label value",
        examples: &[
            ("flamelet tags cpu.pb.gz", "the cost of each route, thread, …"),
            ("flamelet tags cpu.pb.gz --tagshow route", "only one label"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Tags)
}
