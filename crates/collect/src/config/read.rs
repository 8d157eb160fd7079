//! From YAML to a configuration.

use std::time::Duration;

use super::Config;
use super::job::job;
use crate::caps::Caps;
use crate::keep::Keep;
use crate::yaml::{Read, YamlNode, YamlValue, count, duration, entries, list, size, text};

pub(super) fn config(node: &YamlNode) -> Read<Config> {
    let mut config = Config::default();
    let keys = [
        "listen",
        "store",
        "token_file",
        "tenants",
        "flush",
        "keep",
        "max_bytes",
        "watch",
        "price",
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
            "keep" => (config.keep, config.keep_of) = keep(value)?,
            "max_bytes" => config.max_bytes = Some(size(value)?),
            "watch" => config.watch = Some(duration(value)?),
            "price" => config.price = Some(price(value)?),
            "limits" => config.limits = limits(value)?,
            _ => config.jobs = list(value)?.iter().map(job).collect::<Read<Vec<_>>>()?,
        }
    }
    Ok(config)
}

fn flag(node: &YamlNode) -> Read<bool> {
    match text(node)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(node.mistake(format!("{other:?} is not true or false"))),
    }
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
            "profile" => caps.profile = bytes(value)?.min(Caps::default().profile),
            // A block of more may take too much memory.
            "samples" => caps.samples = count(value)?.min(Caps::default().samples),
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

fn bytes(node: &YamlNode) -> Read<usize> {
    usize::try_from(size(node)?).map_err(|_| node.mistake("the size is too large"))
}
