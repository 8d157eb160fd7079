//! `flamelet peek`: callers and callees of the functions that match.

use crate::arguments::guide::Guide;
use crate::arguments::options::Peek;
use crate::arguments::report::MatchReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = MatchReport<Peek>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the callers and callees of matching functions",
        examples: &[("flamelet peek 'serde_json::de' cpu.pb.gz", "its callers and callees")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Peek)
}
