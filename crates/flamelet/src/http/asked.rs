//! From a request to what it asks for, or why it is refused: a pure function of the request and the service's rules.

use flamelet_capture::profile::HeapView;
use http::request::Parts;
use http::{Method, StatusCode};

use super::answer::Refusal;
use super::delivery::{Delivery, Form};
use super::empty::Kind;
use super::query::Query;
use super::route::{Endpoint, endpoint};
use super::rules::Rules;
use super::{SeenPath, address, cpu, heap, sites, symbol};

/// What a request asks for, with all parameters within the caps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The page with links, which its reader knows by this address.
    Page { address: String },
    /// A page without its slash, which is at this place.
    Moved(&'static str),
    /// The command line.
    Cmdline,
    /// The names of these addresses.
    Names(Vec<u64>),
    /// A profile.
    Profile(Wanted, Delivery),
}

/// A profile that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// CPU time of the next seconds.
    Cpu { seconds: u64, frequency: u32 },
    /// CPU time of the last seconds.
    Recent { seconds: u64 },
    /// The heap, or what changes in so many seconds.
    Heap { view: HeapView, seconds: Option<u64> },
    /// What grows, watched in so many windows where the request says.
    Growth { seconds: u64, windows: Option<usize> },
    /// One that has no capture here.
    Empty(Kind),
}

/// What the request asks for.
pub(super) fn read(rules: &Rules<'_>, parts: &Parts, body: &[u8]) -> Result<Asked, Refusal> {
    let Some(endpoint) = endpoint_of(rules, parts) else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "Unknown profile"));
    };
    let allowed = if endpoint == Endpoint::Symbol { "GET, HEAD, POST" } else { "GET, HEAD" };
    if !allowed.split(", ").any(|method| method == parts.method.as_str()) {
        return Err(Refusal::wrong_method(&parts.method, allowed));
    }
    let raw_query = parts.uri.query().unwrap_or_default();
    let query = Query::parse(raw_query);
    match endpoint {
        Endpoint::Index => Ok(Asked::Page { address: shown_address(parts) }),
        Endpoint::BareIndex => Ok(Asked::Moved("pprof/")),
        Endpoint::BareViewer => Ok(Asked::Moved("view/")),
        Endpoint::Cmdline => Ok(Asked::Cmdline),
        Endpoint::Symbol if parts.method == Method::POST => symbol::read(&String::from_utf8_lossy(body)),
        Endpoint::Symbol => symbol::read(raw_query),
        Endpoint::Trace => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "there is no execution trace of a Rust service: ask for /debug/pprof/profile, \
             whose samples carry their time and thread",
        )),
        Endpoint::Cpu => cpu::read(rules, &query, &parts.headers),
        Endpoint::CpuFamily(form) => cpu::read_family(rules, &query, form),
        Endpoint::Heap(view) => heap::read(rules, &query, &parts.headers, view),
        Endpoint::HeapFamily(form) => heap::read_family(rules, &query, form),
        Endpoint::Empty(kind) => {
            let form = Form::negotiate(&query, &parts.headers)?;
            let suffix = heap::delta_seconds(rules, &query)?.map_or("", |_| "-delta");
            let delivery = Delivery::new(rules, &format!("{}{suffix}", kind.name()), form);
            Ok(Asked::Profile(Wanted::Empty(kind), delivery))
        }
    }
}

/// The endpoint that a request names.
pub(super) fn endpoint_of(rules: &Rules<'_>, parts: &Parts) -> Option<Endpoint> {
    let endpoint = endpoint(parts.uri.path().strip_prefix(rules.prefix)?)?;
    (endpoint != Endpoint::BareViewer || rules.has_viewer).then_some(endpoint)
}

/// The address of the page as its reader knows it.
fn shown_address(parts: &Parts) -> String {
    let path = parts.extensions.get::<SeenPath>().map_or(parts.uri.path(), |seen| &seen.0);
    address::shown(parts, sites::host_of(parts), path)
}
