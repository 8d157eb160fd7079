//! Reading profiles that Pyroscope and Parca keep.
//!
//! An address is `pyroscope://HOST:PORT?query=TYPE{SELECTOR}&from=…&to=…` or the same with `parca://`; with
//! `pyroscope+https://` and `parca+https://` over TLS.

use flamelet_profile::protobuf::{MessageWriter, bytes_field};
use flamelet_profile::terminal::one_line;
use flamelet_profile::{Error, ErrorKind, Result, moment, percent};

use crate::frame::{first_message, frame};
use crate::push::Protocol;

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
/// What is requested if the address names nothing else.
const PYROSCOPE_QUERY: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}";
const PARCA_QUERY: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{}";

/// A question to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    protocol: Protocol,
    server: String,
    query: String,
    from: Option<i64>,
    to: Option<i64>,
}

impl Stored {
    /// Reads the address of a profile in a store; `None` if it is any other address. `now` is in nanoseconds since 1970.
    pub fn parse(address: &str, now: i64) -> Option<Result<Self>> {
        let (scheme, rest) = address.split_once("://")?;
        let (protocol, transport) = match scheme {
            "pyroscope" | "pyroscope+http" => (Protocol::Pyroscope, "http"),
            "pyroscope+https" => (Protocol::Pyroscope, "https"),
            "parca" | "parca+http" => (Protocol::Parca, "http"),
            "parca+https" => (Protocol::Parca, "https"),
            _ => return None,
        };
        let (server, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let server = format!("{transport}://{}", server.trim_end_matches('/'));
        let mut stored = Self { protocol, server, query: String::new(), from: None, to: None };
        Some(stored.read_parameters(parameters, now).map(|()| stored))
    }

    fn read_parameters(&mut self, parameters: &str, now: i64) -> Result<()> {
        for part in parameters.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = percent::decode_lossy(value);
            match name {
                "query" => self.query = value,
                "from" => self.from = Some(moment::parse(&value, now)?),
                "to" => self.to = Some(moment::parse(&value, now)?),
                other => return Err(Error::invalid(format!("'{other}' is not query, from or to"))),
            }
        }
        Ok(())
    }

    /// Sets the range where the address has none: the last hour, unless the caller knows better.
    #[must_use]
    pub fn within(mut self, from: Option<i64>, to: Option<i64>, now: i64) -> Self {
        let to = self.to.or(to).unwrap_or(now);
        self.from = self.from.or(from).or(Some(to.saturating_sub(3600 * SECOND)));
        self.to = Some(to);
        self
    }

    /// Returns the URL to ask.
    pub fn url(&self) -> String {
        let path = match self.protocol {
            Protocol::Parca => "/parca.query.v1alpha1.QueryService/Query",
            _ => "/querier.v1.QuerierService/SelectMergeProfile",
        };
        format!("{}{path}", self.server)
    }

    /// Returns the headers of the request.
    pub fn headers(&self) -> &'static [(&'static str, &'static str)] {
        self.protocol.headers()
    }

    /// Returns the body of the request.
    pub fn body(&self) -> Result<Vec<u8>> {
        let (from, to) = (self.from.unwrap_or(0), self.to.unwrap_or(0));
        moment::range(from, to)?;
        match self.protocol {
            Protocol::Parca => self.parca_body(from, to),
            _ => self.pyroscope_body(from, to),
        }
    }

    fn query_or(&self, usual: &'static str) -> &str {
        if self.query.is_empty() { usual } else { &self.query }
    }

    fn pyroscope_body(&self, from: i64, to: i64) -> Result<Vec<u8>> {
        let query = self.query_or(PYROSCOPE_QUERY);
        let (kind, selector) = query.split_at(query.find('{').unwrap_or(query.len()));
        if kind.trim().is_empty() {
            return Err(Error::invalid(
                "the query has no profile type, such as process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
            ));
        }
        let mut message = MessageWriter::default();
        message.bytes(1, kind.trim().as_bytes());
        message.bytes(2, if selector.is_empty() { b"{}" } else { selector.as_bytes() });
        message.int(3, from / MILLISECOND);
        message.int(4, to / MILLISECOND);
        Ok(message.into_bytes())
    }

    fn parca_body(&self, from: i64, to: i64) -> Result<Vec<u8>> {
        let timestamp = |nanos: i64, out: &mut MessageWriter| {
            out.int(1, nanos.div_euclid(SECOND));
            out.int(2, nanos.rem_euclid(SECOND));
        };
        let mut message = MessageWriter::default();
        // The modes "merge" and "pprof".
        message.uint(1, 2);
        message.message(3, |merge| {
            merge.bytes(1, self.query_or(PARCA_QUERY).as_bytes());
            merge.message(2, |out| timestamp(from, out));
            merge.message(3, |out| timestamp(to, out));
        });
        message.uint(5, 1);
        frame(message.as_bytes())
    }

    /// Returns the pprof file in the body of an answer.
    pub fn profile(&self, body: Vec<u8>) -> Result<Vec<u8>> {
        let Protocol::Parca = self.protocol else { return Ok(body) };
        let Some(content) = first_message(&body) else {
            let text = one_line(&String::from_utf8_lossy(&body), 300);
            return Err(Error::new(ErrorKind::NotFound, format!("the server has no such profile: {text}")));
        };
        match bytes_field(content, 6)? {
            [] => Err(Error::not_found("the server's answer has no profile")),
            pprof => Ok(pprof.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_794_700_800 * SECOND;

    #[test]
    fn addresses_are_read() {
        let read = |address: &str| Stored::parse(address, NOW);
        assert!(read("http://a").is_none() && read("a.pb.gz").is_none() && read("otlp://a").is_none());
        let address = "pyroscope://a:4040/?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name%3D%22x%22}&from=-2h";
        let stored = read(address).expect("an address").expect("good").within(None, None, NOW);
        assert_eq!(stored.url(), "http://a:4040/querier.v1.QuerierService/SelectMergeProfile");
        assert_eq!((stored.from, stored.to), (Some(NOW - 7200 * SECOND), Some(NOW)));
        let body = String::from_utf8_lossy(&stored.body().expect("a body")).into_owned();
        assert!(body.contains("{service_name=\"x\"}"), "{body}");
        let parca = read("parca+https://a").expect("an address").expect("good").within(Some(5), Some(9), NOW);
        assert_eq!(parca.url(), "https://a/parca.query.v1alpha1.QueryService/Query");
        assert_eq!((parca.from, parca.to), (Some(5), Some(9)));
        for bad in ["parca://a?since=1", "pyroscope://a?from=soon"] {
            assert!(read(bad).expect("an address").is_err(), "{bad}");
        }
        let empty = read("parca://a").expect("an address").expect("good").within(Some(9), Some(9), NOW);
        assert!(empty.body().is_err());
        let nothing =
            read("pyroscope://a?query={}").expect("an address").expect("good").within(None, None, NOW);
        assert!(nothing.body().is_err());
    }

    #[test]
    fn answers_of_parca_have_the_profile_in_a_frame() {
        let stored = Stored::parse("parca://a", NOW).expect("an address").expect("good");
        let mut message = MessageWriter::default();
        message.bytes(6, b"pprof");
        let framed = frame(message.as_bytes()).expect("a frame");
        assert_eq!(stored.profile(framed).expect("there"), b"pprof");
        for bad in [&b""[..], b"\0\0\0\0\xff", b"\x80\0\0\0\x01x", b"<html>", b"\0\0\0\0\0"] {
            assert!(stored.profile(bad.to_vec()).is_err(), "{bad:?}");
        }
    }
}
