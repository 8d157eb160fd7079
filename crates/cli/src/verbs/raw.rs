//! `flamelet raw`: everything in the profile as text.

use crate::arguments::guide::Guide;
use crate::arguments::options::Raw;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = DataReport<Raw>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show everything in the profile as text",
        examples: &[("flamelet raw cpu.pb.gz | less", "samples, locations, mappings")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Raw)
}
