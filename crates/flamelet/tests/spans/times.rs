//! The times of spans.

use tracing::Instrument;

use super::*;

/// Count, busy and idle time of the spans with this path, innermost first.
fn find(profile: &Profile, path: &[&str]) -> [u64; 3] {
    let found = profile.samples().find(|sample| functions(profile, sample).eq(path.iter().copied()));
    found.map_or([0; 3], |sample| [0, 1, 2].map(|at| sample.values[at] as u64))
}

#[test]
fn busy_and_idle_are_what_the_program_has_measured() {
    const ROUNDS: u64 = 5;
    let (profiler, runtime) = (profiler(), runtime());
    let mut elapsed = Duration::ZERO;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let inner = async {
            burn_cycles(WAIT);
            tokio::time::sleep(WAIT).await;
        };
        let outer = async {
            inner.instrument(tracing::info_span!("times_inner")).await;
            burn_cycles(WAIT);
        };
        let work = outer.instrument(tracing::info_span!("times_outer"));
        runtime.block_on(runtime.spawn(work)).expect("no panic");
        elapsed += start.elapsed();
    }
    let spans = profiler.spans();
    let (outer, inner) = (find(&spans, &["times_outer"]), find(&spans, &["times_inner", "times_outer"]));
    assert_eq!((outer[0], inner[0]), (ROUNDS, ROUNDS), "closed");
    let least = ROUNDS * WAIT.as_nanos() as u64;
    assert!(outer[1] >= least && inner[1] >= least, "busy: {outer:?} {inner:?}");
    assert!(inner[2] > 0, "idle: {inner:?}");
    // No wait is counted twice: not for the outer span while the inner one is busy or idle. (The steps from one span to the
    // other are, which are short unless the thread loses the CPU there.)
    let counted: u64 = [outer[1], outer[2], inner[1], inner[2]].iter().sum();
    let most = elapsed + (ROUNDS as u32 - 1) * WAIT;
    assert!(u128::from(counted) <= most.as_nanos(), "{counted} of {elapsed:?}: {outer:?} {inner:?}");
    // The timer runs from a moment of the inner span, so all of it is counted.
    assert!(counted >= 3 * least - least / 10, "{counted}: {outer:?} {inner:?}");
}

#[test]
fn go_tool_pprof_reads_spans() {
    if pprof::lacks_pprof() {
        return;
    }
    let profiler = profiler();
    tracing::info_span!("seen_by_pprof").in_scope(|| burn_cycles(Duration::from_millis(1)));
    let server = profiler.serve("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/debug/pprof/spans", server.address());
    let top = pprof::run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url);
    assert!(top.contains("Type: busy") && top.contains("seen_by_pprof"), "{top}");
    let raw = pprof::run_pprof(&["-raw"], &url);
    assert!(raw.contains("spans/count busy/nanoseconds[dflt] idle/nanoseconds"), "{raw}");
    let delta = pprof::run_pprof(&["-raw"], &format!("{url}?seconds=1"));
    assert!(!delta.contains("seen_by_pprof"), "it was over before: {delta}");
}
