//! `flamelet peek`: callers and callees of the functions that match.

use crate::arguments::guide::Guide;
use crate::arguments::options::Peek;
use crate::arguments::report::MatchReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = MatchReport<Peek>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show callers and callees of the functions that match an expression",
        examples: &[("flamelet peek 'serde_json::de' cpu.pb.gz", "who calls it, whom it calls")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Peek)
}
