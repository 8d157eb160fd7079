//! What the receivers of other systems take: the bodies to send, and what their answers mean.
//!
//! | protocol | call | transport |
//! |---|---|---|
//! | [`Protocol::Pyroscope`] | `push.v1.PusherService/Push` | Connect, protobuf |
//! | [`Protocol::Parca`] | `parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw` | gRPC-Web, which Parca also takes over HTTP/1.1 |
//! | [`Protocol::Otlp`] | `/v1development/profiles` | OTLP/HTTP, protobuf, gzip |
//!
//! A profile that is over the receiver's limits becomes several bodies, each of which is a request of its own.

mod answer;
mod backoff;
mod cardinality;
mod id;
mod labels;
mod links;
mod otlp;
mod parca;
mod pyroscope;
mod split;

pub use answer::{Answer, Verdict, judge};
pub use backoff::Backoff;
pub use id::profile_id;

use flamelet_profile::{Error, Profile, Result};

use split::Most;

/// The path of Pyroscope's receiver.
pub const PYROSCOPE_PATH: &str = "/push.v1.PusherService/Push";
/// The path of Parca's.
pub const PARCA_PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
/// The path of OTLP/HTTP.
pub const OTLP_PATH: &str = "/v1development/profiles";

/// How a receiver takes profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Grafana Pyroscope.
    Pyroscope,
    /// Parca, and Polar Signals.
    Parca,
    /// An OpenTelemetry collector, and other receivers of OTLP.
    Otlp,
}

/// Under which name and labels a profile is sent.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// The receiver's name for what is measured, see [`name_of`].
    pub name: &'a str,
    /// The name of the service.
    pub service: &'a str,
    /// Further labels.
    pub labels: &'a [(String, String)],
}

impl Protocol {
    /// Splits an address such as `parca+http://localhost:7070` into the protocol and the URL. A plain URL is taken as
    /// Pyroscope's.
    pub fn of(address: &str) -> Result<(Self, &str)> {
        let has_scheme = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let (protocol, url) = match address.split_once('+') {
            Some(("pyroscope", url)) => (Self::Pyroscope, url),
            Some(("parca" | "polarsignals", url)) => (Self::Parca, url),
            Some(("otlp", url)) => (Self::Otlp, url),
            _ => (Self::Pyroscope, address),
        };
        if has_scheme(url) {
            return Ok((protocol, url));
        }
        let message = "expected pyroscope+http://HOST:PORT, parca+http://HOST:PORT or otlp+http://HOST:PORT";
        Err(Error::invalid(format!("{address}: this is not the address of a receiver; {message}")))
    }

    /// Returns the URL to send to, for the address of the server.
    pub fn url(self, server: &str) -> String {
        let (server, path) = (server.trim_end_matches('/'), self.path());
        if server.ends_with(path) { server.to_owned() } else { format!("{server}{path}") }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Pyroscope => PYROSCOPE_PATH,
            Self::Parca => PARCA_PATH,
            Self::Otlp => OTLP_PATH,
        }
    }

    /// Returns the headers that each request needs.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Pyroscope => &[("Content-Type", "application/proto"), ("Connect-Protocol-Version", "1")],
            Self::Parca => &[("Content-Type", "application/grpc-web+proto"), ("X-Grpc-Web", "1")],
            Self::Otlp => &[("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")],
        }
    }

    /// The most that the receiver takes at once, unless it is configured otherwise.
    fn most(self) -> Most {
        match self {
            // 16,000 samples and 4 MiB; but a request above the allowed burst of 2 MB is refused forever.
            Self::Pyroscope => Most { samples: 16_000, bytes: 3 << 19 },
            Self::Parca => Most { samples: usize::MAX, bytes: 16 << 20 },
            Self::Otlp => Most { samples: usize::MAX, bytes: 4 << 20 },
        }
    }

    /// Returns the bodies to send, one request each, in this order. The same profile always gives the same bodies, with
    /// the same ids, so that a receiver can recognise a repeated request.
    pub fn bodies(self, profile: &Profile, series: &Series<'_>) -> Result<Vec<Vec<u8>>> {
        self.bodies_within(profile, series, &self.most())
    }

    fn bodies_within(self, profile: &Profile, series: &Series<'_>, most: &Most) -> Result<Vec<Vec<u8>>> {
        let mut bodies = Vec::new();
        let clean =
            (self == Self::Pyroscope).then(|| pyroscope::with_clean_labels(profile, series)).flatten();
        split::each_part(clean.as_ref().unwrap_or(profile), most, &mut |part, message| {
            let id = profile_id(series, profile, bodies.len());
            bodies.push(match self {
                Self::Pyroscope => pyroscope::body(message, series, id)?,
                Self::Parca => parca::body(message, series)?,
                Self::Otlp => otlp::body(part, series, id)?,
            });
            Ok(())
        })?;
        Ok(bodies)
    }
}

