//! What `--help` and the manual say below the options: examples, exit status, environment.

use super::convert::table;
use crate::pprof_help;

/// What is told of a verb besides its options.
pub(crate) struct Guide {
    /// Command lines, and what each gives.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// Whatever else there is to say.
    pub(crate) more: String,
    /// What the exit status means, where it says more than [`EXIT_STATUS`].
    pub(crate) exit_status: Option<&'static str>,
}

/// What the exit status means for most verbs.
pub(crate) const EXIT_STATUS: &str = "0 done, 2 bad use or bad input.";

/// The variables that are read, and what they are for.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    ("PPROF_BINARY_PATH", "Where binaries and debug files are looked for [default: ~/pprof/binaries]."),
    ("DEBUGINFOD_URLS", "Servers that are asked for debug files by build id."),
    ("DEBUGINFOD_TIMEOUT", "How many seconds such a server may take."),
    ("XDG_CACHE_HOME", "Where their files are kept, in flamelet/ [default: ~/.cache]."),
    ("RUSTUP_HOME", "Where the source of the standard library is looked for [default: ~/.rustup]."),
    ("DISPLAY, WAYLAND_DISPLAY", "With either, view, demo and pprof -http and -web open a browser."),
];

/// How wide an example may be to have its meaning beside it, and the widest line.
const BESIDE: usize = 42;
const WIDEST: usize = 80;

impl Guide {
    /// As it stands below the options.
    pub(crate) fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.examples.is_empty() {
            let lines: Vec<String> = self.examples.iter().map(|&(line, what)| example(line, what)).collect();
            parts.push(format!("Examples:\n{}", lines.join("\n")));
        }
        if !self.more.is_empty() {
            parts.push(self.more.clone());
        }
        parts.extend(self.exit_status.map(|status| format!("Exit status: {status}")));
        parts.join("\n\n")
    }
}

fn example(line: &str, what: &str) -> String {
    if what.is_empty() {
        format!("  {line}")
    } else if line.len() < BESIDE && 2 + BESIDE + what.chars().count() <= WIDEST {
        format!("  {line:<BESIDE$}{what}")
    } else {
        format!("  {line}\n      {what}")
    }
}

const SPELLING: &str =
    "Options are spelt as in pprof (--nodecount, --tagfocus); a dash between their words is understood too.";

/// What is told of the command itself.
pub(crate) fn of_command() -> Guide {
    Guide {
        examples: &[
            ("flamelet top cpu.pb.gz", "the functions that cost most"),
            ("flamelet top http://localhost:3000", "30 s of CPU of a running service"),
            ("flamelet flame cpu.pb.gz -o cpu.html", "a picture to look at or send"),
            ("flamelet diff before.pb.gz after.pb.gz", "what changed, and is it noise"),
            ("flamelet check main.pb.gz branch.pb.gz --max-growth 5%", ""),
            ("flamelet pprof -top -cum cpu.pb.gz", "go tool pprof's own command line"),
        ],
        more: SPELLING.to_owned(),
        exit_status: Some(
            "0 done; 1 the answer is no (check, doctor, record --strict); 2 bad use or bad input. \
             record passes on the status of the command that it ran.",
        ),
    }
}

/// What is told of a verb.
pub(crate) fn of(verb: &str) -> Guide {
    let exit_status = match verb {
        "check" => Some("0 nothing grew, 1 something did, 2 bad use or bad input."),
        "doctor" => Some("0 all that is needed is there, 1 something is missing, 2 bad use or bad input."),
        "record" => Some(
            "the command's own, or 128 and the number of the signal that ended it (143 after --duration); 1 with \
             --strict when the recording is poor; 2 flamelet failed; 0 otherwise.",
        ),
        _ => None,
    };
    let more = match verb {
        "convert" => table(),
        "pprof" => pprof_help::OPTIONS.to_owned(),
        "run" => {
            "Each run has a folder of its own, {output}/{name}/{time}-{tool}/, with the tool's file and a \
                  pprof made of it."
                .to_owned()
        }
        _ => String::new(),
    };
    Guide { examples: examples(verb), more, exit_status }
}

