//! Help on pprof's flags, for `flamelet pprof -help`, its manual page and its shell.

use flamelet_report::{OPTIONS, ReportOption};

use crate::error::{Failure, Result};

/// The flags that are not options of a report.
const FLAGS: &str = "\
Reports (at most one; without one, a shell starts):
  -top, -text           the most expensive functions
  -tree                 functions with their callers and callees
  -peek=REGEX           callers and callees of matching functions
  -list=REGEX           their source, with the cost of each line
  -disasm=REGEX         their instructions, with the cost of each
  -traces, -tags, -raw, -comments
  -svg, -png            the call graph as a picture
  -web                  the call graph in the browser
  -dot                  the call graph as text for Graphviz
  -flamegraph           a flame graph as SVG
  -html                 a flame graph as one interactive page
  -callgrind, -proto, -topproto
  -http=HOST:PORT       serve the viewer there; :8080 is on loopback only, other hosts see no source files
  -no_browser           do not open a browser for -http
  -output=FILE          write the report to this file

Profiles:
  -base=SOURCE, -diff_base=SOURCE, -normalize
  -seconds=N, -timeout=N, -tls_ca=FILE, -tls_cert=FILE, -tls_key=FILE
  -symbolize=none|local|remote|force
  -total_delay          the same as -sample_index=delay
  -mean_delay           the same with -mean";

/// How wide a flag may be to have its description next to it.
const BESIDE: usize = 22;

/// Lists all flags, for the help below the examples.
pub(super) fn flags() -> String {
    let mut text = FLAGS.to_owned();
    let mut section = None;
    for option in OPTIONS {
        if section.replace(option.section) != Some(option.section) {
            let title = if option.section.is_empty() { "Other" } else { option.section };
            text.push_str(&format!("\n\n{title}:"));
        }
        text.push_str(&format!("\n{}", line(option)));
    }
    text
}

fn line(option: &ReportOption) -> String {
    let flags = match (option.value_name, option.flag) {
        ("", Some((_, "true")) | None) => format!("-{}", option.name),
        ("", Some((_, value))) => format!("-{}={value}", option.name),
        (value, _) => format!("-{}={value}", option.name),
    };
    let choices = option.choices.iter().map(|choice| format!("-{choice}"));
    let flags = std::iter::once(flags).chain(choices).collect::<Vec<_>>().join(", ");
    match flags.len() < BESIDE {
        true => format!("  {flags:<BESIDE$}{}", option.help),
        false => format!("  {flags}\n  {:BESIDE$}{}", "", option.help),
    }
}

/// Returns what `help NAME` prints in the shell.
pub(super) fn of_option(name: &str) -> Result<String> {
    ReportOption::named(name).map(line).ok_or_else(|| unknown_option(name))
}

/// Returns the error for an unknown option, with an alternative if there is one.
pub(super) fn unknown_option(name: &str) -> Failure {
    Failure::new(match instead_of(name) {
        Some(instead) => format!("-{name}: {instead}"),
        None => format!("unknown option -{name}; `flamelet pprof -help` lists all options"),
    })
}

/// Returns the alternative to an option that pprof has and flamelet does not; `None` if neither has it.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "gif" | "pdf" | "ps" | "eps" | "jpg" => {
            "flamelet draws SVG and PNG: use -svg or -png, or `flamelet graph FILE -o graph.svg`"
        }
        "evince" | "gv" | "eog" => {
            "flamelet draws SVG and PNG: use -web to see it in the browser, or -svg or -png"
        }
        "weblist" => "use -list=REGEX, or -http=:0 for the viewer, which shows source too",
        "kcachegrind" => "write the file with -callgrind -output=FILE and open that",
        _ => return None,
    })
}