/// Prepares a window of a history for a receiver, and returns the receiver's name for what it measures.
///
/// The windows of kind `heap` show the memory in use at a moment, and totals of all allocations since the start, which must
/// not be added up; those of kind `allocs` show allocations, and how the memory in use has changed, which is not what
/// receivers expect under that name. So of each only the part is sent that counts.
pub fn prepare(protocol: Protocol, kind: &str, profile: &mut Profile) -> &'static str {
    match kind {
        "heap" => profile.keep_sample_types(|value| value.starts_with("inuse_")),
        "allocs" => profile.keep_sample_types(|value| value.starts_with("alloc_")),
        _ => {}
    }
    if kind == "heap" && protocol == Protocol::Parca {
        // To Parca, a profile with a duration is a difference; this one shows a moment.
        profile.header.duration_nanos = 0;
    }
    match kind {
        "block" => "block",
        "mutex" => "mutex",
        "await" => "await",
        "blocked" => "blocked",
        _ => name_of(profile),
    }
}

/// Returns Pyroscope's and Parca's name for what a profile measures.
pub fn name_of(profile: &Profile) -> &'static str {
    let has = |kind: &str| profile.sample_types().iter().any(|value| profile.string(value.kind) == kind);
    match () {
        () if has("cpu") => "process_cpu",
        () if ["inuse_space", "alloc_space", "inuse_objects", "alloc_objects"].into_iter().any(has) => {
            "memory"
        }
        () if has("contentions") => "block",
        () if has("awaits") => "await",
        () if has("polls") => "blocked",
        () if has("delay") => "block",
        () if has("goroutine") || has("goroutines") => "goroutines",
        () if has("wall") => "wall",
        () => "process_cpu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::protobuf::{FieldValue, Fields};
    use flamelet_profile::{LabelSetId, Limits, ProfileBuilder, pprof};

    fn profile(stacks: i64) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for number in 0..stacks {
            let frames = [builder.named_frame(&format!("leaf_{number}")), builder.named_frame("main")];
            let stack = builder.stack(&frames);
            builder.sample(stack, LabelSetId::EMPTY, &[1, number]);
        }
        builder.header_mut().time_nanos = 1_794_700_800_000_000_000;
        builder.finish()
    }

    fn series() -> Series<'static> {
        Series { name: "process_cpu", service: "checkout", labels: &[] }
    }

    fn fields(message: &[u8], number: u32) -> Vec<&[u8]> {
        let (mut fields, mut found) = (Fields::new(message), Vec::new());
        while let Some((at, value)) = fields.next().expect("a message") {
            if let (true, FieldValue::Bytes(bytes)) = (at == number, value) {
                found.push(bytes);
            }
        }
        found
    }

    #[test]
    fn addresses_name_the_protocol() {
        let parsed = |address| Protocol::of(address).expect("an address");
        assert_eq!(parsed("http://a:1"), (Protocol::Pyroscope, "http://a:1"));
        assert_eq!(parsed("pyroscope+https://a"), (Protocol::Pyroscope, "https://a"));
        assert_eq!(parsed("parca+http://a:7070"), (Protocol::Parca, "http://a:7070"));
        assert_eq!(parsed("otlp+http://a:4318"), (Protocol::Otlp, "http://a:4318"));
        for bad in ["", "a:1", "ftp://a", "jaeger+http://a", "parca+a:1"] {
            assert!(Protocol::of(bad).is_err(), "{bad}");
        }
        assert_eq!(Protocol::Otlp.url("http://a:4318/"), "http://a:4318/v1development/profiles");
        let whole = "http://a/v1development/profiles";
        assert_eq!(Protocol::Otlp.url(whole), whole);
    }

    #[test]
    fn parts_are_within_the_limits_and_add_up() {
        let whole = profile(1000);
        for most in [Most { samples: 300, bytes: usize::MAX }, Most { samples: usize::MAX, bytes: 9000 }] {
            let bodies = Protocol::Pyroscope.bodies_within(&whole, &series(), &most).expect("bodies");
            assert!(bodies.len() > 3, "{} bodies", bodies.len());
            let (mut total, mut ids) = (0, Vec::new());
            for body in &bodies {
                let sample = fields(fields(body, 1)[0], 2)[0];
                let part = pprof::read(fields(sample, 1)[0], &Limits::SERVICE).expect("pprof");
                assert!(part.sample_count() <= most.samples && pprof::encode(&part).len() <= most.bytes);
                assert_eq!(part.header.time_nanos, whole.header.time_nanos);
                total += part.total(1);
                ids.push(fields(sample, 2)[0].to_vec());
            }
            assert_eq!(total, whole.total(1));
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), bodies.len(), "each part has an id of its own");
            assert_eq!(bodies, Protocol::Pyroscope.bodies_within(&whole, &series(), &most).expect("bodies"));
        }
        // One sample that is too large is sent all the same: the receiver may be configured for it.
        let most = Most { samples: 1, bytes: 1 };
        assert_eq!(Protocol::Parca.bodies_within(&profile(2), &series(), &most).expect("bodies").len(), 2);
    }
}
