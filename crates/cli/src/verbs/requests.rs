//! `flamelet requests`: what the requests of a service spend their time on.

use std::io::Write;

use flamelet_view::{LONGEST_REQUESTS, RequestTimes, Requests};

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::service::ServiceArgs as Args;
use crate::error::{Failure, Result};
use crate::output;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show what the requests of a service spend their time on, by route",
        examples: &[
            ("flamelet requests http://localhost:3000", "a table; the routes that took the most time come first"),
            ("flamelet requests http://localhost:3000 --json", "for scripts; all times in nanoseconds"),
        ],
        more: "Wall time = CPU + blocked (a lock or a system call holds up the thread) + awaiting (async waits) + \
               runnable (woken, but no thread is free). Requests whose client went away before the answer are \
               counted as cancelled, and not timed. The service counts since its start; it needs \
               `.layer(flamelet::axum::layer(&profiler))` on its router."
            .to_owned(),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let bytes = args.ask("requests", LONGEST_REQUESTS)?;
    let requests =
        Requests::parse(&bytes).map_err(|error| Failure::new(format!("{}: {error}", args.address())))?;
    match args.wants_json() {
        true => output::write(None, |out| Ok(out.write_all(&bytes)?)),
        false => output::text::write(None, |out| write_table(&requests, out)),
    }
}

fn write_table(requests: &Requests, out: &mut dyn Write) -> Result<()> {
    if requests.routes.is_empty() {
        let hint = "no requests yet; the service counts those that pass flamelet::axum::layer";
        return Ok(writeln!(out, "{hint}")?);
    }
    writeln!(
        out,
        "{:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>8} {:>9} {:>9}  route",
        "requests",
        "errors",
        "cancelled",
        "p50",
        "p90",
        "p99",
        "max",
        "CPU",
        "blocked",
        "awaiting",
        "runnable"
    )?;
    for route in &requests.routes {
        write!(out, "{:>9} {:>7} {:>9}", route.all.count, route.errors, route.cancelled)?;
        for nanos in [route.p50_ns, route.p90_ns, route.p99_ns, route.max_ns] {
            write!(out, " {:>9}", time(nanos))?;
        }
        write_parts(&route.all, out)?;
        writeln!(out, "  {} {}", on_one_line(&route.method), on_one_line(&route.route))?;
        write!(out, "{:>67}", format!("slowest {}", route.slowest.count))?;
        write_parts(&route.slowest, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_parts(times: &RequestTimes, out: &mut dyn Write) -> Result<()> {
    let share = |part: u64| format!("{:.1}%", 100.0 * part as f64 / times.wall_ns.max(1) as f64);
    let [cpu, blocked] = [times.cpu_ns, times.blocked_ns].map(share);
    let [awaiting, runnable] = [times.awaiting_ns, times.runnable_ns].map(share);
    Ok(write!(out, " {cpu:>6} {blocked:>8} {awaiting:>9} {runnable:>9}")?)
}

/// A name with a line break could pass for a row of its own.
fn on_one_line(name: &str) -> String {
    name.replace('\n', "\\n")
}

fn time(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{:.1}us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}ms", nanos as f64 / 1e6),
        _ => format!("{:.2}s", nanos as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_shares_of_each_route() {
        let text = br#"{"routes": [{"route": "/a\nb", "method": "GET", "count": 4, "wall_ns": 4000000, "cpu_ns": 1000000,
            "blocked_ns": 0, "awaiting_ns": 3000000, "runnable_ns": 0, "errors": 1, "cancelled": 71, "p50_ns": 900000,
            "p90_ns": 1300000, "p99_ns": 2000000000, "max_ns": 1500000, "slowest": {"count": 1, "wall_ns": 10, "cpu_ns": 10,
            "blocked_ns": 0, "awaiting_ns": 0, "runnable_ns": 0}}]}"#;
        let requests = Requests::parse(text).expect("JSON");
        let mut out = Vec::new();
        write_table(&requests, &mut out).expect("written");
        let out = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = out.lines().collect();
        for word in [" 71 ", "25.0%", "75.0%", "900.0us", "1.3ms", "2.00s", "1.5ms", "GET /a\\nb"] {
            assert!(lines[1].contains(word), "{word} in {out}");
        }
        let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(ends(lines[0], "p90"), ends(lines[1], "1.3ms"), "{out}");
        assert_eq!(ends(lines[1], "25.0%"), ends(lines[2], "100.0%"), "{out}");
        assert!(lines[2].contains("slowest 1") && lines[2].contains("100.0%"), "{out}");
    }
}
