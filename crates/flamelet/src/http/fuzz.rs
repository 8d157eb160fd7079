//! For the fuzzer: reads any bytes as a request, and checks what must hold for every request.

use http::request::{Builder, Parts};

use super::answer::Refusal;
use super::delivery::{Delivery, Form};
use super::plan::{Capture, Plan};
use super::rules::Rules;
use super::{endpoints, sites};
use crate::Limits;

/// Reads `bytes` as a request (a line with method and address, lines of headers, an empty line, a body) and checks
/// that the result respects the caps of a service, or is a proper refusal. Uses no profiler, no thread and no socket.
///
/// Not part of the public interface: for `fuzz/` only.
///
/// # Panics
///
/// If a check fails.
#[doc(hidden)]
pub fn fuzz_request(bytes: &[u8]) {
    let Some((parts, body)) = request(bytes) else { return };
    let limits = Limits::default();
    let hosts = ["localhost:3000".to_owned()];
    for (prefix, has_all) in [("", true), ("/internal", false)] {
        let missing = "not in this service";
        let has = |value| if has_all { Ok(value) } else { Err(missing) };
        let rules = Rules {
            prefix,
            name: "fuzzed",
            limits: &limits,
            timeout: (!has_all).then_some(std::time::Duration::from_secs(20)),
            has_viewer: has_all,
            frequency: 99,
            cpu: has(()),
            past: if has_all { Ok(std::time::Duration::from_secs(300)) } else { Err(missing) },
            history: has(()),
            now: 1_794_712_406_000_000_000,
            heap: has(()),
            locks: has(()),
            has_tasks: has_all,
            has_spans: has_all,
        };
        let hosts = if has_all { None } else { Some(&hosts[..]) };
        match sites::check(&parts, hosts).and_then(|()| endpoints::plan(&rules, &parts, body)) {
            Ok(plan) => check_plan(&limits, &plan),
            Err(refusal) => check_refusal(&refusal),
        }
    }
}

fn request(bytes: &[u8]) -> Option<(Parts, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = (&bytes[..end], bytes.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|&byte| byte == b'\n');
    let mut first = lines.next()?.splitn(2, |&byte| byte == b' ');
    let mut builder: Builder = http::Request::builder().method(first.next()?).uri(first.next()?);
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':')?;
        builder = builder.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    Some((builder.body(()).ok()?.into_parts().0, body))
}

fn check_plan(limits: &Limits, plan: &Plan) {
    match plan {
        Plan::Page { address } => {
            assert!(!address.contains(['\'', '"', '<', '>', ' ', '\n']), "{address:?}");
        }
        Plan::Names(addresses) => assert!(addresses.len() <= 200_000 && !addresses.contains(&0)),
        Plan::Profile(capture, delivery) => {
            check_capture(limits, *capture);
            check_delivery(limits, delivery);
        }
        Plan::Moved(_) | Plan::Now(_) | Plan::Text(_) | Plan::Json(_) => {}
        #[cfg(target_os = "linux")]
        Plan::Task(_) => {}
        #[cfg(feature = "history")]
        Plan::Query(_) => {}
    }
}

fn check_capture(limits: &Limits, capture: Capture) {
    let most = limits.max_duration.as_secs();
    let is_capped = |seconds: u64| (1..=most).contains(&seconds);
    assert!(match capture {
        Capture::Cpu { seconds, frequency } =>
            is_capped(seconds) && (1..=limits.max_frequency).contains(&frequency),
        Capture::Recent { seconds } => (1..=300).contains(&seconds),
        Capture::Range { from, to, .. } => from < to,
        Capture::Heap { seconds, .. } => seconds.is_none_or(is_capped),
        #[cfg(target_os = "linux")]
        Capture::Waits { seconds, .. } => seconds.is_none_or(is_capped),
        #[cfg(all(feature = "tracing", target_os = "linux"))]
        Capture::Spans { seconds } => seconds.is_none_or(is_capped),
        Capture::Growth { seconds, windows } =>
            is_capped(seconds) && windows.is_none_or(|windows| (1..=100).contains(&windows)),
        #[cfg(target_os = "linux")]
        Capture::Wall { seconds, frequency } => is_capped(seconds) && (1..=100).contains(&frequency),
        #[cfg(target_os = "linux")]
        Capture::Tasks => true,
        Capture::Empty(_) => true,
    });
}

fn check_delivery(limits: &Limits, delivery: &Delivery) {
    assert!(delivery.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{delivery:?}");
    assert!(delivery.title.starts_with("fuzzed · "), "{delivery:?}");
    if let Form::Svg { width } = delivery.form {
        assert!((1..=limits.max_image_width).contains(&width));
    }
    assert!(delivery.head().status().is_success());
}

/// Checks that a refusal is one short line that gives a reason, without control characters.
fn check_refusal(refusal: &Refusal) {
    let answer = refusal.answer();
    let text = std::str::from_utf8(answer.body()).expect("text");
    assert!(answer.status().is_client_error(), "{}", answer.status());
    assert!(text.len() < 600 && text.trim_end().len() + 1 == text.len(), "{text:?}");
    assert!(!text.trim_end().contains(char::is_control), "{text:?}");
    assert_eq!(answer.headers()["x-go-pprof"], "1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_is_a_plan_within_the_caps_or_a_refusal() {
        let methods = ["GET", "HEAD", "POST", "OPTIONS", "PUT", &"M".repeat(5000)];
        let paths = [
            "/",
            "*",
            "/debug/pprof",
            "/debug/pprof/",
            "/debug/pprof/profile",
            "/debug/pprof/heap",
            "/debug/pprof/growth",
            "/debug/pprof/view",
            "/debug/pprof/symbol",
            "/debug/pprof/trace",
            "/pprof/heap/flamegraph",
            "/internal/debug/pprof/",
            "http://a/debug/pprof/",
            "/debug/pprof/%00",
        ];
        let queries = [
            "",
            "?",
            "?seconds=1",
            "?seconds=99999999999999999999",
            "?seconds=%1b%5b31m",
            "?debug=1&seconds=5",
            "?last=60",
            "?last=",
            "?from=-1h",
            "?from=now&to=1794712406",
            "?to=2026-11-15T03:00:00Z&from=0",
            "?from=%00&to=99999999999",
            "?windows=0",
            "?windows=100",
            "?image_width=0",
            "?frequency=1000&&&=&%",
            "?0x1+0x2+0xzz+0x0",
            "?seconds=\u{202e}",
            "?debug=%0a%0d",
        ];
        let headers = [
            "",
            "\nhost: a",
            "\nhost: localhost:3000",
            "\norigin: null",
            "\nreferer: http://a/\nhost: a",
            "\naccept: text/html",
            "\naccept: ;q=,;;,text/html;q=NaN",
            "\nsec-fetch-site: cross-site",
            "\nhost: '\"<>",
            "\nx-forwarded-host: ,,[::\nreferer: http://[::/",
        ];
        let mut planned = 0;
        for method in methods {
            for path in paths {
                for query in queries {
                    for header in headers {
                        let text = format!("{method} {path}{query}{header}\n\n0x1+0x2");
                        planned += usize::from(request(text.as_bytes()).is_some());
                        fuzz_request(text.as_bytes());
                    }
                }
            }
        }
        assert!(planned > 5_000, "most of them are requests: {planned}");
        for other in [&b""[..], b"\n\n", b"GET", b"GET /\nx", b"\xff \xff\n\xff:\xff\n\n\xff"] {
            fuzz_request(other);
        }
    }
}
