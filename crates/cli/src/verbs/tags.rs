//! `flamelet tags`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::TagsArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what each label value cost",
        examples: &[
            ("flamelet tags cpu.pb.gz", "what each route, thread, … cost"),
            ("flamelet tags cpu.pb.gz --tagshow route", "of one label"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Tags).run()
}
