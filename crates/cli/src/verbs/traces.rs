//! `flamelet traces`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::TracesArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show every stack",
        examples: &[
            ("flamelet traces cpu.pb.gz --focus handler", "every stack with the handler in it"),
            ("flamelet traces cpu.pb.gz --json", "as data"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Traces).run()
}
