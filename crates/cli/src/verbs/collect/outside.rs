//! What a collector needs of the command: the formats of files, and an HTTP client.

use std::net::{IpAddr, ToSocketAddrs};

use flamelet_collect::{Outside, Request, Resource};
use flamelet_formats::{FormatOptions, OtlpResource};
use flamelet_profile::{Limits, Profile, Result};

use super::names;
use crate::profiles::fetch::{self, Advice, FetchOptions};

pub(super) struct Command;

fn options(limits: Limits) -> FormatOptions {
    let mut options = FormatOptions::default();
    options.limits = limits;
    options.timeline = false;
    // A file from somewhere else names no file of this machine.
    options.only_below = Some(Vec::new());
    options
}

impl Outside for Command {
    fn read(&self, bytes: &[u8], limits: Limits) -> Result<Profile> {
        Ok(flamelet_formats::read(Box::new(std::io::Cursor::new(bytes.to_vec())), &options(limits))?.profile)
    }

    fn read_otlp(&self, bytes: &[u8], is_json: bool, limits: Limits) -> Result<Vec<Resource>> {
        let resources = flamelet_formats::read_otlp(bytes, is_json, &options(limits))?;
        let same = |OtlpResource { attributes, profiles }| Resource { attributes, profiles };
        Ok(resources.into_iter().map(same).collect())
    }

    fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
        let options = FetchOptions {
            timeout: Some(request.wait.as_secs().max(1)),
            max_bytes: request.most as u64,
            headers: request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
            tls_ca: request.tls.ca_file.clone(),
            tls_cert: request.tls.cert_file.clone(),
            tls_key: request.tls.key_file.clone(),
            insecure: request.tls.insecure_skip_verify,
            advice: Advice::Configuration,
            ..FetchOptions::default()
        };
        fetch::get_exactly(request.url, &options).map_err(|failure| failure.to_string())
    }

    fn resolve(&self, host: &str) -> std::result::Result<Vec<IpAddr>, String> {
        let found = (host, 0u16).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        Ok(found.map(|address| address.ip()).collect())
    }

    fn ask_name_server(&self, question: &[u8]) -> std::result::Result<Vec<u8>, String> {
        names::ask(question)
    }

    fn note(&self, message: &str) {
        note!("{message}");
    }
}
