//! Requests as JSON.

use std::fmt::Write;

use super::counts::RequestSum;
use super::parts::TimeParts;
use super::routes::RouteSummary;

/// Writes `{"routes": [...]}`. Times are sums over all requests, in nanoseconds.
pub(super) fn write(routes: &[RouteSummary]) -> String {
    let mut out = String::from("{\"routes\": [");
    for (index, route) in routes.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        write_route(route, &mut out);
    }
    out.push_str("\n]}\n");
    out
}

fn write_route(summary: &RouteSummary, out: &mut String) {
    let _ = write!(out, "{{\"route\": {}, \"method\": {}, ", text(&summary.route), text(&summary.method));
    write_sum(&summary.all, out);
    let RouteSummary { errors, cancelled, longest, percentiles: [p50, p90, p99], .. } = summary;
    let _ = write!(out, ", \"errors\": {errors}, \"cancelled\": {cancelled}");
    let _ = write!(out, ", \"p50_ns\": {p50}, \"p90_ns\": {p90}, \"p99_ns\": {p99}, \"max_ns\": {longest}");
    out.push_str(", \"slowest\": {");
    write_sum(&summary.slowest, out);
    out.push_str("}}");
}

fn write_sum(sum: &RequestSum, out: &mut String) {
    let TimeParts { wall, cpu, blocked, awaiting, runnable } = sum.parts;
    let _ = write!(
        out,
        "\"count\": {}, \"wall_ns\": {wall}, \"cpu_ns\": {cpu}, \"blocked_ns\": {blocked}, \
         \"awaiting_ns\": {awaiting}, \"runnable_ns\": {runnable}",
        sum.count
    );
}

/// Returns `text` as a JSON string.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("/a\"b\\c\n\u{7f}\u{e4}"), "\"/a\\\"b\\\\c\\u000a\\u007f\u{e4}\"");
        assert_eq!(write(&[]), "{\"routes\": [\n]}\n");
    }
}
