//! The demo's clients: a few threads that request all routes in turn.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Running clients.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

const CLIENTS: usize = 3;
const PATHS: [&str; 5] = ["/primes", "/words", "/orders", "/words", "/wait"];

impl Load {
    pub(super) fn start(address: SocketAddr) -> std::io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let clients = (0..CLIENTS)
            .map(|first| {
                let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
                let name = "demo-client".to_owned();
                let client = move || {
                    let mut connection = None;
                    for path in PATHS.iter().cycle().skip(first) {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        match request(&mut connection, address, path) {
                            Ok(()) => _ = answered.fetch_add(1, Ordering::Relaxed),
                            Err(_) => connection = None,
                        }
                    }
                };
                std::thread::Builder::new().name(name).spawn(client)
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { is_over, answered, clients })
    }

    /// Stops the clients and returns how many requests were answered.
    pub(super) fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            // A client that panicked does not affect the count of the others.
            let _ = client.join();
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// Requests a path and reads the answer, over one connection as real clients do: the profile should show the service,
/// not connections being opened.
fn request(
    connection: &mut Option<BufReader<TcpStream>>,
    address: SocketAddr,
    path: &str,
) -> std::io::Result<()> {
    let reader = match connection {
        Some(reader) => reader,
        None => connection.insert(BufReader::new(TcpStream::connect(address)?)),
    };
    reader.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let is_ok = line.starts_with("HTTP/1.1 200");
    let mut length = 0;
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(|_| ErrorKind::InvalidData)?;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    if is_ok { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
