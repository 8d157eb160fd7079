//! `flamelet comments`: the comments of a profile.

use crate::arguments::guide::Guide;
use crate::arguments::options::NoOptions;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<NoOptions>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the comments of a profile",
        examples: &[("flamelet comments cpu.pb.gz", "notes by the program that wrote it")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Comments)
}
