//! `flamelet disasm`: annotated instructions.

use crate::arguments::guide::Guide;
use crate::arguments::options::Disasm;
use crate::arguments::report::MatchReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = MatchReport<Disasm>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the instructions of matching functions, with the cost of each",
        examples: &[
            ("flamelet disasm my_service::hot_loop cpu.pb.gz", "the cost of each instruction"),
            ("flamelet disasm hot_loop cpu.pb.gz --binary ./service", "with another path to the binary"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Disasm)
}
