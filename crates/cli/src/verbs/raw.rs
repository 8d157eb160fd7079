//! `flamelet raw`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::RawArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show everything in the profile as text",
        examples: &[("flamelet raw cpu.pb.gz | less", "samples, locations, mappings")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Raw).run()
}
