//! `file_sd_configs`, `http_sd_configs`, `dns_sd_configs` and `kubernetes_sd_configs`: where targets are listed.

use std::sync::Arc;
use std::time::Duration;

use super::client;
use crate::scraper::client::Client;
use crate::scraper::discover::{
    ApiServer, Dns, DnsRecords, Family, Files, Http, Kubernetes, SourceKind, TargetSource,
};
use crate::scraper::labels::is_address;
use crate::yaml::{Read, YamlNode, count, duration, entries, flag, list, text};

/// The keys that [`read`] knows.
pub(super) const KEYS: [&str; 4] =
    ["file_sd_configs", "http_sd_configs", "dns_sd_configs", "kubernetes_sd_configs"];

pub(super) fn read(key: &str, value: &YamlNode) -> Read<Vec<TargetSource>> {
    let one = match key {
        "file_sd_configs" => files,
        "http_sd_configs" => http,
        "dns_sd_configs" => dns,
        _ => kubernetes,
    };
    list(value)?.iter().map(one).collect()
}

fn files(node: &YamlNode) -> Read<TargetSource> {
    let (mut patterns, mut refresh) = (Vec::new(), Duration::from_secs(300));
    for (key, value) in entries(node, &["files", "refresh_interval"])? {
        match key {
            "files" => {
                for file in list(value)? {
                    let path = text(file)?;
                    if !Files::is_pattern(path) {
                        let message =
                            "write a file that ends in .json, .yml or .yaml; * may be in its last part";
                        return Err(file.mistake(message));
                    }
                    patterns.push(path.into());
                }
            }
            _ => refresh = duration(value)?,
        }
    }
    if patterns.is_empty() {
        return Err(node.mistake("files is missing"));
    }
    Ok(TargetSource { kind: SourceKind::Files(Files { patterns }), refresh })
}

fn http(node: &YamlNode) -> Read<TargetSource> {
    let (mut url, mut client, mut refresh) = (None, Client::default(), Duration::from_secs(60));
    for (key, value) in entries(node, &[&["url", "refresh_interval"][..], &client::KEYS].concat())? {
        match key {
            "url" => url = Some(server_url(value)?.to_owned()),
            "refresh_interval" => refresh = duration(value)?,
            _ => client::read(key, value, &mut client)?,
        }
    }
    let url = url.ok_or_else(|| node.mistake("url is missing"))?;
    Ok(TargetSource { kind: SourceKind::Http(Http { url, client: Arc::new(client) }), refresh })
}

pub(super) fn server_url(node: &YamlNode) -> Read<&str> {
    let url = text(node)?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(node.mistake("the URL has a name or a password; write them as basic_auth"));
    }
    if is_address(authority) && rest.chars().all(|letter| letter.is_ascii_graphic() && letter != '#') {
        Ok(url)
    } else {
        Err(node.mistake("this is not a URL; write it as http://HOST:PORT/PATH"))
    }
}

fn dns(node: &YamlNode) -> Read<TargetSource> {
    let (mut names, mut family, mut port) = (Vec::new(), None, None);
    let mut refresh = Duration::from_secs(30);
    for (key, value) in entries(node, &["names", "type", "port", "refresh_interval"])? {
        match key {
            "names" => names = list(value)?.iter().map(host).collect::<Read<Vec<_>>>()?,
            "type" => family = record_type(value)?,
            "port" => {
                let number = u16::try_from(count(value)?);
                port = Some(number.map_err(|_| value.mistake("this is not a port"))?);
            }
            _ => refresh = duration(value)?,
        }
    }
    if names.is_empty() {
        return Err(node.mistake("names is missing"));
    }
    let records = match (family, port) {
        (None, _) => DnsRecords::Srv,
        (Some(family), Some(port)) => DnsRecords::Addresses(family, port),
        (Some(_), None) => return Err(node.mistake("port is missing; only SRV records have one")),
    };
    Ok(TargetSource { kind: SourceKind::Dns(Dns { names, records }), refresh })
}

fn host(node: &YamlNode) -> Read<String> {
    let name = text(node)?;
    if is_address(name) && !name.contains([':', '[']) {
        Ok(name.to_owned())
    } else {
        Err(node.mistake(format!("{name:?} is not the name of a host")))
    }
}

/// Returns which addresses are looked up; `None` for SRV records.
fn record_type(node: &YamlNode) -> Read<Option<Family>> {
    match text(node)?.to_ascii_uppercase().as_str() {
        "A" => Ok(Some(Family::V4)),
        "AAAA" => Ok(Some(Family::V6)),
        "SRV" => Ok(None),
        other => Err(node.mistake(format!("{other} records are not supported; write SRV, A or AAAA"))),
    }
}

fn kubernetes(node: &YamlNode) -> Read<TargetSource> {
    let keys = ["role", "api_server", "namespaces", "selectors", "refresh_interval"];
    let (mut role, mut api, mut client, mut refresh) =
        (None, None, Client::default(), Duration::from_secs(30));
    let mut kubernetes = Kubernetes {
        server: None,
        namespaces: Vec::new(),
        own_namespace: false,
        label_selector: String::new(),
        field_selector: String::new(),
    };
    for (key, value) in entries(node, &[&keys[..], &client::KEYS].concat())? {
        match key {
            "role" => role = Some(pod_role(value)?),
            "api_server" => api = Some(server_url(value)?.trim_end_matches('/').to_owned()),
            "namespaces" => namespaces(value, &mut kubernetes)?,
            "selectors" => list(value)?.iter().try_for_each(|one| selector(one, &mut kubernetes))?,
            "refresh_interval" => refresh = duration(value)?,
            _ => client::read(key, value, &mut client)?,
        }
    }
    role.ok_or_else(|| node.mistake("role is missing; write role: pod"))?;
    match api {
        Some(url) => kubernetes.server = Some(ApiServer { url, client: Arc::new(client) }),
        None if client != Client::default() => {
            return Err(node.mistake(
                "credentials and TLS need api_server; in a cluster they are the service account's",
            ));
        }
        None => {}
    }
    Ok(TargetSource { kind: SourceKind::Kubernetes(kubernetes), refresh })
}

fn pod_role(node: &YamlNode) -> Read<()> {
    match text(node)? {
        "pod" => Ok(()),
        other => Err(node.mistake(format!("the role {other:?} is not supported; write role: pod"))),
    }
}

fn namespaces(node: &YamlNode, kubernetes: &mut Kubernetes) -> Read<()> {
    for (key, value) in entries(node, &["names", "own_namespace"])? {
        match key {
            "names" => kubernetes.namespaces = list(value)?.iter().map(host).collect::<Read<Vec<_>>>()?,
            _ => kubernetes.own_namespace = flag(value)?,
        }
    }
    Ok(())
}

fn selector(node: &YamlNode, kubernetes: &mut Kubernetes) -> Read<()> {
    for (key, value) in entries(node, &["role", "label", "field"])? {
        match key {
            "role" => pod_role(value)?,
            "label" => kubernetes.label_selector = text(value)?.to_owned(),
            _ => kubernetes.field_selector = text(value)?.to_owned(),
        }
    }
    Ok(())
}
