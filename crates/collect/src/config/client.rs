//! `authorization`, `basic_auth` and `tls_config`: how servers are asked.

use crate::outside::Tls;
use crate::scraper::client::{Authorization, Client, Secret};
use crate::yaml::{Read, YamlNode, entries, flag, text};

/// The keys that [`read`] knows.
pub(super) const KEYS: [&str; 3] = ["authorization", "basic_auth", "tls_config"];

pub(super) fn read(key: &str, value: &YamlNode, client: &mut Client) -> Read<()> {
    if key == "tls_config" {
        client.tls = tls(value)?;
        return Ok(());
    }
    let read = if key == "basic_auth" { basic(value)? } else { authorization(value)? };
    if client.authorization.replace(read).is_some() {
        return Err(value.mistake("authorization and basic_auth exclude each other"));
    }
    Ok(())
}

fn authorization(node: &YamlNode) -> Read<Authorization> {
    let (mut scheme, mut secrets) = ("Bearer", Vec::new());
    for (key, value) in entries(node, &["type", "credentials", "credentials_file"])? {
        match key {
            "type" => scheme = text(value)?,
            "credentials" => secrets.push(Secret::Given(text(value)?.to_owned())),
            _ => secrets.push(Secret::File(text(value)?.into())),
        }
    }
    if scheme.eq_ignore_ascii_case("basic") {
        return Err(node.mistake("the type Basic is written as basic_auth"));
    }
    if scheme.is_empty()
        || !scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    {
        return Err(node.mistake("the type is not a word such as Bearer"));
    }
    let secret = only(node, secrets, "credentials or credentials_file")?;
    Ok(Authorization::Credentials { scheme: scheme.to_owned(), secret })
}

fn basic(node: &YamlNode) -> Read<Authorization> {
    let (mut username, mut secrets) = (None, Vec::new());
    for (key, value) in entries(node, &["username", "password", "password_file"])? {
        match key {
            "username" => username = Some(text(value)?.to_owned()),
            "password" => secrets.push(Secret::Given(text(value)?.to_owned())),
            _ => secrets.push(Secret::File(text(value)?.into())),
        }
    }
    let username = username.ok_or_else(|| node.mistake("username is missing"))?;
    Ok(Authorization::Basic { username, password: only(node, secrets, "password or password_file")? })
}

fn only(node: &YamlNode, mut secrets: Vec<Secret>, keys: &str) -> Read<Secret> {
    match (secrets.pop(), secrets.pop()) {
        (Some(secret), None) => Ok(secret),
        _ => Err(node.mistake(format!("write one of {keys}"))),
    }
}

fn tls(node: &YamlNode) -> Read<Tls> {
    let mut tls = Tls::default();
    let keys = ["ca_file", "cert_file", "key_file", "server_name", "insecure_skip_verify"];
    for (key, value) in entries(node, &keys)? {
        match key {
            "ca_file" => tls.ca_file = Some(text(value)?.into()),
            "cert_file" => tls.cert_file = Some(text(value)?.into()),
            "key_file" => tls.key_file = Some(text(value)?.into()),
            "insecure_skip_verify" => tls.insecure_skip_verify = flag(value)?,
            _ => {
                return Err(
                    value.mistake("server_name is not supported; use a host name that is in the certificate")
                );
            }
        }
    }
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        return Err(node.mistake("cert_file and key_file belong together"));
    }
    Ok(tls)
}
