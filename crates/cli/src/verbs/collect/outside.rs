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
            // A service that is scraped must not choose what the collector requests.
            follows_no_redirects: true,
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

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_collect::Tls;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_scraped_service_cannot_send_the_collector_elsewhere() {
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (service, elsewhere) = (bind(), bind());
        let target = elsewhere.local_addr().expect("bound");
        let url = format!("http://{}/debug/pprof/heap", service.local_addr().expect("bound"));
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = service.accept().expect("asked");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{target}/secret\r\nContent-Length: 0\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("answered");
        });
        let request = Request {
            url: &url,
            wait: std::time::Duration::from_secs(60),
            most: 1 << 20,
            headers: &[],
            tls: &Tls::default(),
        };
        let error = Command.fetch(&request).expect_err("a redirection is no profile");
        assert!(error.contains("302"), "{error}");
        answering.join().expect("no panic");
        elsewhere.set_nonblocking(true).expect("set");
        assert!(elsewhere.accept().is_err(), "nobody was asked there");
    }
}
