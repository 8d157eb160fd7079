//! Whose certificates a receiver may have.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::{Error, ErrorKind, Result};

/// The variable with which OpenSSL, curl and Go are told whom to trust.
const VARIABLE: &str = "SSL_CERT_FILE";
/// Where systems keep the authorities that they trust, in one file: Debian, Alpine and Arch; Fedora and Red Hat; openSUSE;
/// macOS and the BSDs.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The longest file of authorities; those of systems have about 250 KB.
const MAX_FILE: u64 = 8 << 20;

/// Returns the configuration for a receiver. It trusts the first of these that exists: the authorities of `ca_file`, those
/// of the variable, those of the system, and Mozilla's list, which is built in.
pub(super) fn config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let roots = match ca_file.or(variable.as_deref()) {
        Some(path) => authorities(path)?,
        // A system without such a file, or with one that is of no use, has the list that was built in.
        None => SYSTEM.iter().find_map(|path| authorities(Path::new(path)).ok()).unwrap_or(RootCerts::WebPki),
    };
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// Reads the certificates of a file in PEM form, of which there must be one at least.
fn authorities(path: &Path) -> Result<RootCerts> {
    let wrong = |what: &str| {
        let message = format!("{}: {what}", path.display());
        Error::new(ErrorKind::InvalidOption, message)
    };
    let pem = read(path).map_err(|error| wrong(&error.to_string()))?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(wrong(&format!("this is not a file of certificates: {error}"))),
        }
    }
    if certificates.is_empty() {
        return Err(wrong("there is no certificate in this file"));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("the file is longer than 8 MiB"));
    }
    Ok(bytes)
}
