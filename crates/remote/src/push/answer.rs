//! What a receiver's answer means for the profile that was sent.

use std::time::Duration;

use flamelet_profile::protobuf::{FieldValue, Fields};
use flamelet_profile::terminal::one_line;

use super::Protocol;
use crate::frame::first_frame;

/// The longest message of a receiver that is passed on.
const MAX_MESSAGE: usize = 300;
/// No longer wait is taken from a receiver.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// An answer over HTTP, as far as it matters.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The header `Grpc-Status`, which gRPC-Web uses if there is no body.
    pub grpc_status: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns an answer whose body is not read yet; `header` returns a header by its name.
    pub fn without_body<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>) -> Self {
        let header = |name| header(name).map(str::to_owned);
        Self {
            status,
            content_type: header("content-type"),
            retry_after: header("retry-after"),
            grpc_status: header("grpc-status"),
            body: Vec::new(),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has the profile.
    Accepted,
    /// Try again, after this long if the receiver says so.
    Later(String, Option<Duration>),
    /// The receiver takes nothing this old.
    TooOld(String),
    /// The receiver never takes this profile.
    Refused(String),
}

/// Returns what an answer means.
pub fn judge(protocol: Protocol, answer: &Answer) -> Verdict {
    let message = message_of(answer);
    match answer.status {
        200..=299 if !is_of(protocol, answer) => Verdict::Later(foreign(answer), None),
        200..=299 => match protocol {
            Protocol::Pyroscope => Verdict::Accepted,
            Protocol::Parca => judge_grpc(answer),
            Protocol::Otlp => judge_partial(&answer.body),
        },
        400 | 413 | 422 if is_too_old(&message) => Verdict::TooOld(message),
        400 | 413 | 422 => Verdict::Refused(message),
        // Also what a wrong address or token gives, which may be corrected.
        _ => Verdict::Later(message, wait(answer)),
    }
}

/// Returns whether an answer comes from a receiver of this protocol: the page of a login, or of a proxy, also has the status
/// 200. Some receivers answer with nothing at all.
fn is_of(protocol: Protocol, answer: &Answer) -> bool {
    let kind = answer.content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    match protocol {
        Protocol::Pyroscope if kind.is_empty() => answer.body.is_empty(),
        Protocol::Pyroscope => ["application/proto", "application/json"].contains(&&*kind),
        // Its status is in the trailers, which no page has.
        Protocol::Parca => true,
        Protocol::Otlp if kind.is_empty() => is_message(&answer.body),
        Protocol::Otlp => {
            answer.body.is_empty()
                || ["application/x-protobuf", "application/protobuf", "application/json"].contains(&&*kind)
        }
    }
}

fn is_message(body: &[u8]) -> bool {
    let mut fields = Fields::new(body);
    loop {
        match fields.next() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn foreign(answer: &Answer) -> String {
    let content_type = answer.content_type.as_deref().unwrap_or("no content type");
    let shown = one_line(content_type, 60);
    format!("status {} with {shown}: this is not the answer of a receiver of profiles", answer.status)
}

fn message_of(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(MAX_MESSAGE)]);
    let text = one_line(text.trim(), MAX_MESSAGE);
    format!("status {}: {text}", answer.status).trim_end_matches(": ").to_owned()
}

/// Returns whether Pyroscope refuses a profile for its time.
fn is_too_old(message: &str) -> bool {
    message.contains("ingestion window")
}

/// Dates are not read; those who send one mean the usual wait.
fn wait(answer: &Answer) -> Option<Duration> {
    let seconds: u64 = answer.retry_after.as_deref()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// The status of a gRPC call is in the last frame of the body, or in a header if there is no body.
fn judge_grpc(answer: &Answer) -> Verdict {
    let trailers = trailers(&answer.body);
    let field = |name: &str| {
        trailers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let status = field("grpc-status").or_else(|| answer.grpc_status.clone());
    let message = format!(
        "gRPC status {}: {}",
        status.as_deref().unwrap_or("missing"),
        field("grpc-message").unwrap_or_default()
    );
    let message = one_line(&message, MAX_MESSAGE);
    match status.as_deref() {
        Some("0") => Verdict::Accepted,
        // Invalid argument, failed precondition, out of range.
        Some("3" | "9" | "11") => Verdict::Refused(message),
        _ => Verdict::Later(message, None),
    }
}

/// Returns the trailers in a gRPC-Web body.
fn trailers(mut body: &[u8]) -> String {
    while let Some(frame) = first_frame(body) {
        if frame.flag & 0x80 != 0 {
            return String::from_utf8_lossy(frame.message).into_owned();
        }
        body = frame.rest;
    }
    String::new()
}

/// Reads `ExportProfilesServiceResponse { partial_success { rejected_profiles, error_message } }`.
fn judge_partial(body: &[u8]) -> Verdict {
    let (mut rejected, mut message) = (0, String::new());
    let mut response = Fields::new(body);
    while let Ok(Some(field)) = response.next() {
        let (1, FieldValue::Bytes(partial_success)) = field else { continue };
        let mut fields = Fields::new(partial_success);
        while let Ok(Some((number, value))) = fields.next() {
            match (number, value) {
                (1, FieldValue::Varint(count)) => rejected = count,
                (2, FieldValue::Bytes(text)) => message = String::from_utf8_lossy(text).into_owned(),
                _ => {}
            }
        }
    }
    if rejected == 0 { Verdict::Accepted } else { Verdict::Refused(one_line(&message, MAX_MESSAGE)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &[u8]) -> Answer {
        Answer { status, body: body.to_vec(), ..Answer::default() }
    }

    #[test]
    fn statuses_decide() {
        let judged = |status, body: &[u8]| judge(Protocol::Pyroscope, &answer(status, body));
        assert_eq!(judged(200, b""), Verdict::Accepted);
        let old = br#"{"code":"invalid_argument","message":"profile is outside of ingestion window"}"#;
        assert!(matches!(judged(400, old), Verdict::TooOld(_)));
        assert!(matches!(judged(400, b"x"), Verdict::Refused(_)));
        for status in [0, 101, 302, 401, 404, 408, 429, 500, 502, 503, 599] {
            assert!(matches!(judged(status, b""), Verdict::Later(_, None)), "{status}");
        }
        let busy = Answer { retry_after: Some("7".into()), ..answer(429, b"slow\ndown") };
        let expected = Verdict::Later("status 429: slow down".into(), Some(Duration::from_secs(7)));
        assert_eq!(judge(Protocol::Pyroscope, &busy), expected);
        let forever = Answer { retry_after: Some("999999999".into()), ..busy };
        let Verdict::Later(_, wait) = judge(Protocol::Pyroscope, &forever) else { panic!("later") };
        assert_eq!(wait, Some(LONGEST_WAIT));
    }

    #[test]
    fn what_a_receiver_says_is_harmless_in_a_log() {
        const EVIL: &str = "\x1b]0;owned\x07\u{9b}31m\u{202e}\u{2066}\u{2028}\nx";
        let trailers = format!("grpc-status: 3\ngrpc-message: {}", EVIL.replace('\n', ""));
        let frame = [&[0x80, 0, 0, 0, trailers.len() as u8], trailers.as_bytes()].concat();
        let length = EVIL.len() as u8;
        let partial = [&[0x0a, length + 4, 0x08, 1, 0x12, length], EVIL.as_bytes()].concat();
        let answers = [
            (Protocol::Pyroscope, answer(500, EVIL.as_bytes())),
            (Protocol::Parca, answer(200, &frame)),
            (Protocol::Otlp, answer(200, &partial)),
        ];
        for (protocol, answer) in answers {
            let why = match judge(protocol, &answer) {
                Verdict::Later(why, _) | Verdict::Refused(why) => why,
                other => panic!("{protocol:?}: {other:?}"),
            };
            assert!(why.contains("]0;owned  31m"), "{protocol:?}: {why:?}");
            let is_evil = |c: char| c.is_control() || !c.is_ascii();
            assert!(!why.contains(is_evil), "{protocol:?}: {why:?}");
        }
    }

    #[test]
    fn a_page_with_the_status_200_is_not_a_receiver() {
        let judged = |protocol, content_type: Option<&str>, body: &[u8]| {
            let content_type = content_type.map(str::to_owned);
            judge(protocol, &Answer { content_type, ..answer(200, body) })
        };
        for protocol in [Protocol::Pyroscope, Protocol::Otlp] {
            for page in [Some("text/html; charset=utf-8"), Some("text/plain"), None] {
                let Verdict::Later(why, None) = judged(protocol, page, b"<html>sign in") else {
                    panic!("{protocol:?} {page:?}")
                };
                assert!(why.contains(page.unwrap_or("no content type")), "{why}");
            }
        }
        for kind in ["application/proto", "application/json", "Application/Proto; x=y"] {
            assert_eq!(judged(Protocol::Pyroscope, Some(kind), b"{}"), Verdict::Accepted, "{kind}");
        }
        for kind in ["application/x-protobuf", "application/json"] {
            assert_eq!(judged(Protocol::Otlp, Some(kind), b""), Verdict::Accepted, "{kind}");
        }
        assert_eq!(judged(Protocol::Otlp, Some("text/plain"), b""), Verdict::Accepted);
    }

    #[test]
    fn grpc_statuses_are_in_the_last_frame_or_a_header() {
        let frame =
            |flag: u8, content: &[u8]| [&[flag][..], &(content.len() as u32).to_be_bytes(), content].concat();
        let judged = |trailers: &[u8]| {
            let body = [frame(0, b""), frame(0x80, trailers)].concat();
            judge(Protocol::Parca, &answer(200, &body))
        };
        assert_eq!(judged(b"grpc-status: 0\r\n"), Verdict::Accepted);
        assert_eq!(judged(b"Grpc-Status:0\r\nGrpc-Message:\r\n"), Verdict::Accepted);
        assert!(matches!(judged(b"grpc-status: 3\r\ngrpc-message: bad\r\n"), Verdict::Refused(_)));
        assert!(matches!(judged(b"grpc-status: 14\r\n"), Verdict::Later(_, None)));
        let header = Answer { grpc_status: Some("0".into()), ..answer(200, b"") };
        assert_eq!(judge(Protocol::Parca, &header), Verdict::Accepted);
        for torn in [&b""[..], b"\x80\0\0\0\xff", b"\x80\xff\xff\xff\xff", b"<html>"] {
            assert!(matches!(judge(Protocol::Parca, &answer(200, torn)), Verdict::Later(..)), "{torn:?}");
        }
    }

    #[test]
    fn a_partial_success_of_otlp_is_a_refusal() {
        let judged = |body: &[u8]| {
            let content_type = Some("application/x-protobuf".to_owned());
            judge(Protocol::Otlp, &Answer { content_type, ..answer(200, body) })
        };
        assert_eq!(judged(b""), Verdict::Accepted);
        assert_eq!(judged(&[0x0a, 0]), Verdict::Accepted);
        assert_eq!(judged(&[0x0a, 7, 0x08, 1, 0x12, 3, b'b', b'a', b'd']), Verdict::Refused("bad".into()));
        assert_eq!(judged(&[0xff; 20]), Verdict::Accepted);
    }
}
