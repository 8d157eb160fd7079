//! One connection: one request and its answer.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::header::{EXPECT, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Response, StatusCode};

use super::head::{self, MAX_HEAD, Unreadable};
use super::listener::Stream;
use crate::http::{Answering, Handler, MAX_BODY, refusal};

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a client may take to read the next part of its answer.
const READING: Duration = Duration::from_secs(60);

/// An answer is sent in parts of this size.
const PART: usize = 64 << 10;

/// The time between two looks whether a capture has ended, or its client has hung up.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Reads a request and answers it. A connection that fails is closed.
pub(super) fn serve(mut stream: Stream, handler: &Handler, is_loopback: bool) {
    let _ = stream.set_write_timeout(READING);
    let outcome = match read_request(&mut stream, handler, is_loopback) {
        Ok(Some((parts, body))) => answer(&mut stream, handler, &parts, &body),
        Ok(None) => return,
        Err((status, message)) => send(&mut stream, &Method::GET, &refusal(status, message)),
    };
    if outcome.is_ok() {
        finish(&mut stream);
    }
}

/// Tells the client that there are too many connections.
pub(super) fn refuse_busy(mut stream: Stream, most: usize) {
    let message = format!("{most} connections are open, the limit of this service; try again later");
    let _ = stream.set_write_timeout(Duration::from_millis(100));
    // Without the request, so that closing the connection does not throw away the answer. Not for long: others wait.
    let _ = stream.set_read_timeout(Duration::from_millis(20));
    let _ = stream.read(&mut [0; 4096]);
    let answer = refusal(StatusCode::SERVICE_UNAVAILABLE, &message);
    if send(&mut stream, &Method::GET, &answer).is_ok() {
        stream.end();
    }
}

/// Reads a request; its body only if the endpoint needs it. `None` if the client sent nothing that can be answered.
fn read_request(
    stream: &mut Stream,
    handler: &Handler,
    is_loopback: bool,
) -> Result<Option<(Parts, Vec<u8>)>, Unreadable> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = head::end(&bytes) {
            break end;
        }
        if bytes.len() >= MAX_HEAD {
            return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long"));
        }
        match read_some(stream, &mut bytes, deadline) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if is_timeout(&error) && !bytes.is_empty() => {
                return Err((StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time"));
            }
            Err(_) => return Ok(None),
        }
    };
    let parts = head::parse(&bytes[..end])?;
    if is_loopback && !handler.has_hosts() && !is_for_this_machine(&parts) {
        return Err((
            StatusCode::FORBIDDEN,
            "a server on loopback answers requests for localhost or an IP address only: open one of those, \
             or let the service allow this host with Handler::hosts",
        ));
    }
    bytes.drain(..end);
    // The body of a request that is refused anyway is not read.
    if !handler.wants_body(&parts) || handler.admit(&parts).is_err() {
        return Ok(Some((parts, Vec::new())));
    }
    read_body(stream, &parts, bytes, deadline).map(|body| body.map(|body| (parts, body)))
}

fn read_body(
    stream: &mut Stream,
    parts: &Parts,
    mut body: Vec<u8>,
    deadline: Instant,
) -> Result<Option<Vec<u8>>, Unreadable> {
    let length = head::body_length(&parts.headers)?;
    if length > MAX_BODY {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the list of addresses is too long"));
    }
    let is_expected = parts.headers.get(EXPECT).is_some_and(|value| value == "100-continue");
    if is_expected && body.len() < length && stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
        return Ok(None);
    }
    while body.len() < length {
        match read_some(stream, &mut body, deadline) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {
                return Err((StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time"));
            }
            Err(_) => return Ok(None),
        }
    }
    body.truncate(length);
    Ok(Some(body))
}

/// Returns whether the request names this machine by `localhost` or by an address. A web page can make its own host name
/// mean this machine, but not one of these.
fn is_for_this_machine(parts: &Parts) -> bool {
    let named = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
    let Some(named) = named.or_else(|| parts.uri.authority().map(Authority::as_str)) else {
        // Browsers always send it.
        return true;
    };
    let Ok(authority) = named.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

fn read_some(stream: &mut Stream, bytes: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(left)?;
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(length) => {
                bytes.extend_from_slice(&buffer[..length]);
                return Ok(length);
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn answer(stream: &mut Stream, handler: &Handler, parts: &Parts, body: &[u8]) -> io::Result<()> {
    let answering = match handler.admit(parts) {
        Ok(()) => handler.answer_admitted(parts, body),
        Err(refusal) => return send(stream, &parts.method, &handler.refuse_unauthorized(parts, &refusal)),
    };
    match wait_for(stream, answering)? {
        Some(answer) => send(stream, &parts.method, &handler.counted(answer)),
        None => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Waits for the answer; `None` when the client hangs up before it, which ends its capture.
fn wait_for(stream: &mut Stream, answering: Answering) -> io::Result<Option<Response<Vec<u8>>>> {
    let mut answering = pin!(answering);
    let mut pause = Duration::from_millis(1);
    let mut unexpected = 0;
    loop {
        if let Poll::Ready(answer) = answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(Some(answer));
        }
        stream.set_read_timeout(pause)?;
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            // One request for a connection: whatever else comes is not read as another one.
            Ok(length) => {
                unexpected += length;
                if unexpected > MAX_HEAD {
                    return Ok(None);
                }
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        pause = (pause * 2).min(LOOK_EVERY);
    }
}

fn send<B: AsRef<[u8]>>(stream: &mut Stream, method: &Method, answer: &Response<B>) -> io::Result<()> {
    let body = answer.body().as_ref();
    stream.write_all(&head::write(answer.status(), answer.headers(), method, body.len()))?;
    if method != Method::HEAD {
        for part in body.chunks(PART) {
            stream.write_all(part)?;
        }
    }
    Ok(())
}

/// Closes the connection without losing what was sent: a socket that is closed with unread input makes the client's
/// system throw away the answer.
fn finish(stream: &mut Stream) {
    stream.end();
    let deadline = Instant::now() + Duration::from_secs(2);
    let (mut rest, mut total) = (Vec::new(), 0);
    while total < MAX_BODY && matches!(read_some(stream, &mut rest, deadline), Ok(1..)) {
        total += rest.len();
        rest.clear();
    }
}
