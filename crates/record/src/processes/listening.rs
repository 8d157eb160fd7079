//! The sockets on which processes wait for connections or messages.

use std::collections::HashSet;

/// A socket that a process listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A port, of TCP or UDP.
    Port(u16),
    /// A Unix socket, by its path; empty if it has none.
    Unix(String),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port}"),
            Self::Unix(path) => write!(f, "socket {}", path.escape_debug()),
        }
    }
}

/// Returns the processes that this process has started, directly or not.
pub fn started_by_us() -> Vec<u32> {
    super::descendants(std::process::id())
}

/// Returns what `pids` listen on, as far as this user may see it.
pub fn endpoints(pids: &[u32]) -> Vec<Endpoint> {
    pids.iter().flat_map(|&pid| endpoints_of(pid)).collect()
}

fn endpoints_of(pid: u32) -> Vec<Endpoint> {
    let owned = sockets(pid);
    if owned.is_empty() {
        return Vec::new();
    }
    // The lists of the process itself, which may be in another network namespace.
    let list = |name: &str| std::fs::read(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let ports = ["tcp", "tcp6", "udp", "udp6"]
        .into_iter()
        .flat_map(|name| ports(&String::from_utf8_lossy(&list(name)), name.starts_with("udp")))
        .map(|(port, inode)| (Endpoint::Port(port), inode));
    let unix = unix(&String::from_utf8_lossy(&list("unix")));
    let all = ports.chain(unix.into_iter().map(|(path, inode)| (Endpoint::Unix(path), inode)));
    all.filter(|(_, inode)| owned.contains(inode)).map(|(endpoint, _)| endpoint).collect()
}

/// Returns the inodes of the sockets that a process has open.
fn sockets(pid: u32) -> HashSet<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let inode = |link: &str| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter_map(|link| inode(link.to_str()?)).collect()
}

/// Returns the listening ports in a list such as `/proc/net/tcp`, each with the inode of its socket.
fn ports(list: &str, is_udp: bool) -> Vec<(u16, u64)> {
    // TCP_LISTEN; for UDP, a socket that is bound and not connected.
    let state = if is_udp { "07" } else { "0A" };
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, inode) = (words.get(1)?, words.get(9)?);
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (*words.get(3)? == state).then_some((port, inode.parse().ok()?))
    };
    list.lines().filter_map(port).collect()
}

/// Returns the listening sockets in `/proc/net/unix`, each with its inode.
fn unix(list: &str) -> Vec<(String, u64)> {
    const ACCEPTS: u32 = 1 << 16;
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
        let path = words.get(7).copied().unwrap_or_default().to_owned();
        (flags & ACCEPTS != 0).then_some((path, words.get(6)?.parse().ok()?))
    };
    list.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                   \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100\n\
                   \x20  1: 0100007F:1F91 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20\n";
        assert_eq!(ports(tcp, false), [(8080, 4711)]);
        assert_eq!(ports(&tcp.replace(" 0A ", " 07 "), true), [(8080, 4711)]);
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 77 /run/db.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 78\n";
        assert_eq!(unix(list), [("/run/db.sock".to_owned(), 77)]);
        assert_eq!((ports("nonsense\n: : : :\n", false), unix("a b c")), (vec![], vec![]));
    }

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let of_us = || endpoints(&[std::process::id()]);
        assert!(of_us().contains(&Endpoint::Port(port)));
        // A process that another test starts has our files until it executes its program.
        while endpoints(&started_by_us()).contains(&Endpoint::Port(port)) {
            std::thread::yield_now();
        }
    }
}
