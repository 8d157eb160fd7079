//! From YAML to a configuration.

use std::time::Duration;

use super::job::job;
use super::sources::server_url;
use super::{CertificateFiles, Config, PlacedFile};
use crate::caps::Caps;
use crate::keep::Keep;
use crate::scraper::job::ScrapeJob;
use crate::scraper::labels::is_address;
use crate::yaml::{Read, YamlNode, YamlValue, count, duration, entries, flag, list, map, size, text};

pub(super) fn config(node: &YamlNode) -> Read<Config> {
    let mut config = Config::default();
    let keys = [
        "listen",
        "store",
        "token_file",
        "tls_server_config",
        "tenants",
        "flush",
        "keep",
        "max_bytes",
        "watch",
        "price",
        "debuginfod_urls",
        "limits",
        "scrape_configs",
    ];
    for (key, value) in entries(node, &keys)? {
        match key {
            "listen" => config.listen = Some(listen(value)?.to_owned()),
            "store" => config.store = Some(file(value)?),
            "token_file" => config.token_file = Some(file(value)?),
            "tls_server_config" => config.tls = Some(certificate(value)?),
            "tenants" => config.tenants = flag(value)?,
            "flush" => config.flush = Some(duration(value)?),
            "keep" => (config.keep, config.keep_of) = keep(value)?,
            "max_bytes" => config.max_bytes = Some(size(value)?),
            "watch" => config.watch = Some(duration(value)?),
            "price" => config.price = Some(price(value)?),
            "debuginfod_urls" => {
                let urls = list(value)?.iter().map(|url| server_url(url).map(str::to_owned));
                config.debuginfod = Some(urls.collect::<Read<Vec<_>>>()?);
            }
            "limits" => config.limits = limits(value)?,
            _ => config.jobs = jobs(value)?,
        }
    }
    Ok(config)
}

fn file(node: &YamlNode) -> Read<PlacedFile> {
    Ok(PlacedFile { path: text(node)?.into(), place: node.place() })
}

fn listen(node: &YamlNode) -> Read<&str> {
    let given = text(node)?;
    check_listen(given).map(|()| given).map_err(|message| node.mistake(message))
}

/// Checks where to listen: an address and a port, which may be 0 for a free one.
pub fn check_listen(given: &str) -> Result<(), String> {
    let is_good = given.rsplit_once(':').is_some_and(|(host, port)| {
        let has_no_port = !host.contains(':') || host.ends_with(']');
        is_address(host) && has_no_port && port.parse::<u16>().is_ok()
    });
    match is_good {
        true => Ok(()),
        false => Err(format!("{given:?} is not an address and a port; write it as 127.0.0.1:4040")),
    }
}

fn jobs(node: &YamlNode) -> Read<Vec<ScrapeJob>> {
    let mut jobs: Vec<ScrapeJob> = Vec::new();
    for item in list(node)? {
        let new = job(item)?;
        if jobs.iter().any(|known| known.name == new.name) {
            let name = map(item)?.iter().find(|(key, _)| text(key) == Ok("job_name"));
            let place = name.map_or(item, |(_, value)| value);
            return Err(place.mistake(format!("another job is also called {:?}", new.name)));
        }
        jobs.push(new);
    }
    Ok(jobs)
}

fn certificate(node: &YamlNode) -> Read<CertificateFiles> {
    let (mut cert_file, mut key_file) = (None, None);
    for (key, value) in entries(node, &["cert_file", "key_file"])? {
        let file = if key == "cert_file" { &mut cert_file } else { &mut key_file };
        *file = Some(text(value)?.into());
    }
    Ok(CertificateFiles {
        cert_file: cert_file.ok_or_else(|| node.mistake("cert_file is missing"))?,
        key_file: key_file.ok_or_else(|| node.mistake("key_file is missing"))?,
        place: node.place(),
    })
}

/// Reads what a core costs in an hour.
fn price(node: &YamlNode) -> Read<f64> {
    let given = text(node)?;
    let price = given.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| node.mistake(format!("{given:?} is not a price; write it as 0.03")))
}

/// Reads one length of time for all services, or a list by services.
fn keep(node: &YamlNode) -> Read<(Option<Duration>, Vec<Keep>)> {
    let YamlValue::List(items) = &node.value else { return Ok((Some(duration(node)?), Vec::new())) };
    let Some(last) = items.len().checked_sub(1) else { return Err(node.mistake("the list is empty")) };
    let (mut all, mut some) = (None, Vec::new());
    for (at, item) in items.iter().enumerate() {
        let (mut selector, mut age) = (None, None);
        for (key, value) in entries(item, &["selector", "age"])? {
            match key {
                "selector" => selector = Some(value),
                _ => age = Some(duration(value)?),
            }
        }
        let age = age.ok_or_else(|| item.mistake("age is missing"))?;
        match selector {
            Some(node) => {
                let keep = Keep::parse(text(node)?, age);
                some.push(keep.map_err(|error| node.mistake(error.to_string()))?);
            }
            None if at == last && all.is_none() => all = Some(age),
            None => return Err(item.mistake("only the last entry may have no selector")),
        }
    }
    Ok((all, some))
}

fn limits(node: &YamlNode) -> Read<Caps> {
    let mut caps = Caps::default();
    let keys = [
        "body",
        "profile",
        "samples",
        "labels",
        "label_name",
        "label_value",
        "series",
        "services",
        "symbols",
    ];
    for (key, value) in entries(node, &keys)? {
        match key {
            "body" => caps.body = bytes(value)?,
            // A record of the log has room for 16 MiB.
            "profile" => caps.profile = at_most(value, bytes(value)?, Caps::default().profile, "15MiB")?,
            // A block of more may take too much memory.
            "samples" => caps.samples = at_most(value, count(value)?, Caps::default().samples, "65536")?,
            "labels" => caps.labels = count(value)?,
            "label_name" => caps.label_name = count(value)?,
            "label_value" => caps.label_value = count(value)?,
            "series" => caps.series = count(value)?,
            "symbols" => caps.symbols = bytes(value)?,
            _ => caps.services = count(value)?,
        }
    }
    Ok(caps)
}

fn at_most(node: &YamlNode, given: usize, most: usize, shown: &str) -> Read<usize> {
    if given <= most { Ok(given) } else { Err(node.mistake(format!("this can be {shown} at most"))) }
}

fn bytes(node: &YamlNode) -> Read<usize> {
    usize::try_from(size(node)?).map_err(|_| node.mistake("the size is too large"))
}
