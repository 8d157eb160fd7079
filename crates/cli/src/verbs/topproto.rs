//! `flamelet topproto`.

use flamelet_report::Command;

use crate::arguments::guide::{Guide, entries_by_default};
pub(crate) use crate::arguments::report::TopProtoArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the functions of `top` as a pprof file",
        examples: &[("flamelet topproto cpu.pb.gz -n 20 -o top.pb.gz", "the top 20 as a small file")],
        own_help: vec![entries_by_default(Command::TopProto.usual_node_count())],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::TopProto).run()
}
