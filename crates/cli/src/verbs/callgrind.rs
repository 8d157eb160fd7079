//! `flamelet callgrind`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::CallgrindArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the call graph for KCachegrind and callgrind_annotate",
        examples: &[("flamelet callgrind cpu.pb.gz -o callgrind.out", "then: kcachegrind callgrind.out")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Callgrind).run()
}
