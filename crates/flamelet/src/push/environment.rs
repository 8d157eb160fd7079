//! The environment variables that Pyroscope's and OpenTelemetry's own SDKs take.

use flamelet_capture::profile::percent;

use super::Push;
use crate::{Error, Result};

/// Returns a variable that is set and not empty.
type Variable<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Returns the receivers that the environment names.
pub(crate) fn from_environment() -> Result<Vec<Push>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let mut found = Vec::new();
    found.extend(pyroscope(&variable)?);
    found.extend(otlp(&variable)?);
    Ok(found)
}

fn pyroscope(variable: &Variable<'_>) -> Result<Option<Push>> {
    let Some(server) = variable("PYROSCOPE_SERVER_ADDRESS") else { return Ok(None) };
    let mut push = Push::pyroscope(server);
    if let Some(name) = variable("PYROSCOPE_APPLICATION_NAME") {
        push = push.service_name(name);
    }
    if let Some(token) = variable("PYROSCOPE_AUTH_TOKEN") {
        push = push.token(token);
    }
    if let Some(user) = variable("PYROSCOPE_BASIC_AUTH_USER") {
        push = push.basic_auth(user, variable("PYROSCOPE_BASIC_AUTH_PASSWORD").unwrap_or_default());
    }
    if let Some(tenant) = variable("PYROSCOPE_TENANT_ID") {
        push = push.tenant(tenant);
    }
    for (name, value) in pairs(variable, "PYROSCOPE_LABELS")? {
        push = push.label(name, value);
    }
    Ok(Some(push))
}

fn otlp(variable: &Variable<'_>) -> Result<Option<Push>> {
    // The general endpoint is set for traces and metrics, too: it does not turn on profiles.
    let Some(server) = variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT") else { return Ok(None) };
    // The endpoint of one signal is used as it is; only the general one gets a path.
    let mut push = Push::otlp(server).with_whole_url();
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        push = push.service_name(name);
    }
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS"] {
        for (name, value) in pairs(variable, name)? {
            push = push.header(name, value);
        }
    }
    let certificate = variable("OTEL_EXPORTER_OTLP_PROFILES_CERTIFICATE");
    // The general one may be for another receiver, which is asked over https.
    let certificate = certificate.or_else(|| variable("OTEL_EXPORTER_OTLP_CERTIFICATE"));
    if let Some(path) = certificate.filter(|_| push.server.starts_with("https://")) {
        push = push.ca_file(path);
    }
    for (name, value) in pairs(variable, "OTEL_RESOURCE_ATTRIBUTES")? {
        push = match &*name {
            "service.name" if push.service.is_none() => push.service_name(value),
            "service.name" => push,
            _ => push.label(name, value),
        };
    }
    Ok(Some(push))
}

/// Reads `name=value,name=value`, with percent escapes in the values.
fn pairs(variable: &Variable<'_>, name: &str) -> Result<Vec<(String, String)>> {
    let text = variable(name).unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            Error::invalid(format!("{name}: expected name=value pairs with commas between them"))
        })?;
        Ok((key.trim().to_owned(), percent::decode_lossy(value.trim())))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let all: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        move |name| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn pyroscopes_variables_are_read() {
        assert!(pyroscope(&of(&[])).expect("read").is_none());
        let push = pyroscope(&of(&[
            ("PYROSCOPE_SERVER_ADDRESS", "http://store:4040"),
            ("PYROSCOPE_APPLICATION_NAME", "checkout"),
            ("PYROSCOPE_BASIC_AUTH_USER", "me"),
            ("PYROSCOPE_BASIC_AUTH_PASSWORD", "you"),
            ("PYROSCOPE_TENANT_ID", "team"),
            ("PYROSCOPE_LABELS", "region=north, zone = b"),
        ]))
        .expect("read")
        .expect("set");
        assert_eq!(push.server, "http://store:4040");
        assert_eq!(push.service.as_deref(), Some("checkout"));
        let header =
            |name: &str| push.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        assert_eq!(
            (header("Authorization"), header("X-Scope-OrgID")),
            (Some("Basic bWU6eW91"), Some("team"))
        );
        assert_eq!(push.labels, [("region".into(), "north".into()), ("zone".into(), "b".into())]);
        let bad = of(&[("PYROSCOPE_SERVER_ADDRESS", "http://a"), ("PYROSCOPE_LABELS", "north")]);
        assert!(pyroscope(&bad).expect_err("refused").to_string().contains("PYROSCOPE_LABELS"));
    }

    #[test]
    fn opentelemetrys_variables_are_read() {
        assert!(otlp(&of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318")])).expect("read").is_none());
        let push = otlp(&of(&[
            ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://a:4318/own/path"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%zz"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=checkout,host.name=h"),
        ]))
        .expect("read")
        .expect("set");
        assert_eq!(push.service.as_deref(), Some("checkout"));
        assert_eq!(push.url(), "http://a:4318/own/path");
        assert_eq!(push.headers, [("api-key".into(), "a b%zz".into())]);
        assert_eq!(push.labels, [("host.name".into(), "h".into())]);
    }

    #[test]
    fn the_certificate_of_the_signal_counts_before_the_general_one() {
        let of_all = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "all.pem");
        let own = ("OTEL_EXPORTER_OTLP_PROFILES_CERTIFICATE", "own.pem");
        let file = |server: &str, variables: &[(&str, &str)]| {
            let endpoint = ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", server);
            let push = otlp(&of(&[&[endpoint], variables].concat())).expect("read").expect("set");
            push.ca_file.map(|path| path.display().to_string())
        };
        assert_eq!(file("https://a", &[of_all, own]).as_deref(), Some("own.pem"));
        assert_eq!(file("https://a", &[of_all]).as_deref(), Some("all.pem"));
        assert_eq!(file("https://a", &[]), None);
        assert_eq!(file("http://a", &[of_all]), None);
    }
}
