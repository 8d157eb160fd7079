//! Sends requests to servers with the credentials of a configuration, which never appear in a message.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use flamelet_remote::basic;

use crate::outside::{Outside, Request, Tls};

/// The longest file with a secret.
const MAX_SECRET: u64 = 64 << 10;

/// How to ask the servers of a job or of a discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) authorization: Option<Authorization>,
    pub(crate) tls: Tls,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Authorization {
    /// `authorization`: a scheme such as `Bearer`, and what follows it.
    Credentials { scheme: String, secret: Secret },
    /// `basic_auth`.
    Basic { username: String, password: Secret },
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Secret {
    Given(String),
    /// Read again for each request, since tokens are replaced while we run.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Secret {
    fn read(&self) -> Result<String, String> {
        let (text, name) = match self {
            Self::Given(text) => (text.clone(), "the credentials".to_owned()),
            Self::File(path) => {
                let name = path.display().to_string();
                let file = std::fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
                let mut text = String::new();
                let read = file.take(MAX_SECRET).read_to_string(&mut text);
                read.map_err(|error| format!("{name}: {error}"))?;
                (text, name)
            }
        };
        let text = text.trim().to_owned();
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(format!("{name}: empty, or has line breaks or other control characters"));
        }
        Ok(text)
    }
}

impl Client {
    /// Asks for `url` with `headers` and the credentials. Neither they nor the parameters of the URL are in the message
    /// of a failure, also if the server repeats them.
    pub(crate) fn fetch(
        &self,
        outside: &dyn Outside,
        url: &str,
        headers: &[(&str, &str)],
        (wait, most): (Duration, usize),
    ) -> Result<Vec<u8>, String> {
        let shown = url.split('?').next().unwrap_or_default();
        let mut sent: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut hidden = Vec::new();
        if let Some(authorization) = &self.authorization {
            let (value, secrets) =
                authorization.value().map_err(|message| format!("{shown}: not asked: {message}"))?;
            sent.push(("Authorization".to_owned(), value));
            hidden = secrets;
        }
        let request = Request { url, wait, most, headers: &sent, tls: &self.tls };
        outside.fetch(&request).map_err(|message| {
            let message = message.replace(url, shown);
            hidden.iter().fold(message, |message, secret| message.replace(&**secret, "…"))
        })
    }
}

impl Authorization {
    /// Returns the value of the header, and what of it must not be shown.
    fn value(&self) -> Result<(String, Vec<String>), String> {
        match self {
            Self::Credentials { scheme, secret } => {
                let secret = secret.read()?;
                Ok((format!("{scheme} {secret}"), vec![secret]))
            }
            Self::Basic { username, password } => {
                let password = password.read()?;
                let pair = basic::encode(format!("{username}:{password}").as_bytes());
                Ok((format!("Basic {pair}"), vec![pair, password]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that repeats what it was asked.
    struct Echo;

    impl Outside for Echo {
        fn fetch(&self, request: &Request<'_>) -> Result<Vec<u8>, String> {
            Err(format!("{}: the service answered 401 : {:?}", request.url, request.headers))
        }

        fn note(&self, _: &str) {}
    }

    fn answer(authorization: Authorization) -> String {
        let client = Client { authorization: Some(authorization), tls: Tls::default() };
        assert!(!format!("{client:?}").contains("hunter2"));
        let limits = (Duration::from_secs(1), 10);
        client.fetch(&Echo, "http://h:1/x?key=hunter2", &[("Accept", "a")], limits).expect_err("refused")
    }

    #[test]
    fn no_message_shows_a_secret() {
        let given = Secret::Given("hunter2".to_owned());
        let token = answer(Authorization::Credentials { scheme: "Bearer".to_owned(), secret: given.clone() });
        assert_eq!(
            token,
            "http://h:1/x: the service answered 401 : [(\"Accept\", \"a\"), (\"Authorization\", \"Bearer …\")]"
        );
        let basic = answer(Authorization::Basic { username: "me".to_owned(), password: given });
        assert!(basic.contains("Basic …") && !basic.contains("bWU6"), "{basic}");
    }

    #[test]
    fn a_file_with_a_secret_is_read_for_each_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let secret = Secret::File(path.clone());
        assert!(secret.read().expect_err("missing").contains("token: "));
        for token in ["first", "second"] {
            std::fs::write(&path, format!("{token}\n")).expect("written");
            assert_eq!(secret.read().as_deref(), Ok(token));
        }
        for bad in ["", "hunter2\nX-Other: header"] {
            std::fs::write(&path, bad).expect("written");
            let error = secret.read().expect_err(bad);
            assert!(error.contains("control characters") && !error.contains("hunter2"), "{error}");
        }
    }
}
