//! `flamelet callgrind`: the call graph for KCachegrind.

use crate::arguments::guide::Guide;
use crate::arguments::options::Callgrind;
use crate::arguments::report::ReportArgs;
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Callgrind>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the call graph for KCachegrind and callgrind_annotate",
        examples: &[("flamelet callgrind cpu.pb.gz -o callgrind.out", "then: kcachegrind callgrind.out")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.report.job(Question::Callgrind, &args.sources.sources, false).run()
}
