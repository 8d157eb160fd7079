//! `flamelet topproto`: the functions of `top`, as a pprof file.

use crate::arguments::guide::Guide;
use crate::arguments::options::TopProto;
use crate::arguments::report::FileReport;
use crate::error::Result;
use crate::job::Question;

pub(crate) type Args = FileReport<TopProto>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the result of `top` as a pprof file",
        examples: &[("flamelet topproto cpu.pb.gz -n 20 -o top.pb.gz", "the top 20 as a small file")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.answer(Question::TopProto)
}
