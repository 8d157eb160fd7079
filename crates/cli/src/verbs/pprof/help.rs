//! What `flamelet pprof -help` and its manual page say of pprof's flags.

/// The flags, below the examples.
pub(super) const OPTIONS: &str = "\
Reports, one at most; without any, a shell:
  -top, -text      the functions that cost most
  -tree            functions with their callers and callees
  -peek=REGEX      … of those that match
  -list=REGEX      their source, with the cost of each line
  -disasm=REGEX    their instructions
  -traces, -tags, -raw, -comments
  -svg             the call graph as a picture
  -web             … in the browser
  -dot             … as text for Graphviz
  -flamegraph      a flame graph as a picture
  -html            … as one interactive page
  -callgrind, -proto, -topproto
  -http=HOST:PORT  the page of `flamelet view`, there; :8080 is on loopback only, elsewhere it shows no source files
  -no_browser      … without opening a browser
  -output=FILE     where the report goes

Profiles:
  -base=SOURCE, -diff_base=SOURCE, -normalize
  -seconds=N, -timeout=N, -tls_ca=FILE, -tls_cert=FILE, -tls_key=FILE
  -symbolize=none|local|remote|force

Which part:
  -focus, -ignore, -hide, -show, -show_from, -prune_from: each =REGEX
  -tagfocus, -tagignore, -tagshow, -taghide: each =REGEX, key=REGEX or a range

Values and grouping:
  -sample_index=TYPE, or -inuse_space, -inuse_objects, -alloc_space,
  -alloc_objects, -contentions, -total_delay, -mean_delay
  -mean, -unit=UNIT, -divide_by=X, -relative_percentages
  -granularity=HOW, or -functions, -filefunctions, -files, -lines, -addresses
  -noinlines, -showcolumns, -tagroot=KEYS, -tagleaf=KEYS, -call_tree

What is shown:
  -cum, -flat, -sort=cum|flat, -nodecount=N, -nodefraction=F, -edgefraction=F
  -trim=false, -drop_negative, -compact_labels, -intel_syntax
  -source_path=PATHS, -trim_path=PATHS";

/// What to do instead of what pprof has and flamelet has not; `None` for what neither has.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "png" | "gif" | "pdf" | "ps" | "eps" | "jpg" => {
            "flamelet draws SVG: use -svg, or `flamelet graph FILE -o graph.svg`"
        }
        "evince" | "gv" | "eog" => "flamelet draws SVG: use -web to see it in the browser, or -svg",
        "weblist" => "use -list=REGEX, or -http=:0 for the page, which shows source too",
        "kcachegrind" => "write the file with -callgrind -output=FILE and open that",
        _ => return None,
    })
}
