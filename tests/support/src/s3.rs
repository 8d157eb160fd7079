//! An S3 server for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Listens on a free port, whose number it prints.
const SERVER: &str = r#"
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.port, flush=True)
server.serve_forever()
"#;
/// By this the server knows which of Amazon's services is meant.
const CREDENTIAL: &str = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, \
                          SignedHeaders=host, Signature=0";

/// A running server with the bucket `profiles`.
pub struct S3Server {
    child: Child,
    /// Its host and port.
    pub address: String,
}

impl S3Server {
    /// Starts the server, if it is installed; else says that something is skipped.
    pub fn start() -> Option<Self> {
        let test = std::env::current_exe().ok()?;
        let target = test.ancestors().nth(3)?.to_owned();
        let package =
            std::env::var_os("FLAMELET_MOTO").map_or_else(|| target.join("tools/moto"), PathBuf::from);
        if !package.join("moto").is_dir() {
            crate::skip!(
                "there is no S3 server in target/tools/moto (`cargo xtask tools --peers` prepares it)"
            );
            return None;
        }
        let mut command = Command::new("python3");
        // Without the packages of the machine, so that the pinned ones are complete.
        command.args(["-S", "-c", SERVER]).env("PYTHONPATH", package);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("python3 starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut port).expect("a port");
        let server = Self { child, address: format!("127.0.0.1:{}", port.trim()) };
        server.put("/profiles", b"");
        Some(server)
    }

    /// Returns the answer to a GET request.
    pub fn get(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.ask("GET", path, b"")).into_owned()
    }

    /// Writes an object, or makes a bucket.
    pub fn put(&self, path: &str, content: &[u8]) {
        self.ask("PUT", path, content);
    }

    fn ask(&self, method: &str, path: &str, content: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{CREDENTIAL}\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n",
            content.len()
        );
        stream.write_all(&[head.as_bytes(), content].concat()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer));
        answer.split_off(end + 4)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
