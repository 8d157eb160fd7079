//! `scrape_configs`: the services to take profiles of.

use std::sync::Arc;
use std::time::Duration;

use super::relabel::rule;
use super::{client, sources};
use crate::scraper::client::Client;
use crate::scraper::discover::target_group;
use crate::scraper::job::ScrapeJob;
use crate::scraper::labels::{self, ADDRESS, LabelSet, PARAM, PATH_PREFIX, SCHEME, get, set};
use crate::scraper::url::is_path;
use crate::series::check_service;
use crate::yaml::{Read, YamlNode, duration, entries, list, map, text};

const INTERVAL: Duration = Duration::from_secs(10);

const KEYS: [&str; 9] = [
    "job_name",
    "scrape_interval",
    "scrape_timeout",
    "profiles",
    "scheme",
    "path_prefix",
    "params",
    "relabel_configs",
    "static_configs",
];

pub(super) fn job(node: &YamlNode) -> Read<ScrapeJob> {
    let mut job = ScrapeJob::new(name(node)?, INTERVAL);
    let mut client = Client::default();
    let mut has_targets = false;
    for (key, value) in entries(node, &[&KEYS[..], &sources::KEYS, &client::KEYS].concat())? {
        match key {
            "job_name" => {}
            "scrape_interval" => job.interval = duration(value)?,
            "scrape_timeout" => job.timeout = duration(value)?,
            "profiles" => job.profiles = Some(list(value)?.iter().map(profile).collect::<Read<Vec<_>>>()?),
            "scheme" => set(&mut job.defaults, SCHEME, scheme(value)?),
            "path_prefix" => set(&mut job.defaults, PATH_PREFIX, path_prefix(value)?),
            "params" => params(value, &mut job.defaults)?,
            "static_configs" => {
                has_targets = true;
                for group in list(value)? {
                    job.targets.extend(static_group(group)?);
                }
            }
            "relabel_configs" => job.rules = list(value)?.iter().map(rule).collect::<Read<Vec<_>>>()?,
            _ if sources::KEYS.contains(&key) => job.sources.extend(sources::read(key, value)?),
            _ => client::read(key, value, &mut client)?,
        }
    }
    job.client = Arc::new(client);
    if !has_targets && job.sources.is_empty() {
        let keys = sources::KEYS.join(", ");
        return Err(node.mistake(format!("static_configs is missing, and so are {keys}")));
    }
    Ok(job)
}

fn name(node: &YamlNode) -> Read<&str> {
    let given = map(node)?.iter().find(|(key, _)| text(key) == Ok("job_name"));
    let (_, value) = given.ok_or_else(|| node.mistake("job_name is missing"))?;
    let name = text(value)?;
    if name.is_empty() {
        return Err(value.mistake("job_name is empty"));
    }
    check_service(name).map_err(|error| value.mistake(error.to_string()))?;
    Ok(name)
}

fn profile(node: &YamlNode) -> Read<String> {
    let name = text(node)?;
    let is_good =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_good {
        Ok(name.to_owned())
    } else {
        Err(node.mistake(format!("{name:?} is not the name of a profile")))
    }
}

fn scheme(node: &YamlNode) -> Read<&str> {
    match text(node)? {
        scheme @ ("http" | "https") => Ok(scheme),
        other => Err(node.mistake(format!("the scheme {other:?} is neither http nor https"))),
    }
}

fn path_prefix(node: &YamlNode) -> Read<&str> {
    let prefix = text(node)?.trim_end_matches('/');
    if prefix.is_empty() || is_path(prefix) {
        Ok(prefix)
    } else {
        Err(node.mistake(format!("{prefix:?} is not a path; write it as /metrics")))
    }
}

fn params(node: &YamlNode, defaults: &mut LabelSet) -> Read<()> {
    for (key, value) in map(node)? {
        let name = text(key)?;
        if name == "seconds" {
            return Err(key.mistake("seconds is set from scrape_interval"));
        }
        match list(value)? {
            [one] => set(defaults, &format!("{PARAM}{name}"), text(one)?),
            _ => return Err(value.mistake("write one value in brackets")),
        }
    }
    Ok(())
}

fn static_group(node: &YamlNode) -> Read<Vec<LabelSet>> {
    let group = target_group(node, check_address)?;
    let with_labels = |target: &String| {
        let mut labels = group.common();
        labels.extend(labels::of_target(target));
        labels
    };
    Ok(group.targets.iter().map(with_labels).collect())
}

fn check_address(node: &YamlNode) -> Read<()> {
    let given = text(node)?;
    let labels = labels::of_target(given);
    let (address, scheme) = (get(&labels, ADDRESS), get(&labels, SCHEME));
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let is_good =
        labels::is_address(address) && (has_port && scheme.is_empty() || matches!(scheme, "http" | "https"));
    if is_good { Ok(()) } else { Err(node.mistake(format!("{given:?} is not HOST:PORT"))) }
}
