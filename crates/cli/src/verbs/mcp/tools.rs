//! The table of tools.

use super::parameters::{Arguments, Parameter};
use super::server::McpServer;
use super::{answer, take};
use crate::error::Result;

/// A tool: how clients see it, and what it does.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) parameters: &'static [&'static [Parameter]],
    pub(super) needs: Needs,
    pub(super) run: fn(&McpServer, &Arguments<'_>) -> Result<String>,
}

/// What the command line must allow for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Hosts,
    Recording,
}

const MOST_ROWS: u64 = 100;
/// The longest recording, and the longest capture of a service.
const LONGEST_SECONDS: u64 = 120;

const PROFILE: &[Parameter] = &[Parameter::text(
    "profile",
    "A file in an allowed folder (any common profile format), or the name that `record` or `fetch` returned",
)
.required()];
const FILTERS: &[Parameter] = &[
    Parameter::option("sample_index"),
    Parameter::option("focus"),
    Parameter::option("ignore"),
    Parameter::option("tagfocus"),
];
const FUNCTION: &[Parameter] =
    &[Parameter::text("function", "A regular expression for the names of functions").required()];
const MINE: &[Parameter] = &[Parameter::texts(
    "mine",
    "Regular expressions: functions whose name or file matches count as the user's own code",
)];
const ROWS: &[Parameter] = &[Parameter::count("rows", MOST_ROWS, "How many rows to show (default 20)")];
const CUM: &[Parameter] =
    &[Parameter::switch("cum", "Sort by cumulative cost (with callees) instead of own cost")];
const SECONDS: &[Parameter] = &[Parameter::count("seconds", LONGEST_SECONDS, "How long (default 10)")];
const SAVE: &[Parameter] = &[Parameter::text(
    "save_as",
    "Also save it in the server's --write folder under this name, such as before.pb.gz",
)];

/// All tools, in the order that clients see.
pub(super) static TOOLS: &[Tool] = &[
    Tool {
        name: "open",
        description: "Say what a profile is and how good it is: its sample types, size, labels, problems. \
                      For a folder (default: the allowed ones), list the files in it.",
        parameters: &[&[Parameter::text("path", "A file, a folder, or the name of a kept profile")]],
        needs: Needs::Nothing,
        run: answer::open,
    },
    Tool {
        name: "explain",
        description: "Say what stands out in a profile, how sure that is, where it is, and what usually helps. \
                      Start here.",
        parameters: &[PROFILE, FILTERS, MINE],
        needs: Needs::Nothing,
        run: answer::explain,
    },
    Tool {
        name: "top",
        description: "The functions that cost most. by=yours charges the cost of libraries to the user's own \
                      functions, which is usually the better question; by=crate, module, line or thread sums up.",
        parameters: &[
            PROFILE,
            &[Parameter::choice(
                "by",
                &["yours", "crate", "module", "line", "thread"],
                "Group by this (default: functions)",
            )],
            ROWS,
            CUM,
            FILTERS,
            MINE,
        ],
        needs: Needs::Nothing,
        run: answer::top,
    },
    Tool {
        name: "peek",
        description: "Callers and callees of the functions that match: which callers make a function expensive, and what it calls.",
        parameters: &[PROFILE, FUNCTION, FILTERS],
        needs: Needs::Nothing,
        run: answer::peek,
    },
    Tool {
        name: "list",
        description: "The source of the functions that match, with the cost of each line. Shows source files below \
                      the allowed folders, and the standard library's; for other files, only line numbers and costs.",
        parameters: &[PROFILE, FUNCTION, FILTERS],
        needs: Needs::Nothing,
        run: answer::list,
    },
    Tool {
        name: "diff",
        description: "What changed between two profiles, function by function, and whether that is more than noise.",
        parameters: &[
            &[
                Parameter::text("before", "A file in an allowed folder, or the name of a kept profile")
                    .required(),
                Parameter::text("after", "Another one").required(),
                Parameter::switch(
                    "normalize",
                    "Scale the second so that the totals are equal: compare shares",
                ),
            ],
            ROWS,
            CUM,
            FILTERS,
        ],
        needs: Needs::Nothing,
        run: answer::diff,
    },
    Tool {
        name: "record",
        description: "Sample a running process or a new command for some seconds, and return the name of the profile \
                      and its quality. The command's own output is dropped.",
        parameters: &[
            &[
                Parameter::texts("command", "The program and its arguments; it is run without a shell"),
                Parameter::text("process", "The id or the name of a running process, instead of a command"),
                Parameter::switch("off_cpu", "Also record blocked time"),
                Parameter::switch("heap", "Record the command's allocations instead of CPU time"),
            ],
            SECONDS,
            SAVE,
        ],
        needs: Needs::Recording,
        run: take::record,
    },
    Tool {
        name: "fetch",
        description: "Ask a running service for a profile, and return its name and its quality. Without a path in the \
                      address it is the CPU profile; /debug/pprof/heap is what holds memory.",
        parameters: &[
            &[Parameter::text("address", "Such as http://localhost:3000/debug/pprof/profile").required()],
            SECONDS,
            SAVE,
        ],
        needs: Needs::Hosts,
        run: take::fetch,
    },
];
