//! The stores: how they start, and how they are asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::process::Process;
use super::NAMES;
use crate::{Failure, peers};

/// How long a store may take to become ready.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running store.
pub(in crate::bench) struct Store {
    pub(in crate::bench) name: &'static str,
    pub(in crate::bench) process: Process,
    pub(in crate::bench) address: String,
    pub(in crate::bench) folder: PathBuf,
    /// Where it keeps profiles, in that folder.
    pub(in crate::bench) kept: PathBuf,
}

impl Store {
    /// Starts `flamelet collect`, which writes blocks every `flush`.
    pub(in crate::bench) fn flamelet(program: &Path, place: &Path, flush: &str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", program.display()));
        let folder = place.join("flamelet");
        let mut command = Command::new(program);
        command.args(["collect", "--listen", "127.0.0.1:0", "--flush", flush, "--store"]).arg(&folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let process = Process(child);
        let address = line.trim().trim_start_matches("http://").to_owned();
        match address.parse::<std::net::SocketAddr>() {
            Ok(_) => Ok(Self { name: NAMES[0], process, address, kept: folder.clone(), folder }),
            Err(_) => Err(Failure::failed(format!("flamelet collect printed `{}`", line.trim()))),
        }
    }

    /// Starts Pyroscope as one process. Its limits on rates and ages are off, and it reports nothing to anyone.
    pub(in crate::bench) fn pyroscope(place: &Path) -> Result<Self, Failure> {
        let program = peers::program("pyroscope")?;
        let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", program.display()));
        // Three listeners at once make the ports differ.
        let listeners = [0; 3].map(|_| {
            TcpListener::bind("127.0.0.1:0").and_then(|listener| {
                let port = listener.local_addr()?.port();
                Ok((listener, port))
            })
        });
        let mut ports = Vec::new();
        for listener in &listeners {
            ports.push(listener.as_ref().map_err(|error| Failure::failed(error.to_string()))?.1);
        }
        drop(listeners);
        let folder = place.join("pyroscope");
        let mut command = Command::new(&program);
        command.args(include_str!("pyroscope.txt").split_whitespace());
        command.arg(format!("-server.http-listen-port={}", ports[0]));
        command.arg(format!("-server.grpc-listen-port={}", ports[1]));
        command.arg(format!("-memberlist.bind-port={}", ports[2]));
        command.arg(format!("-pyroscopedb.data-path={}", folder.join("data").display()));
        command.arg(format!("-storage.filesystem.dir={}", folder.join("store").display()));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let address = format!("127.0.0.1:{}", ports[0]);
        let kept = folder.join("store");
        let store = Self { name: NAMES[1], process: Process(child), address, folder, kept };
        let start = Instant::now();
        while !store.is_ready() {
            if start.elapsed() > PATIENCE {
                return Err(Failure::failed("Pyroscope does not become ready"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(store)
    }

    fn is_ready(&self) -> bool {
        let head = "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        self.exchange(head.as_bytes()).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
    }

    /// Calls the query API.
    pub(in crate::bench) fn ask(&self, call: &str, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        let request = format!(
            "POST /querier.v1.QuerierService/{call} HTTP/1.0\r\nHost: localhost\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let failed = |what: String| Failure::failed(format!("{}: {call}: {what}", self.name));
        let answer = self.exchange(request.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let answer = String::from_utf8_lossy(&answer);
        let Some((head, body)) = answer.split_once("\r\n\r\n").filter(|(head, _)| head.contains(" 200 "))
        else {
            return Err(failed(answer.chars().take(500).collect()));
        };
        serde_json::from_str(body).map_err(|error| failed(format!("{error} after {head}")))
    }

    fn exchange(&self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Waits until the store has written this many blocks, and returns how many it has.
    pub(in crate::bench) fn wait_for_blocks(&self, expected: usize) -> Result<usize, Failure> {
        let start = Instant::now();
        loop {
            let blocks = manifests(&self.folder);
            if blocks >= expected {
                return Ok(blocks);
            }
            if start.elapsed() > 4 * PATIENCE {
                return Err(Failure::failed(format!("{blocks} of {expected} blocks")));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => found.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    found
}

/// Returns the bytes of all files in a folder.
pub(in crate::bench) fn bytes_in(folder: &Path) -> Result<u64, Failure> {
    let size = |path: PathBuf| path.metadata().map_or(0, |file| file.len());
    match files(folder).into_iter().map(size).sum() {
        0 => Err(Failure::failed(format!("{}: nothing is kept", folder.display()))),
        bytes => Ok(bytes),
    }
}

fn manifests(folder: &Path) -> usize {
    files(folder).iter().filter(|path| path.file_name().is_some_and(|name| name == "manifest.json")).count()
}
