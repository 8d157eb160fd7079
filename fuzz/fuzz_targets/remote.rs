//! Any bytes as what a service answers to `flamelet fetch`, headers included: bytes or an error of one line.

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

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::mpsc::{self, SyncSender};

use libfuzzer_sys::fuzz_target;

const MOST: u64 = 1 << 20;

/// A service that answers each request with what it is sent here.
struct Service {
    port: u16,
    answers: SyncSender<Vec<u8>>,
}

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let (answers, receiver) = mpsc::sync_channel::<Vec<u8>>(1);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A redirect may bring the client here again, for which there is nothing more.
                let answer = receiver.try_recv().unwrap_or_default();
                let _ = reply(stream, &answer);
            }
        });
        Service { port, answers }
    })
}

fn reply(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Write)
}

fuzz_target!(|bytes: &[u8]| {
    if leads_elsewhere(bytes) {
        return;
    }
    let service = service();
    // What an answer that nobody fetched left there.
    let _ = service.answers.try_send(bytes.to_vec());
    let url = fetch::profile_url(&format!("127.0.0.1:{}", service.port), None).expect("an address");
    let options = fetch::FetchOptions { timeout: Some(5), max_bytes: MOST, ..Default::default() };
    match fetch::fetch(&url, &options) {
        Ok(body) => assert!(body.len() as u64 <= MOST),
        Err(failure) => {
            let message = failure.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "`{message}` is not one line");
        }
    }
});

/// A fuzzer must not talk to other machines.
fn leads_elsewhere(bytes: &[u8]) -> bool {
    bytes.to_ascii_lowercase().windows(8).any(|word| word == b"location")
}
