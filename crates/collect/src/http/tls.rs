//! TLS: the certificate of a collector, which is read again when its files change.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};

use crate::lock::lock;

/// How often the files are read again, while there are new connections.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than any chain of certificates.
const MAX_FILE: u64 = 1 << 20;
/// The first byte of every connection with TLS.
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const HTTP2: &[u8] = b"h2";
const REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 50\r\n\
    Connection: close\r\n\r\nthis collector speaks TLS; use an https:// address";

/// The certificate that a collector shows, from two files in PEM.
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    loaded: Mutex<LoadedCertificate>,
}

/// What was in the files, and what was made of it.
struct LoadedCertificate {
    texts: [Vec<u8>; 2],
    read: Instant,
    acceptor: TlsAcceptor,
}

impl Certificate {
    /// Reads a certificate, with those that lead to an authority, and its key. An error is one line that names the file.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, String> {
        let texts = [contents(chain)?, contents(key)?];
        let acceptor = acceptor((chain, key), &texts)?;
        let loaded = Mutex::new(LoadedCertificate { texts, read: Instant::now(), acceptor });
        Ok(Self { chain: chain.to_owned(), key: key.to_owned(), loaded })
    }

    /// Returns whether every user of this machine can read the key.
    pub fn is_key_exposed(&self) -> bool {
        use std::os::unix::fs::PermissionsExt;
        self.key.metadata().is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
    }

    /// Returns what accepts a connection. If the files have changed, it is made from what is in them now; if that is
    /// not valid, the user is told, and the last valid one stays.
    pub(super) fn acceptor(&self, note: &dyn Fn(&str)) -> TlsAcceptor {
        let mut loaded = lock(&self.loaded);
        if loaded.read.elapsed() >= LOOK {
            loaded.read = Instant::now();
            if let Err(why) = self.refresh(&mut loaded) {
                note(&format!("{why}; the last good certificate stays in use"));
            }
        }
        loaded.acceptor.clone()
    }

    fn refresh(&self, loaded: &mut LoadedCertificate) -> Result<(), String> {
        // While a file is replaced, it may be missing for a moment.
        let (Ok(chain), Ok(key)) = (contents(&self.chain), contents(&self.key)) else { return Ok(()) };
        if loaded.texts == [&*chain, &*key] {
            return Ok(());
        }
        // Even if they are not valid: that is reported once.
        loaded.texts = [chain, key];
        loaded.acceptor = acceptor((&self.chain, &self.key), &loaded.texts)?;
        Ok(())
    }
}

fn about(path: &Path, what: impl Display) -> String {
    format!("{}: {what}", path.display())
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let file = flamelet_profile::open_regular(path).map_err(|error| about(path, error))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(|error| about(path, error))?;
    Ok(bytes)
}

fn acceptor((chain, key): (&Path, &Path), texts: &[Vec<u8>; 2]) -> Result<TlsAcceptor, String> {
    let certificates: Option<Vec<_>> = CertificateDer::pem_slice_iter(&texts[0]).map(Result::ok).collect();
    let certificates = certificates.filter(|all| !all.is_empty());
    let certificates = certificates.ok_or_else(|| about(chain, "has no certificate in PEM"))?;
    let private = PrivateKeyDer::from_pem_slice(&texts[1])
        .map_err(|_| about(key, "has no private key in PEM, or one with a password"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, private));
    let mut config = config.map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            about(key, format!("is not the key of the certificate in {}", chain.display()))
        }
        Error::General(why) => about(key, why),
        error => about(chain, error),
    })?;
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns whether a connection begins as TLS does. One that does not is answered in HTTP, so that a person who has
/// forgotten the `s` of `https` is told.
pub(super) async fn is_tls(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE {
        return Ok(true);
    }
    // What is left unread would make the system reset the connection, and the answer could be lost.
    let _ = stream.try_read(&mut [0; 16 << 10]);
    let _ = stream.try_write(REFUSAL);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn testdata(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tls").join(name)
    }

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = String::from_utf8_lossy(REFUSAL);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    }

    #[test]
    fn each_mistake_names_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let (chain, key) = (testdata("server.pem"), testdata("server.key"));
        let (empty, missing) = (file("empty.pem", ""), folder.path().join("missing.pem"));
        let torn = file("torn.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        let no_key = file("no.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        for (chain, key, words) in [
            (&missing, &key, "missing.pem: "),
            (&chain, &missing, "missing.pem: "),
            (&empty, &key, "empty.pem: "),
            (&key, &key, "server.key: has no certificate"),
            (&chain, &chain, "server.pem: has no private key"),
            (&torn, &key, "torn.pem: "),
            (&chain, &no_key, "no.key: "),
            (&testdata("authority.pem"), &key, "server.key: is not the key of the certificate in "),
        ] {
            let why = Certificate::read(chain, key).err().expect("refused");
            assert!(why.contains(words) && !why.contains('\n'), "{words}: {why}");
        }
        assert!(Certificate::read(&chain, &key).is_ok());
    }
}
