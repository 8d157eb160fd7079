//! What a collector needs of the program around it: the formats of files, and the network.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use flamelet_profile::{Error, Limits, Profile, Result};

/// What a collector needs of its caller. A program that leaves a function out has no such format or network.
pub trait Outside: Send + Sync {
    /// Reads a profile of any format.
    fn read(&self, _bytes: &[u8], _limits: Limits) -> Result<Profile> {
        Err(Error::unreadable("not a profile"))
    }

    /// Reads a message of OTLP's profiles, in JSON or protobuf.
    fn read_otlp(&self, _bytes: &[u8], _is_json: bool, _limits: Limits) -> Result<Vec<Resource>> {
        Err(Error::unreadable("not a message"))
    }

    /// Asks a server, and returns the body of its answer. A message about a refusal has the status with a space on both
    /// sides; it may have the URL, and what the server says.
    fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
        Err(format!("{}: not reachable", request.url))
    }

    /// Returns the addresses of a host.
    fn resolve(&self, host: &str) -> std::result::Result<Vec<IpAddr>, String> {
        Err(format!("unknown host {host}"))
    }

    /// Sends a question to this machine's name server (the DNS protocol), and returns its answer.
    fn ask_name_server(&self, _question: &[u8]) -> std::result::Result<Vec<u8>, String> {
        Err("no name server".to_owned())
    }

    /// Prints a message for the user.
    fn note(&self, message: &str);
}

/// What OpenTelemetry calls a resource: a process, usually, and what was measured of it.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// Its attributes, as (name, value).
    pub attributes: Vec<(String, String)>,
    /// Its profiles.
    pub profiles: Vec<Profile>,
}

/// A GET request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The address.
    pub url: &'a str,
    /// How long to wait for the answer.
    pub wait: Duration,
    /// The most bytes of the answer.
    pub most: usize,
    /// Names and values.
    pub headers: &'a [(String, String)],
    /// How to check who answers.
    pub tls: &'a Tls,
}

/// `tls_config`: how to check who answers, and how to say who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Certificates to trust in place of the usual ones.
    pub ca_file: Option<PathBuf>,
    /// The certificate to show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Trust any certificate.
    pub insecure_skip_verify: bool,
}
