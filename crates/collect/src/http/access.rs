//! Who may ask and send.

use axum::http::{HeaderMap, header};
use flamelet_remote::receive;

use super::call::text_of;
use crate::collector::Refused;
use crate::collector::tenant::Tenant;
use crate::site;

/// The header by which a request says which tenant it belongs to, as Pyroscope has it.
const TENANT: &str = "x-scope-orgid";

/// Who may ask and send, and for which tenant.
#[derive(Clone, Debug, Default)]
pub struct Access {
    tokens: Vec<AccessToken>,
    trusts_tenants: bool,
}

#[derive(Clone, Debug)]
struct AccessToken {
    /// `None` if it is for the profiles of no tenant.
    tenant: Option<Tenant>,
    secret: String,
}

impl Access {
    /// Every client may query and send. If `trusts_tenants`, requests say which tenant they belong to.
    pub fn open(trusts_tenants: bool) -> Self {
        Self { tokens: Vec::new(), trusts_tenants }
    }

    /// Reads a file with one token a line, after the name of a tenant if it belongs to one; empty lines and those that
    /// begin with `#` are left out. Each request must bring a token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // No message contains the secret.
            let wrong = |what: &str| format!("line {}: {what}", at + 1);
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                [secret] => tokens.push(AccessToken { tenant: None, secret: secret.to_owned() }),
                [tenant, secret] => {
                    let tenant = Tenant::parse(tenant)
                        .map_err(|_| wrong("the first word is not the name of a tenant"))?;
                    tokens.push(AccessToken { tenant: Some(tenant), secret: secret.to_owned() });
                }
                _ => return Err(wrong("write a line as TOKEN or as TENANT TOKEN")),
            }
        }
        match tokens.is_empty() {
            true => Err("has no token; write one on a line of its own".to_owned()),
            false => Ok(Self { tokens, trusts_tenants: false }),
        }
    }

    /// Returns whether everybody may ask and send.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns whether requests may be of tenants.
    pub fn has_tenants(&self) -> bool {
        self.trusts_tenants || self.tokens.iter().any(|token| token.tenant.is_some())
    }

    /// Returns whether this is one of the tokens.
    pub(super) fn has(&self, given: &str) -> bool {
        !self.tenants_of(given.as_bytes()).is_empty()
    }

    /// Returns the tenants of a token, `None` for the profiles of no tenant; nothing if it is not one of the tokens.
    fn tenants_of(&self, given: &[u8]) -> Vec<Option<&Tenant>> {
        // Compares all bytes of all tokens, so that the time reveals nothing.
        let is_given = |token: &&AccessToken| is_equal(token.secret.as_bytes(), given);
        let mut own: Vec<Option<&Tenant>> =
            self.tokens.iter().filter(is_given).map(|token| token.tenant.as_ref()).collect();
        own.sort_unstable();
        own.dedup();
        own
    }

    /// Returns the tenant of a request, `None` for none, or refuses it.
    pub(super) fn tenant_of(&self, headers: &HeaderMap) -> Result<Option<Tenant>, Refused> {
        let wanted = Some(text_of(headers, TENANT).trim()).filter(|name| !name.is_empty());
        if self.tokens.is_empty() {
            let trusted = wanted.filter(|_| self.trusts_tenants);
            return Ok(trusted.map(Tenant::parse).transpose()?);
        }
        let mut own = self.tenants_of(&token_in(headers).unwrap_or_default());
        if own.is_empty() {
            // A proxy in front may have an authorization of its own.
            own = self.tenants_of(site::cookie_token(headers).unwrap_or_default().as_bytes());
        }
        if own.is_empty() {
            let message =
                "a token is required: Authorization: Bearer TOKEN, or in a browser open /?token=TOKEN";
            return Err(Refused::new(401, message));
        }
        choose(&own, wanted.filter(|_| self.has_tenants()))
    }
}

/// Returns the one of a token's tenants that a request wants.
fn choose(own: &[Option<&Tenant>], wanted: Option<&str>) -> Result<Option<Tenant>, Refused> {
    if let Some(wanted) = wanted {
        let found = own.iter().flatten().find(|tenant| tenant.name() == wanted);
        let shown: String = wanted.chars().take(40).collect();
        let refused =
            || Refused::new(403, format!("the token is not one of tenant {shown:?} (X-Scope-OrgID)"));
        return found.map(|tenant| Some((*tenant).clone())).ok_or_else(refused);
    }
    match own {
        [None, ..] => Ok(None),
        [only] => Ok(only.cloned()),
        _ => {
            let names: Vec<&str> = own.iter().flatten().map(|tenant| tenant.name()).collect();
            let names = names.join(", ");
            Err(Refused::new(
                400,
                format!("the token belongs to several tenants; choose one with X-Scope-OrgID: {names}"),
            ))
        }
    }
}

