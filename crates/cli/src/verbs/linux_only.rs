//! The verbs that sample a process, on systems where flamelet cannot: each says in one line what to do instead.

use std::ffi::OsString;

use crate::arguments::guide::Guide;

/// The arguments of these verbs elsewhere: whatever the Linux command takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The arguments that the verb takes on Linux
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    _ignored: Vec<OsString>,
}

/// How to get a profile of a process on this machine, with a tool of the system.
const HERE: &str = if cfg!(target_os = "macos") {
    "for a process on this Mac, run `sample PID 10 -file run.txt` and then `flamelet view run.txt`"
} else {
    "for a process on this machine, use its own profiler and open the file with `flamelet view`"
};
const FETCH: &str = "take a profile of a running service with `flamelet fetch http://HOST:PORT`";

/// A module for each verb, with its help and what it says.
macro_rules! linux_only {
    ($($verb:ident: $about:literal, $example:expr, $instead:expr;)*) => {$(
        pub(super) mod $verb {
            pub(crate) use super::Args;
            use super::*;

            pub(crate) fn guide() -> Guide {
                Guide { about: concat!($about, " (on Linux)"), examples: &[$example], ..Guide::default() }
            }

            pub(crate) fn run(_: &Args) -> crate::error::Result<()> {
                Err(crate::error::Failure::new(format!("{} works on Linux only; {}", stringify!($verb), $instead)))
            }
        }
    )*};
}

linux_only! {
    record: "Record a command or running processes", ("flamelet record -- ./service", "on the Linux machine"),
        format!("record there and open the file here, or {FETCH}; {HERE}");
    run: "Run another profiler (perf, strace, valgrind, heaptrack, bpftrace) and open its result",
        ("flamelet run callgrind -- ./service", "on the Linux machine"),
        format!("run the tool there and open its file here; {HERE}");
    doctor: "Check what can be profiled on this machine", ("flamelet doctor", "on the Linux machine"),
        format!("run it where the service runs; {HERE}");
    recover: "Make a heap profile from the recovery file of a killed service",
        ("flamelet recover heap.ledger", "on the Linux machine"),
        "run it there and open heap.pb.gz here";
    demo: "Profile a small built-in service and open the result", ("flamelet demo", "on the Linux machine"),
        format!("open a profile with `flamelet view FILE`, or {FETCH}");
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    #[test]
    fn each_says_what_to_do_in_one_line() {
        let args = Args { _ignored: Vec::new() };
        let said = [record::run, run::run, doctor::run, recover::run, demo::run];
        let guides = [record::guide, run::guide, doctor::guide, recover::guide, demo::guide];
        for (run, guide) in said.into_iter().zip(guides) {
            let said = run(&args).expect_err("it cannot work").to_string();
            assert!(said.contains(" works on Linux only; ") && !said.contains('\n'), "{said}");
            assert!(guide().about.ends_with("(on Linux)") && !guide().examples.is_empty());
        }
        assert!(record::run(&args).is_err_and(|said| said.to_string().contains("flamelet fetch http://")));
    }

    #[test]
    fn any_arguments_are_accepted() {
        let verb = record::guide().put_on(Args::augment_args(Command::new("record")));
        let words = ["record", "-p", "12", "--duration=3", "-o", "x.html", "--", "./service", "--port", "1"];
        verb.try_get_matches_from(words).expect("accepted");
    }
}
