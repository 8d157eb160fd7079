//! The verbs that are one report each: their arguments, their help, and the question that they ask.

use crate::arguments::guide::Guide;
use crate::arguments::options::{
    Callgrind, Disasm, List, NoOptions, Peek, Proto, Raw, Tags, TopProto, Traces, Tree,
};
use crate::arguments::report::{DataReport, FileReport, MatchReport};
use crate::error::Result;
use crate::job::Question;

/// A module for each verb, as if it had a file of its own.
macro_rules! report_verbs {
    ($($verb:ident: $args:ty, $question:path, $about:literal, [$($example:expr,)*];)*) => {$(
        pub(super) mod $verb {
            use super::*;

            pub(crate) type Args = $args;

            pub(crate) fn guide() -> Guide {
                Guide { about: $about, examples: &[$($example),*], ..Guide::default() }
            }

            pub(crate) fn run(args: &Args) -> Result<()> {
                args.answer($question)
            }
        }
    )*};
}

report_verbs! {
    tree: DataReport<Tree>, Question::Tree, "Show functions with their callers and callees", [
        ("flamelet tree cpu.pb.gz -n 20", "twenty functions, with their calls"),
        ("flamelet tree cpu.pb.gz --ignore 'tokio::'", "without stacks through tokio"),
    ];
    peek: MatchReport<Peek>, Question::Peek, "Show the callers and callees of matching functions", [
        ("flamelet peek 'serde_json::de' cpu.pb.gz", "its callers and callees"),
    ];
    list: MatchReport<List>, Question::List, "Show the source of matching functions, with the cost of each line", [
        ("flamelet list my_service::handler cpu.pb.gz", "the cost of each line"),
        ("flamelet list handler cpu.pb.gz --source-path /src/my-service", "with another path to the source"),
    ];
    disasm: MatchReport<Disasm>, Question::Disasm, "Show the instructions of matching functions, with the cost of each", [
        ("flamelet disasm my_service::hot_loop cpu.pb.gz", "the cost of each instruction"),
        ("flamelet disasm hot_loop cpu.pb.gz --binary ./service", "with another path to the binary"),
    ];
    traces: DataReport<Traces>, Question::Traces, "Show every stack", [
        ("flamelet traces cpu.pb.gz --focus handler", "every stack with the handler in it"),
        ("flamelet traces cpu.pb.gz --json", "as JSON"),
    ];
    tags: DataReport<Tags>, Question::Tags, "Show the cost of each label value", [
        ("flamelet tags cpu.pb.gz", "the cost of each route, thread, …"),
        ("flamelet tags cpu.pb.gz --tagshow route", "only one label"),
    ];
    raw: DataReport<Raw>, Question::Raw, "Show everything in the profile as text", [
        ("flamelet raw cpu.pb.gz | less", "samples, locations, mappings"),
    ];
    info: DataReport<NoOptions>, Question::Info, "Show facts about a profile and its quality", [
        ("flamelet info cpu.pb.gz", "type, size, time, quality"),
        ("flamelet info cpu.pb.gz --json", "as JSON"),
    ];
    comments: DataReport<NoOptions>, Question::Comments, "Show the comments of a profile", [
        ("flamelet comments cpu.pb.gz", "notes by the program that wrote it"),
    ];
    callgrind: FileReport<Callgrind>, Question::Callgrind, "Write the call graph for KCachegrind and callgrind_annotate", [
        ("flamelet callgrind cpu.pb.gz -o callgrind.out", "then: kcachegrind callgrind.out"),
    ];
    proto: FileReport<Proto>, Question::Proto, "Write the filtered profile as a pprof file", [
        ("flamelet proto cpu.pb.gz --tagfocus route=/login -o login.pb.gz", "only the samples of one route"),
    ];
    topproto: FileReport<TopProto>, Question::TopProto, "Write the result of `top` as a pprof file", [
        ("flamelet topproto cpu.pb.gz -n 20 -o top.pb.gz", "the top 20 as a small file"),
    ];
}