fn examples(verb: &str) -> &'static [(&'static str, &'static str)] {
    match verb {
        "top" => &[
            ("flamelet top cpu.pb.gz", "the functions that cost most"),
            ("flamelet top cpu.pb.gz --cum -n 10", "ten, with all that they call"),
            ("flamelet top cpu.pb.gz --focus serde", "only what passes through it"),
            ("flamelet top http://localhost:3000 --seconds 5", "of a running service"),
            ("flamelet top heap.pb.gz -i alloc_space --json", "another of its values, as data"),
        ],
        "tree" => &[
            ("flamelet tree cpu.pb.gz -n 20", "twenty functions, with their calls"),
            ("flamelet tree cpu.pb.gz --ignore 'tokio::'", "without what passes through tokio"),
        ],
        "peek" => &[("flamelet peek 'serde_json::de' cpu.pb.gz", "who calls it, whom it calls")],
        "list" => &[
            ("flamelet list my_service::handler cpu.pb.gz", "the cost of each line"),
            (
                "flamelet list handler cpu.pb.gz --source-path /src/my-service",
                "where the source is elsewhere",
            ),
        ],
        "disasm" => &[
            ("flamelet disasm my_service::hot_loop cpu.pb.gz", "the cost of each instruction"),
            ("flamelet disasm hot_loop cpu.pb.gz --binary ./service", "where the binary is elsewhere"),
        ],
        "traces" => &[
            ("flamelet traces cpu.pb.gz --focus handler", "every stack with the handler in it"),
            ("flamelet traces cpu.pb.gz --json", "as data"),
        ],
        "tags" => &[
            ("flamelet tags cpu.pb.gz", "what each route, thread, … cost"),
            ("flamelet tags cpu.pb.gz --tagshow route", "of one label"),
        ],
        "raw" => &[("flamelet raw cpu.pb.gz | less", "samples, locations, mappings")],
        "info" => &[
            ("flamelet info cpu.pb.gz", "what it is, and how good"),
            ("flamelet info cpu.pb.gz --json", "as data"),
        ],
        "comments" => &[("flamelet comments cpu.pb.gz", "what its writer noted")],
        "dot" => &[("flamelet dot cpu.pb.gz -o cpu.dot", "then: dot -Tpdf cpu.dot -o cpu.pdf")],
        "graph" => &[
            ("flamelet graph cpu.pb.gz -o cpu.svg", "boxes and arrows, without Graphviz"),
            ("flamelet graph perf.data --call-tree -o cpu.svg", "a tree, from perf's file"),
        ],
        "callgrind" => {
            &[("flamelet callgrind cpu.pb.gz -o callgrind.out", "then: kcachegrind callgrind.out")]
        }
        "proto" => &[(
            "flamelet proto cpu.pb.gz --tagfocus route=/login -o login.pb.gz",
            "the samples of one route, as a file of their own",
        )],
        "topproto" => &[("flamelet topproto cpu.pb.gz -n 20 -o top.pb.gz", "the top 20 as a small file")],
        "flame" => &[
            ("flamelet flame cpu.pb.gz -o cpu.svg", "a picture"),
            ("flamelet flame cpu.pb.gz -o cpu.html", "a page to look at or send"),
            ("flamelet flame cpu.pb.gz --inverted > cpu.svg", "from the leaves up"),
        ],
        "heap" => &[
            ("flamelet heap http://localhost:3000", "who holds memory now"),
            ("flamelet heap http://localhost:3000 --growth --seconds 60", "what grows in a minute"),
            (
                "flamelet heap monday.pb.gz tuesday.pb.gz wednesday.pb.gz",
                "what grew, and whether it grows steadily",
            ),
            ("flamelet heap http://localhost:3000 --freed", "who frees what others allocated"),
            ("flamelet heap http://localhost:3000 --temporary", "what lives for nothing"),
            ("flamelet heap /var/lib/service/heap.ledger --peak", "of a service that was killed"),
        ],
        "diff" => &[
            ("flamelet diff before.pb.gz after.pb.gz", "by functions' own cost"),
            ("flamelet diff before.pb.gz after.pb.gz --cum", "by cost with all they call"),
            ("flamelet diff before.pb.gz after.pb.gz --normalize", "shares, where one ran longer"),
        ],
        "check" => &[
            ("flamelet check main.pb.gz branch.pb.gz --max-growth 5%", "fails when a function grew more"),
            ("flamelet check main.pb.gz branch.pb.gz --json -o verdict.json", "as data"),
        ],
        "merge" => &[
            ("flamelet merge monday.pb.gz tuesday.pb.gz -o both.pb.gz", "two into one"),
            ("flamelet merge after.pb.gz --base before.pb.gz -o grown.pb.gz", "what came in between"),
        ],
        "symbolize" => &[(
            "flamelet symbolize raw.pb.gz --binary ./service.debug -o named.pb.gz",
            "names from a debug file",
        )],
        "fetch" => &[
            ("flamelet fetch http://localhost:3000 --seconds 10 -o cpu.pb.gz", "10 s of CPU"),
            ("flamelet fetch http://localhost:3000/debug/pprof/heap", "into heap-001.pb.gz"),
        ],
        "convert" => &[
            ("flamelet convert perf.data -o cpu.speedscope.json", "for speedscope"),
            ("flamelet convert cpu.pb.gz --to folded", "one line a stack, to the terminal"),
        ],
        "record" => &[
            ("flamelet record -- ./service --port 3000", "until it ends, or Ctrl-C"),
            ("flamelet record -p 1234 --duration 10 -o cpu.html", "a running process, as a page"),
            ("flamelet record --off-cpu -p 1234", "where it waits, too"),
            ("flamelet record --syscalls -- ls -R /", "counts, errors and latency"),
            ("flamelet record --heap -- ./service", "every allocation, from outside"),
            ("flamelet record -e syscalls:sys_enter_getrandom -- ./service", "who causes an event"),
            (
                "flamelet record --load 'wrk http://localhost:3000' --duration 30 -- ./service",
                "under load, for half a minute",
            ),
        ],
        "run" => &[
            ("flamelet run list", "what is installed, good for, costs"),
            ("flamelet run callgrind --duration 60 -- ./service", "for a minute, then opened"),
            ("flamelet run strace -p 1234 --duration 10", "a running process"),
            ("flamelet run massif --memory-limit 1GB -o /opt/profiling -- ./service", "kept elsewhere"),
            (
                "flamelet run bpftrace --script 'tracepoint:syscalls:sys_enter_read { @[ustack] = count(); }' -- ls",
                "any program of bpftrace's",
            ),
        ],
        "doctor" => &[
            ("flamelet doctor", "what can be recorded here"),
            ("flamelet doctor ./target/release/service", "will it have names and lines"),
            ("flamelet doctor 1234", "the same of a running process"),
        ],
        "recover" => &[
            ("flamelet recover /var/lib/service/heap.ledger", "into heap.pb.gz"),
            ("flamelet recover heap.ledger --binary ./service -o oom.pb.gz", "names from this binary"),
        ],
        "view" => &[
            ("flamelet view cpu.pb.gz", "one profile"),
            ("flamelet view before.pb.gz after.pb.gz", "two, and what changed"),
            ("flamelet view http://localhost:3000", "a service, again and again"),
            ("flamelet view /opt/profiling/my-service", "a folder to choose from"),
            ("flamelet view --host 0.0.0.0 --port 8080 cpu.pb.gz", "in a container, whose port is published"),
            ("flamelet view --source-path ~/checkout cpu.pb.gz", "with the source files below this folder"),
        ],
        "demo" => &[
            ("flamelet demo", "profile it, then look at it"),
            ("flamelet demo --once -o /tmp/demo", "only keep the files"),
        ],
        "pprof" => &[
            ("flamelet pprof -top -cum cpu.pb.gz", "one report"),
            ("flamelet pprof -http=:8080 cpu.pb.gz", "the page, on that port"),
            ("flamelet pprof -top -inuse_space ./service heap.pb.gz", "a binary first, if names are there"),
            ("flamelet pprof http://localhost:3000", "30 s of CPU, then a shell"),
            ("flamelet pprof cpu.pb.gz", "a shell: top, list main, help, quit"),
        ],
        "completions" => &[
            ("flamelet completions bash > /etc/bash_completion.d/flamelet", ""),
            ("flamelet completions zsh > /usr/local/share/zsh/site-functions/_flamelet", ""),
        ],
        "man" => &[("flamelet man /usr/local/share/man/man1", "then: man flamelet-top")],
        _ => &[],
    }
}
