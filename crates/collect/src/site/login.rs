//! How a browser sends a token: once in the address, then in a cookie.

use axum::body::Body;
use axum::http::header::{COOKIE, HOST, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::VIEWER;

/// What a browser shows.
const PAGES: [&str; 4] = ["/", "/top", "/changes", VIEWER];

/// Returns whether a user follows a link to a page.
pub(crate) fn is_visit(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let navigates = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    method == Method::GET && navigates && PAGES.contains(&path)
}

/// Returns the name of the cookie. Cookies are shared by all ports of a host, so collectors side by side need different
/// names.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or(80);
    format!("flamelet-collect-{port}")
}

/// Returns the token in the cookie of a request.
pub(crate) fn cookie_token(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Answers a request for a page with a good token in its address: sets the cookie, and leads to the same page without
/// the token. Scripts cannot read the cookie. Browsers send it with links of other sites, so
/// that links to a range can be sent, but not with their scripts and forms. After a login over TLS they send it over TLS
/// only.
pub(crate) fn login(path: &str, token: &str, headers: &HeaderMap, is_encrypted: bool) -> Option<Response> {
    // No other path: it would become an address to go to.
    let page = PAGES.into_iter().find(|page| *page == path)?;
    let secure = if is_encrypted { "; Secure" } else { "" };
    let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Lax{secure}", cookie_name(headers));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(page));
    response.headers_mut().insert(SET_COOKIE, HeaderValue::from_str(&cookie).ok()?);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, cookie: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        headers.insert(COOKIE, HeaderValue::from_static(cookie));
        headers
    }

    #[test]
    fn a_cookie_is_of_one_port() {
        let cookies = "a=b; flamelet-collect-4040=secret; flamelet-collect-80=other";
        assert_eq!(cookie_token(&headers("h:4040", cookies)), Some("secret"));
        assert_eq!(cookie_token(&headers("h", cookies)), Some("other"));
        assert_eq!(cookie_token(&headers("h:1", cookies)), None);
        assert_eq!(cookie_token(&HeaderMap::new()), None);
    }

    #[test]
    fn links_of_other_sites_lead_to_pages_only() {
        let mut headers = HeaderMap::new();
        assert!(!is_visit(&Method::GET, "/", &headers));
        headers.insert("sec-fetch-mode", HeaderValue::from_static("navigate"));
        assert!(is_visit(&Method::GET, "/", &headers) && is_visit(&Method::GET, "/view/", &headers));
        assert!(!is_visit(&Method::POST, "/", &headers) && !is_visit(&Method::GET, "/api/changes", &headers));
    }

    #[test]
    fn a_token_in_the_address_becomes_a_cookie_of_pages_only() {
        let found = login("/", "secret", &headers("h:4040", ""), false).expect("a page");
        assert_eq!(found.status(), StatusCode::SEE_OTHER);
        assert_eq!(found.headers()[LOCATION], "/");
        let cookie = found.headers()[SET_COOKIE].to_str().expect("text");
        assert_eq!(cookie, "flamelet-collect-4040=secret; Path=/; HttpOnly; SameSite=Lax");
        let found = login("/", "secret", &headers("h:4040", ""), true).expect("a page");
        assert!(found.headers()[SET_COOKIE].to_str().is_ok_and(|cookie| cookie.ends_with("; Secure")));
        assert_eq!(
            login("/view/", "secret", &HeaderMap::new(), false).expect("a page").headers()[LOCATION],
            "/view/"
        );
        assert!(login("//evil.example/", "secret", &HeaderMap::new(), false).is_none());
        assert!(login("/ingest", "secret", &HeaderMap::new(), false).is_none());
        assert!(login("/", "se\ncret", &HeaderMap::new(), false).is_none(), "no header of its own");
    }
}
