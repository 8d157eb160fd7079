//! Checks the host that a request names and the site that made it.

use http::header::{HOST, ORIGIN, REFERER};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, HeaderValue};

use super::answer::Refusal;

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Refuses requests for a host that is not in `hosts`, if those are set, and requests that another site's page makes
/// a browser send.
pub(super) fn check(parts: &Parts, hosts: Option<&[String]>) -> Result<(), Refusal> {
    let asked = host_of(parts).unwrap_or_default();
    if hosts.is_some_and(|hosts| !hosts.iter().any(|host| host.eq_ignore_ascii_case(asked))) {
        return Err(Refusal::unauthorized());
    }
    if is_from_another_site(parts, hosts.unwrap_or_default()) {
        return Err(Refusal::forbidden("requests from other sites are not allowed; open the URL directly"));
    }
    Ok(())
}

/// Returns the name by which the client knows this server; HTTP/2 has it in the address.
pub(super) fn host_of(parts: &Parts) -> Option<&str> {
    text(parts.headers.get(HOST)).or_else(|| parts.uri.authority().map(Authority::as_str))
}

/// Returns whether a browser makes the request on behalf of another site's page. Following a link is fine; pictures,
/// scripts and frames would let any page take profiles.
///
/// Browsers mark such requests (`Sec-Fetch-…`), except over plain HTTP to any address but loopback. There, a page is
/// recognised by its `Origin` or its `Referer`, which look the same when a user follows a link.
fn is_from_another_site(parts: &Parts, hosts: &[String]) -> bool {
    let is = |name: &str, value: &str| parts.headers.get(name).is_some_and(|given| given == value);
    if parts.headers.contains_key("sec-fetch-site") {
        return is("sec-fetch-site", "cross-site")
            && !(is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document"));
    }
    let page = parts.headers.get(ORIGIN).or_else(|| parts.headers.get(REFERER));
    page.is_some_and(|page| {
        let page = text(Some(page)).and_then(Origin::of_page);
        !page.is_some_and(|page| own_names(parts, hosts).any(|name| page.is_at(name)))
    })
}

/// Returns the names of this server: from the client, from proxies in front, and from the service's own list. Another
/// site's page cannot choose these headers freely, with one exception: it can use its own host name that points to
/// this server, which only the service's own list detects.
fn own_names<'a>(parts: &'a Parts, hosts: &'a [String]) -> impl Iterator<Item = &'a str> {
    let forwarded = parts.headers.get_all(X_FORWARDED_HOST).iter().filter_map(|value| value.to_str().ok());
    let forwarded = forwarded.flat_map(|value| value.split(',')).map(str::trim);
    host_of(parts).into_iter().chain(forwarded).chain(hosts.iter().map(String::as_str))
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}

/// The origin of a page.
#[derive(Debug)]
struct Origin {
    authority: Authority,
    /// The port to assume if the address has none.
    default_port: u16,
}

impl Origin {
    /// Reads `http://host:port/path`, as in `Origin` and `Referer`; returns `None` for `null` and anything else.
    fn of_page(address: &str) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let default_port = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?.parse().ok()?;
        Some(Self { authority, default_port })
    }

    /// Returns whether `host` names the same host and port.
    fn is_at(&self, host: &str) -> bool {
        let Ok(host) = host.parse::<Authority>() else { return false };
        let port = |authority: &Authority| authority.port_u16().unwrap_or(self.default_port);
        host.host().eq_ignore_ascii_case(self.authority.host()) && port(&host) == port(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_at(page: &str, host: &str) -> bool {
        Origin::of_page(page).is_some_and(|page| page.is_at(host))
    }

    #[test]
    fn a_page_is_at_a_host_when_name_and_port_are_the_same() {
        for (page, host) in [
            ("http://10.0.0.5:3000", "10.0.0.5:3000"),
            ("http://Service.Internal/a?b#c", "service.internal"),
            ("http://service.internal", "service.internal:80"),
            ("https://service.internal:443/", "service.internal"),
            ("http://[fd00::1]:3000/x", "[fd00::1]:3000"),
        ] {
            assert!(is_at(page, host), "{page} at {host}");
        }
        for (page, host) in [
            ("http://10.0.0.5:3001", "10.0.0.5:3000"),
            ("http://10.0.0.50:3000", "10.0.0.5:3000"),
            ("https://service.internal/", "service.internal:80"),
            ("http://evil.example/service.internal", "service.internal"),
            ("http://service.internal@evil.example/", "service.internal"),
            ("http://[fd00::2]:3000", "[fd00::1]:3000"),
            ("null", "null"),
            ("", ""),
            ("http://", ""),
            ("file:///etc/passwd", ""),
            ("data:text/html,x", "text"),
        ] {
            assert!(!is_at(page, host), "{page} at {host}");
        }
    }
}
