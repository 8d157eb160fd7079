//! `flamelet info`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::AboutArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Say what a profile is and how good it is",
        examples: &[
            ("flamelet info cpu.pb.gz", "what it is, and how good"),
            ("flamelet info cpu.pb.gz --json", "as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Info).run()
}
