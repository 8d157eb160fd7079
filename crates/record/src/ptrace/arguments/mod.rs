//! The arguments of system calls as text, as strace prints them: file descriptors with what they refer to, paths, sizes,
//! and flags by name. The contents of buffers are never read.

mod constants;
mod signatures;

use std::fmt::Write;

use constants::{Constants, Style};
use signatures::{ArgumentKind, signature};

/// The longest path that is printed.
const LONGEST: usize = 256;

/// What the arguments of a stopped thread refer to.
pub(super) trait Surroundings {
    /// Reads up to `into.len()` bytes of its memory. Returns how many were read.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
    /// Returns what a file descriptor refers to, as `/proc/PID/fd` says it.
    fn descriptor(&self, number: i32) -> Option<Vec<u8>>;
}

/// Returns the arguments of a call as text; empty for calls without interesting ones.
pub(super) fn text(call: &str, arguments: &[u64; 6], surroundings: &dyn Surroundings) -> String {
    let mut text = String::new();
    for (at, kind) in signature(call).iter().enumerate() {
        if is_left_out(*kind, arguments, at) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        let next = arguments.get(at + 1).copied().unwrap_or(0);
        // Writing into a string does not fail.
        let _ = write_argument(&mut text, *kind, arguments[at], next, surroundings);
    }
    text
}

/// Returns whether an argument is not printed: a mode counts only for a file that is created.
fn is_left_out(kind: ArgumentKind, arguments: &[u64; 6], at: usize) -> bool {
    const CREATES: u64 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
    match kind {
        ArgumentKind::Skip => true,
        ArgumentKind::ModeOfNew => at == 0 || arguments[at - 1] & CREATES == 0,
        _ => false,
    }
}

fn write_argument(
    text: &mut String,
    kind: ArgumentKind,
    value: u64,
    next: u64,
    surroundings: &dyn Surroundings,
) -> std::fmt::Result {
    match kind {
        ArgumentKind::Skip => Ok(()),
        ArgumentKind::Descriptor => write_descriptor(text, value as i32, surroundings),
        ArgumentKind::Path => write_path(text, value, surroundings),
        ArgumentKind::Size => write!(text, "{value}"),
        // The kernel takes 32 bits of these.
        ArgumentKind::Number => write!(text, "{}", value as i32),
        ArgumentKind::Hexadecimal => write!(text, "{value:#x}"),
        ArgumentKind::Mode | ArgumentKind::ModeOfNew => write!(text, "0{:o}", value as u32),
        ArgumentKind::Address => write_address(text, value, next, surroundings),
        ArgumentKind::Named(constants) => write_named(text, constants, value),
    }
}

fn write_descriptor(text: &mut String, number: i32, surroundings: &dyn Surroundings) -> std::fmt::Result {
    if number == libc::AT_FDCWD {
        text.push_str("AT_FDCWD");
        return Ok(());
    }
    write!(text, "{number}")?;
    let Some(target) = surroundings.descriptor(number) else { return Ok(()) };
    // Without its number, so that calls on all sockets of a program are counted together.
    let unnumbered = match target.split(|&byte| byte == b'[').next() {
        Some(kind @ (b"socket:" | b"pipe:")) => &kind[..kind.len() - 1],
        _ => &target[..],
    };
    text.push('<');
    escape(text, unnumbered);
    text.push('>');
    Ok(())
}

fn write_path(text: &mut String, address: u64, surroundings: &dyn Surroundings) -> std::fmt::Result {
    if address == 0 {
        text.push_str("NULL");
        return Ok(());
    }
    let mut bytes = [0; LONGEST + 1];
    let read = surroundings.read(address, &mut bytes);
    let bytes = &bytes[..read];
    if bytes.is_empty() {
        return write!(text, "{address:#x}");
    }
    let end = bytes.iter().position(|&byte| byte == 0);
    text.push('"');
    escape(text, &bytes[..end.unwrap_or(bytes.len())]);
    text.push_str(if end.is_some() { "\"" } else { "\"..." });
    Ok(())
}

/// Writes a socket's address.
fn write_address(
    text: &mut String,
    address: u64,
    length: u64,
    surroundings: &dyn Surroundings,
) -> std::fmt::Result {
    let mut bytes = [0; size_of::<libc::sockaddr_un>()];
    let length = usize::try_from(length).unwrap_or(0).min(bytes.len());
    let read = surroundings.read(address, &mut bytes[..length]);
    let bytes = &bytes[..read];
    let family = bytes.first_chunk().map(|family| i32::from(u16::from_ne_bytes(*family)));
    let port = bytes.get(2..).and_then(<[u8]>::first_chunk).map_or(0, |port| u16::from_be_bytes(*port));
    match family {
        Some(libc::AF_INET) => match bytes.get(4..).and_then(<[u8]>::first_chunk::<4>) {
            Some(&ip) => write!(text, "{}:{port}", std::net::Ipv4Addr::from(ip)),
            None => write!(text, "AF_INET"),
        },
        Some(libc::AF_INET6) => match bytes.get(8..).and_then(<[u8]>::first_chunk::<16>) {
            Some(&ip) => write!(text, "[{}]:{port}", std::net::Ipv6Addr::from(ip)),
            None => write!(text, "AF_INET6"),
        },
        Some(libc::AF_UNIX) => {
            let path = bytes.get(2..).unwrap_or_default();
            let is_abstract = path.first() == Some(&0) && path.len() > 1;
            let end = path[usize::from(is_abstract)..].iter().position(|&byte| byte == 0);
            let path = if is_abstract { &path[1..] } else { path };
            text.push_str(if is_abstract { "unix:@" } else { "unix:" });
            escape(text, &path[..end.unwrap_or(path.len())]);
            Ok(())
        }
        Some(family) => write!(text, "family {family}"),
        None => write!(text, "{address:#x}"),
    }
}

