//! Listening on a port or on a Unix socket.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Address;
use crate::{Error, ErrorKind, Result};

/// What a server accepts connections from.
pub(super) enum Listener {
    Tcp(TcpListener, SocketAddr),
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Listener {
    pub(super) fn bind(address: &str) -> Result<Self> {
        match address.strip_prefix("unix:") {
            Some(path) => Self::bind_unix(path),
            None => Self::bind_tcp(address),
        }
        .map_err(|error| cannot_listen(address, &error))
    }

    fn bind_tcp(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        Ok(Self::Tcp(listener, bound))
    }

    /// The socket gets its name only when no other user can open it, and replaces one that a process has left behind.
    #[cfg(unix)]
    fn bind_unix(path: &str) -> io::Result<Self> {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of the socket is missing"));
        }
        refuse_if_used(path)?;
        let mut unnamed = path.as_os_str().to_owned();
        unnamed.push(format!(".{}", std::process::id()));
        let unnamed = PathBuf::from(unnamed);
        let listener = UnixListener::bind(&unnamed)?;
        let named = std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&unnamed, path));
        if let Err(error) = named {
            // The error that matters is the first one.
            let _ = std::fs::remove_file(&unnamed);
            return Err(error);
        }
        Ok(Self::Unix(listener, path.to_owned()))
    }

    #[cfg(not(unix))]
    fn bind_unix(_: &str) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
    }

    pub(super) fn address(&self) -> Address {
        match self {
            Self::Tcp(_, address) => Address::Tcp(*address),
            #[cfg(unix)]
            Self::Unix(_, path) => Address::Unix(path.clone()),
        }
    }

    /// Returns whether only programs on this machine can connect to its port.
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(_, address) => address.ip().is_loopback(),
            // Browsers cannot open it.
            #[cfg(unix)]
            Self::Unix(..) => false,
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener, _) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    /// Removes the name of a Unix socket.
    pub(super) fn close(&self) {
        #[cfg(unix)]
        if let Self::Unix(_, path) = self {
            // Another process may have replaced or removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Fails if `path` is anything but a socket without a listener.
#[cfg(unix)]
fn refuse_if_used(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => Ok(()),
        },
    }
}

fn cannot_listen(address: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::InvalidInput => ErrorKind::InvalidOption,
        io::ErrorKind::AddrInUse => ErrorKind::Busy,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    // An address is the caller's, but may come from the environment.
    let address: String = address.chars().take(200).collect();
    let hint = match kind {
        ErrorKind::InvalidOption => ", it must be ADDRESS:PORT or unix:PATH",
        _ => "",
    };
    Error::new(kind, format!("cannot listen on {address:?}: {error}{hint}"))
}

impl Address {
    /// Connects and hangs up.
    pub(super) fn knock(&self) {
        match self {
            Self::Tcp(address) => {
                let mut address = *address;
                if address.ip().is_unspecified() {
                    address.set_ip(match address {
                        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                    });
                }
                // If it fails, the server notices at its next connection.
                drop(TcpStream::connect_timeout(&address, Duration::from_secs(1)));
            }
            #[cfg(unix)]
            Self::Unix(path) => drop(UnixStream::connect(path)),
        }
    }
}

impl Stream {
    pub(super) fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        // 0 would mean no timeout.
        let time = Some(time.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(time),
            #[cfg(unix)]
            Self::Unix(stream) => stream.set_read_timeout(time),
        }
    }

    pub(super) fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(time)),
            #[cfg(unix)]
            Self::Unix(stream) => stream.set_write_timeout(Some(time)),
        }
    }

    /// Tells the client that nothing more follows.
    pub(super) fn end(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
