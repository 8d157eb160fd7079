//! `flamelet dot`: the call graph as text for Graphviz.

use crate::arguments::guide::Guide;
use crate::arguments::options::Dot;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::Question;
use crate::output;

pub(crate) type Args = DataReport<Dot>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write the call graph as DOT, for Graphviz",
        examples: &[("flamelet dot cpu.pb.gz -o cpu.dot", "then: dot -Tpdf cpu.dot -o cpu.pdf")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.output().and_then(output::extension) {
        Some("svg" | "png" | "pdf" | "html" | "htm" | "gif" | "ps" | "jpg") => {
            Err(output::unknown_extension(
                args.output(),
                "`flamelet dot` writes text for Graphviz; use `flamelet graph` for a picture",
                ".dot or .gv",
            ))
        }
        _ => args.answer(Question::Dot),
    }
}
