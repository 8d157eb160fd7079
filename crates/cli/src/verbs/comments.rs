//! `flamelet comments`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::AboutArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the comments of a profile",
        examples: &[("flamelet comments cpu.pb.gz", "what its writer noted")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Comments).run()
}