fn write_named(text: &mut String, constants: &Constants, value: u64) -> std::fmt::Result {
    let value = value as u32 as u64;
    let exact = |value| constants.names.iter().find(|(known, _)| *known as u32 as u64 == value);
    if constants.style == Style::One {
        return match exact(value) {
            Some((_, name)) => write!(text, "{name}"),
            None => write!(text, "{value}"),
        };
    }
    // A part of the flags is a number, such as the access mode of `open`.
    let choice = value & constants.choice;
    let mut left = value & !constants.choice;
    let mut names: Vec<&str> = Vec::new();
    names.extend(exact(choice).filter(|_| constants.choice != 0).map(|(_, name)| *name));
    for (flag, name) in constants.names {
        let flag = *flag as u32 as u64;
        if flag & constants.choice == 0 && flag != 0 && left & flag == flag {
            names.push(name);
            left &= !flag;
        }
    }
    if names.is_empty() && left == 0 {
        names.extend(exact(0).map(|(_, name)| *name));
    }
    text.push_str(&names.join("|"));
    match (names.is_empty(), left) {
        (true, left) => write!(text, "{left:#x}"),
        (false, 0) => Ok(()),
        (false, left) => write!(text, "|{left:#x}"),
    }
}

/// Adds bytes of the program: everything but printable ASCII is escaped, because it may end up on a terminal.
fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory at address 0x1000; descriptor 3 is a file and 4 a socket.
    struct Program<'a>(&'a [u8]);

    impl Surroundings for Program<'_> {
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            let Some(from) = address.checked_sub(0x1000).and_then(|from| self.0.get(from as usize..)) else {
                return 0;
            };
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            length
        }

        fn descriptor(&self, number: i32) -> Option<Vec<u8>> {
            match number {
                3 => Some(b"/etc/pass\x1bwd".to_vec()),
                4 => Some(b"socket:[12345]".to_vec()),
                _ => None,
            }
        }
    }

    fn of(call: &str, arguments: &[u64], memory: &[u8]) -> String {
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        text(call, &six, &Program(memory))
    }

    const CWD: u64 = libc::AT_FDCWD as u32 as u64;

    #[test]
    fn files_and_their_flags() {
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC) as u64;
        assert_eq!(
            of("openat", &[CWD, 0x1000, flags, 0o644], b"a \"b\"\n\0"),
            r#"AT_FDCWD, "a \"b\"\x0a", O_RDWR|O_CREAT|O_CLOEXEC, 0644"#
        );
        assert_eq!(of("openat", &[9, 0x1000, 0], b"/x\0"), "9, \"/x\", O_RDONLY");
        assert_eq!(of("read", &[3, 0x1000, 4096], b"secret"), "3</etc/pass\\x1bwd>, 4096");
        assert_eq!(of("write", &[4, 0x1000, 7], b"secret"), "4<socket>, 7");
        assert_eq!(of("close", &[u64::from(u32::MAX)], b""), "-1");
        assert_eq!(of("unlink", &[0], b""), "NULL");
        assert_eq!(of("unlink", &[0x9000], b""), "0x9000");
        let long = of("chdir", &[0x1000], &[b'a'; 1000]);
        assert!(long.ends_with("a\"...") && long.len() < 300, "{long}");
        assert_eq!(of("getpid", &[], b""), "");
    }

    #[test]
    fn memory_sockets_and_signals() {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let map = [0, 8192, prot as u64, flags as u64, u64::MAX, 0];
        assert_eq!(of("mmap", &map, b""), "8192, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0");
        assert_eq!(of("mprotect", &[1, 4096, 0], b""), "4096, PROT_NONE");
        assert_eq!(
            of("connect", &[4, 0x1000, 16], b"\x02\0\x1f\x90\x7f\0\0\x01\0\0\0\0\0\0\0\0"),
            "4<socket>, 127.0.0.1:8080"
        );
        assert_eq!(of("connect", &[4, 0x1000, 9], b"\x01\0/run/s\0"), "4<socket>, unix:/run/s");
        assert_eq!(of("connect", &[4, 0x1000, 9], b"\x01\0\0name\0\0"), "4<socket>, unix:@name");
        assert_eq!(of("connect", &[4, 0x1000, 1], b"\x02"), "4<socket>, 0x1000");
        assert_eq!(of("kill", &[12, libc::SIGTERM as u64], b""), "12, SIGTERM");
        assert_eq!(of("kill", &[12, 99], b""), "12, 99");
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
        assert_eq!(of("futex", &[0x7000, wait, 2], b""), "0x7000, FUTEX_WAIT|FUTEX_PRIVATE_FLAG, 2");
        let socket = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
        assert_eq!(of("socket", &[2, socket, 0], b""), "AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0");
        assert_eq!(of("mprotect", &[1, 4096, 0x1001], b""), "4096, PROT_READ|0x1000");
    }
}
