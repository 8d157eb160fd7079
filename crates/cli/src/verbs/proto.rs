//! `flamelet proto`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::ProtoArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write what the filters leave as a pprof file",
        examples: &[(
            "flamelet proto cpu.pb.gz --tagfocus route=/login -o login.pb.gz",
            "the samples of one route, as a file of their own",
        )],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Proto).run()
}
