//! From YAML to a configuration.

use super::Config;
use super::job::job;
use crate::caps::Caps;
use crate::yaml::{Node, Read, count, duration, entries, list, size, text};

pub(super) fn config(node: &Node) -> Read<Config> {
    let mut config = Config::default();
    let keys = [
        "listen",
        "store",
        "token_file",
        "tenants",
        "flush",
        "keep",
        "max_bytes",
        "limits",
        "scrape_configs",
    ];
    for (key, value) in entries(node, &keys)? {
        match key {
            "listen" => config.listen = Some(text(value)?.to_owned()),
            "store" => config.store = Some(text(value)?.into()),
            "token_file" => config.token_file = Some(text(value)?.into()),
            "tenants" => config.tenants = flag(value)?,
            "flush" => config.flush = Some(duration(value)?),
            "keep" => config.keep = Some(duration(value)?),
            "max_bytes" => config.max_bytes = Some(size(value)?),
            "limits" => config.limits = limits(value)?,
            _ => config.jobs = list(value)?.iter().map(job).collect::<Read<Vec<_>>>()?,
        }
    }
    Ok(config)
}

fn flag(node: &Node) -> Read<bool> {
    match text(node)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(node.mistake(format!("{other:?} is not true or false"))),
    }
}

fn limits(node: &Node) -> Read<Caps> {
    let mut caps = Caps::default();
    let keys = ["body", "profile", "labels", "label_name", "label_value", "series", "services"];
    for (key, value) in entries(node, &keys)? {
        match key {
            "body" => caps.body = bytes(value)?,
            // A record of the log has room for 16 MiB.
            "profile" => caps.profile = bytes(value)?.min(Caps::default().profile),
            "labels" => caps.labels = count(value)?,
            "label_name" => caps.label_name = count(value)?,
            "label_value" => caps.label_value = count(value)?,
            "series" => caps.series = count(value)?,
            _ => caps.services = count(value)?,
        }
    }
    Ok(caps)
}

fn bytes(node: &Node) -> Read<usize> {
    usize::try_from(size(node)?).map_err(|_| node.mistake("the size is too large"))
}
