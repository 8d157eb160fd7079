//! `flamelet proto`: what the filters leave, as a pprof file.

use crate::arguments::guide::Guide;
use crate::arguments::options::Proto;
use crate::arguments::report::FileReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = FileReport<Proto>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the filtered profile as a pprof file",
        examples: &[(
            "flamelet proto cpu.pb.gz --tagfocus route=/login -o login.pb.gz",
            "only the samples of one route",
        )],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::Proto)
}
