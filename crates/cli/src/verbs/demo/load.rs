//! The demo's clients: a few threads that ask for all routes in turn.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients at work.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

const CLIENTS: usize = 3;
const PATHS: [&str; 5] = ["/primes", "/words", "/orders", "/words", "/wait"];

impl Load {
    pub(super) fn start(address: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let clients = (0..CLIENTS)
            .map(|first| {
                let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
                std::thread::spawn(move || {
                    for path in PATHS.iter().cycle().skip(first) {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        if request(address, path).is_ok() {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        Self { is_over, answered, clients }
    }

    /// Ends the clients and says how many requests were answered.
    pub(super) fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            // A client that panicked has only itself to count.
            let _ = client.join();
        }
        self.answered.load(Ordering::Relaxed)
    }
}

fn request(address: SocketAddr, path: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 200") { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}
