//! `flamelet top`.

use flamelet_report::Command;

use crate::arguments::guide::{Guide, entries_by_default};
pub(crate) use crate::arguments::report::TopArgs as Args;
use crate::error::Result;
use crate::job::Question;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the functions that cost most",
        examples: &[
            ("flamelet top cpu.pb.gz", "the functions that cost most"),
            ("flamelet top cpu.pb.gz --cum -n 10", "ten, with all that they call"),
            ("flamelet top cpu.pb.gz --focus serde", "only what passes through it"),
            ("flamelet top http://localhost:3000 --seconds 5", "of a running service"),
            ("flamelet top heap.pb.gz -i alloc_space --json", "another of its values, as data"),
        ],
        own_help: vec![entries_by_default(Command::Top.usual_node_count())],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job(Question::Top).run()
}
