//! Queries this machine's name servers for what the system's resolver does not offer, in the DNS protocol.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const CONFIGURATION: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// How long to wait for each server, and how many are asked, as the system's resolver does.
const WAIT: Duration = Duration::from_secs(5);
const MAX_SERVERS: usize = 3;

/// Asks one server after another, until one answers.
pub(super) fn ask(question: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::fs::read_to_string(CONFIGURATION).map_err(|error| format!("{CONFIGURATION}: {error}"))?;
    let servers = servers(&text);
    let mut last = format!("{CONFIGURATION} names no server");
    for server in servers {
        match ask_one(server, question, WAIT) {
            Ok(answer) => return Ok(answer),
            Err(error) => last = format!("the name server {server}: {error}"),
        }
    }
    Err(last)
}

fn servers(text: &str) -> Vec<SocketAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr =
            words.next().filter(|word| *word == "nameserver").and(words.next())?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    });
    lines.take(MAX_SERVERS).collect()
}

fn ask_one(server: SocketAddr, question: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
    let here: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((here, 0))?;
    // Receives no answers from anyone else.
    socket.connect(server)?;
    socket.set_read_timeout(Some(wait))?;
    socket.send(question)?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    let is_cut = answer.get(2).is_some_and(|flags| flags & 2 != 0);
    if is_cut { ask_by_stream(server, question, wait) } else { Ok(answer) }
}

/// Long answers do not fit into a datagram.
fn ask_by_stream(server: SocketAddr, question: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_those_of_the_configuration() {
        let text = "# a\nsearch x\nnameserver 10.0.0.1\nnameserver fd00::1 # b\nnameserver x\nnameserver\n";
        let found: Vec<String> = servers(text).iter().map(SocketAddr::to_string).collect();
        assert_eq!(found, ["10.0.0.1:53", "[fd00::1]:53"]);
    }

    /// A server that cuts its answer, and gives the whole one by a stream.
    #[test]
    fn an_answer_that_is_cut_is_asked_for_again() {
        let (socket, listener) = loop {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("bound");
            if let Ok(socket) = UdpSocket::bind(address) {
                break (socket, listener);
            }
        };
        let server = socket.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut question = [0; 100];
            let (length, from) = socket.recv_from(&mut question).expect("a question");
            assert_eq!(&question[..length], b"question");
            socket.send_to(&[0, 0, 0x82, 0], from).expect("sent");
            let (mut stream, _) = listener.accept().expect("a stream");
            let mut question = [0; 10];
            stream.read_exact(&mut question).expect("a question");
            assert_eq!(&question, b"\0\x08question");
            stream.write_all(b"\0\x05whole").expect("sent");
        });
        let wait = Duration::from_secs(120);
        assert_eq!(ask_one(server, b"question", wait).expect("an answer"), b"whole");
    }
}
