//! The secret in the URL that a viewer prints: it alone gives access.

use std::io;
use std::sync::Mutex;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, Uri};
use flamelet_report::profile::hex;

use crate::lock::lock;

/// Bytes of randomness in a token.
const RANDOM_BYTES: usize = 16;

/// A secret that a request must carry: in its URL (`?token=…`), in the cookie that the page then gets, or in a header
/// (`Authorization: Bearer …`).
pub(crate) struct Token {
    secret: String,
    /// Works once: for a URL that others can see for a moment, such as an argument of the program that opens it.
    ticket: Mutex<Option<String>>,
    /// The cookie's name. Cookies are shared by all ports of a host, so viewers side by side need different names.
    cookie: String,
}

/// The credential that a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    Nothing,
    /// The token in a cookie or a header, so there is no cookie to set.
    Token,
    /// The token in the URL, to be stored in a cookie.
    Address,
}

impl Token {
    /// Returns a new token, for the server at `port`.
    pub(crate) fn random(port: u16) -> io::Result<Self> {
        let ticket = Mutex::new(Some(secret()?));
        Ok(Self { secret: secret()?, ticket, cookie: format!("flamelet-{port}") })
    }

    /// Returns the part of a URL that carries it.
    pub(crate) fn query(&self) -> String {
        format!("token={}", self.secret)
    }

    /// Returns the part of a URL that carries the ticket, which works once.
    pub(crate) fn query_once(&self) -> Option<String> {
        lock(&self.ticket).as_ref().map(|ticket| format!("token={ticket}"))
    }

    /// Returns the cookie to set. Scripts cannot read it, and browsers do not send it for pages of other sites.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.secret)
    }

    pub(crate) fn credential_in(&self, address: &Uri, headers: &HeaderMap) -> Credential {
        let pairs = form_urlencoded::parse(address.query().unwrap_or_default().as_bytes());
        let mut given = pairs.into_iter().filter(|(key, _)| key == "token").map(|(_, value)| value);
        if given.any(|value| are_same(&self.secret, &value) || self.redeem_ticket(&value)) {
            return Credential::Address;
        }
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let cookies = texts(COOKIE).flat_map(|text| text.split(';'));
        let cookies = cookies.filter_map(|pair| pair.trim().strip_prefix(&*self.cookie)?.strip_prefix('='));
        let bearers = texts(AUTHORIZATION).filter_map(|text| text.strip_prefix("Bearer "));
        match cookies.chain(bearers).any(|given| are_same(&self.secret, given)) {
            true => Credential::Token,
            false => Credential::Nothing,
        }
    }

    fn redeem_ticket(&self, given: &str) -> bool {
        let mut ticket = lock(&self.ticket);
        ticket.take_if(|ticket| are_same(ticket, given)).is_some()
    }
}

/// Compares in a time that does not depend on where the two differ.
fn are_same(secret: &str, given: &str) -> bool {
    let pairs = given.bytes().zip(secret.bytes());
    let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
    given.len() == secret.len() && std::hint::black_box(difference) == 0
}

/// Returns a random text that cannot be guessed, for a URL that only those it was given to know.
pub fn secret() -> io::Result<String> {
    Ok(hex::encode(&random()?))
}

#[cfg(unix)]
fn random() -> io::Result<[u8; RANDOM_BYTES]> {
    use std::io::Read;
    let mut bytes = [0; RANDOM_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Uses the keys of the standard library's hash maps, which come from the system's random source.
#[cfg(not(unix))]
fn random() -> io::Result<[u8; RANDOM_BYTES]> {
    use std::hash::BuildHasher;
    let keys = std::hash::RandomState::new();
    let mut bytes = [0; RANDOM_BYTES];
    for (number, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&keys.hash_one(number).to_ne_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(token: &Token, address: &str, headers: &[(&str, &str)]) -> Credential {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        token.credential_in(&address.parse().unwrap(), &map)
    }

    #[test]
    fn a_token_is_accepted_in_three_places() {
        let token = Token::random(4000).unwrap();
        let query = token.query();
        let secret = query.strip_prefix("token=").unwrap();
        assert_eq!(secret.len(), 32);
        assert_eq!(credential(&token, &format!("/?x=1&{query}"), &[]), Credential::Address);
        let bearer = format!("Bearer {secret}");
        assert_eq!(credential(&token, "/", &[("authorization", &bearer)]), Credential::Token);
        let cookies = format!("other=1; flamelet-4000={secret}");
        assert_eq!(
            credential(&token, "/", &[("cookie", "flamelet-1=2"), ("cookie", &cookies)]),
            Credential::Token
        );
    }

    #[test]
    fn a_ticket_passes_once() {
        let token = Token::random(4000).unwrap();
        let address = format!("/?{}", token.query_once().unwrap());
        assert_eq!(credential(&token, &address, &[]), Credential::Address);
        assert_eq!(credential(&token, &address, &[]), Credential::Nothing);
        assert_eq!(token.query_once(), None);
    }

    #[test]
    fn nothing_else_passes() {
        let (token, other) = (Token::random(4000).unwrap(), Token::random(4000).unwrap());
        let secret = token.query().split_off("token=".len());
        assert_ne!(token.query(), other.query(), "each is another one");
        let (shorter, longer) = (&secret[1..], format!("{secret}0"));
        for wrong in ["", "0", shorter, &longer, &secret.to_uppercase().replace(char::is_numeric, "x")] {
            assert_eq!(credential(&token, &format!("/?token={wrong}"), &[]), Credential::Nothing, "{wrong}");
            let (cookie, bearer) = (format!("flamelet-4000={wrong}"), format!("Bearer {wrong}"));
            let headers = [("cookie", cookie.as_str()), ("authorization", &bearer)];
            assert_eq!(credential(&token, "/", &headers), Credential::Nothing, "{wrong}");
        }
        let elsewhere = format!("flamelet-4001={secret}");
        assert_eq!(credential(&token, "/", &[("cookie", &elsewhere)]), Credential::Nothing);
    }
}
