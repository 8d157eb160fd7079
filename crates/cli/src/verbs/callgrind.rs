//! `flamelet callgrind`: the call graph for KCachegrind.

use crate::arguments::guide::Guide;
use crate::arguments::options::Callgrind;
use crate::arguments::report::FileReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = FileReport<Callgrind>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the call graph for KCachegrind and callgrind_annotate",
        examples: &[("flamelet callgrind cpu.pb.gz -o callgrind.out", "then: kcachegrind callgrind.out")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Callgrind)
}