/// Returns the token of a request: `Authorization: Bearer TOKEN`, or basic with the token as password.
fn token_in(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, rest) = text_of(headers, header::AUTHORIZATION).split_once(' ')?;
    match &*scheme.to_ascii_lowercase() {
        "bearer" => Some(rest.trim().as_bytes().to_vec()),
        "basic" => {
            let pair = receive::base64(rest.trim())?;
            let colon = pair.iter().position(|&byte| byte == b':')?;
            Some(pair[colon + 1..].to_vec())
        }
        _ => None,
    }
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |bits, (a, b)| bits | (a ^ b));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::call::tests::headers;

    fn tenant(access: &Access, pairs: &[(&'static str, &str)]) -> Result<Option<String>, u16> {
        let tenant = access.tenant_of(&headers(pairs));
        tenant.map(|tenant| tenant.map(|tenant| tenant.name().to_owned())).map_err(|refused| refused.status)
    }

    #[test]
    fn a_token_lets_pass() {
        let access = Access::parse("# of the team\nsecret\n\n  other \n").expect("tokens");
        let passes = |value: &str| tenant(&access, &[("authorization", value)]);
        // The third is user:secret.
        for good in ["Bearer secret", "bearer other", "Basic dXNlcjpzZWNyZXQ="] {
            assert_eq!(passes(good), Ok(None), "{good}");
        }
        for bad in
            ["", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic !", "Basic c2VjcmV0"]
        {
            assert_eq!(passes(bad), Err(401), "{bad}");
        }
        assert_eq!(tenant(&access, &[]), Err(401));
        // Senders that name a tenant of another system are not refused where there are none.
        assert_eq!(tenant(&access, &[("authorization", "Bearer secret"), (TENANT, "x")]), Ok(None));
        assert_eq!(tenant(&Access::default(), &[]), Ok(None));
    }

    #[test]
    fn a_browser_has_its_token_in_a_cookie() {
        let access = Access::parse("team-a one\nsecret\n").expect("tokens");
        let with = |cookie: &str, more: &[(&'static str, &str)]| {
            let pairs = [&[("host", "h:4040"), ("cookie", cookie)][..], more].concat();
            tenant(&access, &pairs)
        };
        assert_eq!(with("flamelet-collect-4040=one", &[]), Ok(Some("team-a".to_owned())));
        assert_eq!(with("flamelet-collect-4040=secret", &[]), Ok(None));
        for bad in ["flamelet-collect-4040=", "flamelet-collect-4041=one", "one"] {
            assert_eq!(with(bad, &[]), Err(401), "{bad}");
        }
        let proxy = [("authorization", "Basic dXNlcjpwcm94eQ==")];
        assert_eq!(with("flamelet-collect-4040=one", &proxy), Ok(Some("team-a".to_owned())));
        let other = [("authorization", "Bearer secret")];
        assert_eq!(with("flamelet-collect-4040=one", &other), Ok(None), "what is sent on purpose wins");
        assert!(access.has("one") && !access.has("") && !access.has("on"));
    }

    #[test]
    fn a_request_chooses_only_among_the_tenants_of_its_token() {
        let text = "red r\nblue b\nred both\nblue both\nall\nred all\n";
        let access = Access::parse(text).expect("tokens");
        let of = |token: &str, wanted: &str| {
            tenant(&access, &[("authorization", &format!("Bearer {token}")), (TENANT, wanted)])
        };
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!((of("r", ""), of("r", "red")), (some("red"), some("red")));
        assert_eq!(
            (of("both", "red"), of("both", "blue"), of("both", "")),
            (some("red"), some("blue"), Err(400))
        );
        assert_eq!((of("all", ""), of("all", "red"), of("all", "blue")), (Ok(None), some("red"), Err(403)));
        for wanted in ["blue", "green", "..", "red|blue", "RED", "red "] {
            let expected = if wanted == "red " { some("red") } else { Err(403) };
            assert_eq!(of("r", wanted), expected, "{wanted}");
        }
        assert_eq!(of("x", "red"), Err(401));
    }

    #[test]
    fn without_tokens_a_request_says_its_tenant_if_it_is_trusted() {
        let of = |access: &Access, wanted: &str| tenant(access, &[(TENANT, wanted)]);
        assert_eq!(of(&Access::open(true), "red"), Ok(Some("red".to_owned())));
        assert_eq!(of(&Access::open(true), ""), Ok(None));
        assert_eq!(of(&Access::open(true), "../red"), Err(400));
        assert_eq!(of(&Access::open(false), "red"), Ok(None));
    }

    #[test]
    fn mistakes_in_the_file_are_one_line_without_the_token() {
        for (text, words) in [
            ("", "has no token"),
            ("# only\n", "has no token"),
            ("good\na/b secret\n", "line 2: the first word is not the name of a tenant"),
            ("a b secret", "line 1: write a line as TOKEN or as TENANT TOKEN"),
        ] {
            let error = Access::parse(text).expect_err(text);
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }
}
