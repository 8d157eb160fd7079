//! The example as a process, which tests start and ask.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long an answer may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// The example, running until the test ends.
pub(crate) struct Example {
    pub(crate) process: Child,
    address: String,
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Example {
    /// Starts it with `arguments` and with changes to its environment.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_axum-service")), arguments, environment)
    }

    /// Starts a copy of it.
    pub(crate) fn start_program(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(program)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("listening on http://").and_then(|rest| rest.split('/').next());
        Self { address: address.expect("an address").to_owned(), process }
    }

    /// Returns the address of a path.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request with these `headers`, each a line, and leaves the answer to the caller.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn send(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}", self.address);
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).expect("sent");
        stream
    }
}
