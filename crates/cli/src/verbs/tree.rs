//! `flamelet tree`.

use flamelet_report::Command;

use crate::arguments::guide::{Guide, entries_by_default};
pub(crate) use crate::arguments::report::TreeArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show functions with their callers and callees",
        examples: &[
            ("flamelet tree cpu.pb.gz -n 20", "twenty functions, with their calls"),
            ("flamelet tree cpu.pb.gz --ignore 'tokio::'", "without what passes through tokio"),
        ],
        own_help: vec![entries_by_default(Command::Tree.usual_node_count())],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Tree).run()
}
