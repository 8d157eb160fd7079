//! Any bytes as what a service answers to `flamelet fetch`, headers included, after any redirects: bytes or an error of one
//! line. The first part of the input is the redirects, one a line.

#![no_main]
#![allow(dead_code, unused_imports, unused_macros, reason = "only a part of the command is used here")]

#[path = "../../crates/cli/src/error.rs"]
mod error;
#[path = "../../crates/cli/src/profiles/fetch.rs"]
mod fetch;
#[path = "../../crates/cli/src/note.rs"]
mod note;
#[path = "../../crates/cli/src/progress.rs"]
mod progress;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};

use libfuzzer_sys::fuzz_target;

const MOST: u64 = 1 << 20;
/// More than the client follows.
const MOST_REDIRECTS: usize = 16;

/// What the service answers, request by request; then nothing.
static ANSWERS: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

/// The port of a service that gives these answers.
fn service() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let _ = reply(stream, &answer.unwrap_or_default());
            }
        });
        port
    })
}

fn reply(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Write)
}

/// A redirect to a path of this service, by a whole address or by the path alone. Its first byte says how.
fn redirect(line: &[u8], port: u16) -> Vec<u8> {
    let (&how, path) = line.split_first().unwrap_or((&0, &[]));
    let status = [301, 302, 303, 307, 308, 300, 304, 399][usize::from(how % 8)];
    let host = if how & 8 == 0 { format!("http://127.0.0.1:{port}") } else { String::new() };
    // The first byte keeps the rest from being read as another host.
    let mut answer = format!("HTTP/1.1 {status} Elsewhere\r\nLocation: {host}/p").into_bytes();
    answer.extend(path.iter().filter(|byte| !matches!(byte, b'\r' | 0)));
    answer.extend(if how & 16 == 0 { &b"\r\nContent-Length: 0\r\n\r\n"[..] } else { b"\r\n\r\nnot yet" });
    answer
}

fuzz_target!(|bytes: &[u8]| {
    let [redirects, last] = flamelet_fuzz::parts(bytes);
    if leads_elsewhere(redirects) || leads_elsewhere(last) {
        return;
    }
    let port = service();
    let lines = redirects.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).take(MOST_REDIRECTS);
    let answers = lines.map(|line| redirect(line, port)).chain([last.to_vec()]);
    *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = answers.collect();
    let url = fetch::profile_url(&format!("127.0.0.1:{port}"), None).expect("an address");
    let options = fetch::FetchOptions { timeout: Some(5), max_bytes: MOST, ..Default::default() };
    match fetch::fetch(&url, &options) {
        Ok(body) => assert!(body.len() as u64 <= MOST),
        Err(failure) => {
            let message = failure.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "`{message}` is not one line");
        }
    }
});

/// A fuzzer must not talk to other machines: only [`redirect`] says where to go.
fn leads_elsewhere(bytes: &[u8]) -> bool {
    bytes.to_ascii_lowercase().windows(8).any(|word| word == b"location")
}
