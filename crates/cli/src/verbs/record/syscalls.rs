//! The table of system calls that `flamelet record --syscalls` prints at the end.

use flamelet_profile::unit;
use flamelet_record::{ArgumentsSummary, SyscallStats, SyscallSummary};

/// How many calls are shown; the file has all of them.
const SHOWN: usize = 20;

/// Returns one line per call, the slowest in total first; empty if there were none.
pub(super) fn table(calls: &[SyscallSummary]) -> String {
    if calls.is_empty() {
        return String::new();
    }
    let mut by_time: Vec<&SyscallSummary> = calls.iter().collect();
    by_time.sort_by_key(|call| std::cmp::Reverse((call.stats.nanos, call.stats.calls)));
    let mut lines =
        vec![row(["calls", "errors", "total", "mean", "p50", "p99", "max"], "call, and its latencies")];
    for call in by_time.iter().take(SHOWN) {
        let stats = &call.stats;
        let mean = stats.nanos.checked_div(stats.calls).unwrap_or(0);
        let times =
            [stats.nanos, mean, stats.quantile_nanos(0.5), stats.quantile_nanos(0.99), stats.longest_nanos];
        let [total, mean, p50, p99, max] = times.map(time);
        let (calls, errors) = (stats.calls.to_string(), stats.errors.to_string());
        let name = format!("{:<16} {}", call.name, histogram(stats));
        lines.push(row(
            [&calls, &errors, &total, &mean, &p50, &p99, &max].map(String::as_str),
            name.trim_end(),
        ));
    }
    if let Some(more) = calls.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{more} more calls; list them with `flamelet info`"));
    }
    lines.join("\n")
}

/// Returns one line per call and arguments, the slowest in total first; empty if arguments were not recorded.
pub(super) fn arguments_table(calls: &[ArgumentsSummary]) -> String {
    let row = |calls: &str, errors: &str, total: &str, call: &str| {
        format!("{calls:>9} {errors:>8} {total:>10}  {call}")
    };
    let with_arguments: Vec<&ArgumentsSummary> =
        calls.iter().filter(|call| !call.arguments.is_empty()).collect();
    if with_arguments.is_empty() {
        return String::new();
    }
    let mut lines = vec![row("calls", "errors", "total", "call, by arguments")];
    for call in with_arguments.iter().take(SHOWN) {
        let text = format!("{}({})", call.name, call.arguments);
        lines.push(row(&call.calls.to_string(), &call.errors.to_string(), &time(call.nanos), &text));
    }
    if let Some(more) = with_arguments.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{more} more; list them with `flamelet tags`, under `args`"));
    }
    lines.join("\n")
}

fn row([calls, errors, total, mean, p50, p99, max]: [&str; 7], name: &str) -> String {
    format!("{calls:>9} {errors:>8} {total:>10} {mean:>10} {p50:>10} {p99:>10} {max:>10}  {name}")
}

fn time(nanos: u64) -> String {
    unit::label(i64::try_from(nanos).unwrap_or(i64::MAX), "ns")
}

/// Draws the buckets from the shortest to the longest call as bars between the two times.
fn histogram(stats: &SyscallStats) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let counts = stats.latencies.by_powers_of_two();
    let (Some(first), Some(last)) =
        (counts.iter().position(|&count| count > 0), counts.iter().rposition(|&count| count > 0))
    else {
        return String::new();
    };
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let bar = |&count: &u64| match count {
        0 => ' ',
        count => BARS[(count * (BARS.len() as u64 - 1)).div_ceil(most) as usize],
    };
    let bars: String = counts[first..=last].iter().map(bar).collect();
    let shortest = if first == 0 { 0 } else { 1 << (first - 1) };
    format!("{} {bars} {}", time(shortest), time(1 << last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_by_their_time_with_bars() {
        let mut read =
            SyscallStats { calls: 9, nanos: 9_000, longest_nanos: 2_000, ..SyscallStats::default() };
        (0..8).for_each(|_| read.latencies.add(1_000));
        read.latencies.add(4_000);
        let open = SyscallStats { calls: 99, errors: 3, nanos: 10, ..SyscallStats::default() };
        let call = |name: &str, stats| SyscallSummary { name: name.to_owned(), stats };
        let table = table(&[call("openat", open), call("read", read)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with("read             512ns █ ▂ 4.10us"), "{table}");
        assert!(lines[1].contains("9us") && lines[2].trim().starts_with("99        3"), "{table}");
        assert_eq!(super::table(&[]), "");
    }

    #[test]
    fn arguments_by_their_time() {
        let call = |arguments: &str, nanos| ArgumentsSummary {
            name: "openat".to_owned(),
            arguments: arguments.to_owned(),
            calls: 2,
            errors: 1,
            nanos,
        };
        let table = arguments_table(&[call("AT_FDCWD, \"/x\"", 3_000), call("", 9)]);
        assert!(table.ends_with("        2        1        3us  openat(AT_FDCWD, \"/x\")"), "{table}");
        assert_eq!(arguments_table(&[call("", 9)]), "");
    }
}
