//! `flamelet info`: what a profile is and how good it is.

use crate::arguments::guide::Guide;
use crate::arguments::options::NoOptions;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<NoOptions>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show facts about a profile and its quality",
        examples: &[
            ("flamelet info cpu.pb.gz", "type, size, time, quality"),
            ("flamelet info cpu.pb.gz --json", "as JSON"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Info)
}
