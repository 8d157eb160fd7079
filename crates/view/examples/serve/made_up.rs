//! Profiles that look like a service's, made from a seed.

use flamelet_report::profile::{
    Event, LabelSetId, Line, LocationId, Profile, ProfileBuilder, Quality, Thread, ThreadId, Timeline,
};

/// Another run of `service(seed)`, on a machine that was a fifth slower.
pub(crate) fn slower_run(seed: u64) -> Profile {
    let mut run = service(seed);
    run.scale(1.2);
    run
}

/// A deterministic stream of numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

const RUNTIME: &[&str] = &[
    "std::rt::lang_start::{{closure}}",
    "checkout::main",
    "tokio::runtime::runtime::Runtime::block_on",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run",
    "tokio::runtime::task::harness::Harness<T,S>::poll",
    "<hyper::server::conn::http1::Connection<I,S> as core::future::future::Future>::poll",
    "hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_catch",
    "<axum::routing::Router<S> as tower_service::Service<http::request::Request<B>>>::call",
];

/// A route: its name, its weight, and the stacks below it with theirs.
type Route = (&'static str, u64, &'static [(&'static [&'static str], u64)]);

const ROUTES: &[Route] = &[
    (
        "checkout::routes::cart::show",
        40,
        &[
            (
                &[
                    "checkout::store::Cart::load",
                    "serde_json::de::from_slice",
                    "<serde_json::read::SliceRead as serde_json::read::Read>::parse_str",
                ],
                30,
            ),
            (
                &[
                    "checkout::store::Cart::load",
                    "serde_json::de::from_slice",
                    "serde_json::de::Deserializer<R>::parse_any_number",
                ],
                14,
            ),
            (
                &[
                    "checkout::store::Cart::load",
                    "alloc::vec::Vec<T,A>::reserve::do_reserve_and_handle",
                    "malloc",
                ],
                9,
            ),
            (&["checkout::price::total", "checkout::price::with_tax"], 22),
            (
                &[
                    "axum::json::Json<T>::into_response",
                    "serde_json::ser::to_vec",
                    "<alloc::vec::Vec<u8> as std::io::Write>::write_all",
                    "memcpy",
                ],
                12,
            ),
        ],
    ),
    (
        "checkout::routes::search::query",
        35,
        &[
            (
                &[
                    "checkout::search::Index::lookup",
                    "regex::Regex::is_match",
                    "regex_automata::dfa::search::find_fwd",
                ],
                38,
            ),
            (
                &[
                    "checkout::search::Index::lookup",
                    "core::slice::sort::unstable::quicksort",
                    "checkout::search::rank::{{closure}}",
                ],
                17,
            ),
            (&["checkout::search::Index::lookup", "hashbrown::map::HashMap<K,V,S>::get"], 11),
        ],
    ),
    (
        "checkout::routes::pay::submit",
        18,
        &[
            (&["checkout::pay::sign", "ring::hmac::sign", "ring::digest::sha2::block_data_order"], 31),
            (&["parking_lot::raw_mutex::RawMutex::lock_slow", "syscall"], 6),
        ],
    ),
    ("checkout::routes::health", 2, &[(&["axum::response::into_response"], 1)]),
];

pub(crate) struct Maker {
    pub(crate) builder: ProfileBuilder,
    pub(crate) numbers: Numbers,
}

impl Maker {
    fn frame(&mut self, name: &str) -> LocationId {
        let file = match name.split("::").next() {
            Some("checkout") => "examples/serve/made_up.rs",
            _ => "",
        };
        let function = self.builder.named_function(name, file);
        let address =
            0x40_0000 + name.bytes().fold(7u64, |sum, byte| sum * 31 % 0xff_ffff + u64::from(byte)) * 16;
        let line = 20 + self.numbers.below(12) as i64;
        self.builder.location(None, address, &[Line { function: Some(function), line, column: 0 }])
    }

    /// The locations of a stack that is given from its root on.
    pub(crate) fn stack(&mut self, names: &[&str]) -> Vec<LocationId> {
        names.iter().rev().map(|name| self.frame(name)).collect()
    }
}

/// A CPU profile of a busy service, with labels and a timeline. Another `release` differs as releases do.
pub(crate) fn service(release: u64) -> Profile {
    let builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut maker = Maker { builder, numbers: Numbers(release) };
    let mut events = Vec::new();
    let mut time = 0;
    while time < 8_000_000_000 {
        let (route, weight, below) = ROUTES[maker.numbers.below(ROUTES.len() as u64) as usize];
        if maker.numbers.below(40) >= weight {
            continue;
        }
        let (leafs, cost) = below[maker.numbers.below(below.len() as u64) as usize];
        let is_dearer = release == 2 && leafs.contains(&"checkout::price::with_tax");
        let count = 1 + (cost * if is_dearer { 3 } else { 1 } + maker.numbers.below(12)) / 12;
        let mut names = RUNTIME.to_vec();
        names.push(route);
        names.extend_from_slice(leafs);
        if maker.numbers.below(4) == 0 {
            names.pop();
        }
        let locations = maker.stack(&names);
        let stack = maker.builder.stack(&locations);
        let label = maker.builder.text_label("route", route.rsplit("routes::").next().unwrap_or(route));
        let size = maker.builder.number_label("bytes", 256 << maker.numbers.below(5), "bytes");
        let labels = maker.builder.labels(&[label, size]);
        let nanos = count as i64 * 1_000_000;
        let sample = maker.builder.merge_sample(stack, labels, &[count as i64, nanos]) as u32;
        let burst = time % 2_000_000_000 > 1_200_000_000;
        time += if burst { 1_000_000 } else { 3_500_000 } + maker.numbers.below(900_000);
        let thread = ThreadId::from_index(maker.numbers.below(4) as usize);
        events.push(Event { time, sample, thread, value: nanos });
    }
    finish(maker.builder, events)
}

fn finish(mut builder: ProfileBuilder, events: Vec<Event>) -> Profile {
    let process = builder.string("checkout");
    let threads = (0..4)
        .map(|at| Thread {
            pid: 4711,
            tid: 4712 + at,
            name: builder.string(&format!("tokio-worker-{at}")),
            process,
        })
        .collect();
    let period = builder.value_type("cpu", "nanoseconds");
    let header = builder.header_mut();
    (header.period_type, header.period) = (Some(period), 1_000_000);
    (header.time_nanos, header.duration_nanos) = (1_700_000_000_000_000_000, 8_000_000_000);
    let engine = builder.string("timer");
    let quality = Quality {
        engine,
        asked_millihertz: 999_000,
        achieved_millihertz: 991_000,
        samples: events.len() as u64,
        lost: 3,
        truncated: 12,
        unresolved: 0,
        own_cpu_nanos: 21_000_000,
    };
    let timeline = Timeline { start_nanos: 1_700_000_000_000_000_000, threads, events, value_type: 1 };
    builder.finish_with(Some(timeline), Some(quality))
}

/// Names that would do harm if anything took them for HTML.
pub(crate) fn hostile() -> Profile {
    let builder = ProfileBuilder::new(&[("<b>cpu</b>", "nanoseconds")]);
    let mut maker = Maker { builder, numbers: Numbers(9) };
    let names = [
        "<script>window.hacked = 1</script>",
        "<img src=x onerror=\"window.hacked = 2\">",
        "</script><script>window.hacked = 3</script>",
        "javascript:window.hacked=4",
        "\"><svg onload=window.hacked=5>",
        "{{constructor.constructor('window.hacked=6')()}}",
        "\u{202e}gnp.exe\u{2028}\u{0}",
    ];
    for depth in 1..=names.len() {
        let locations = maker.stack(&names[..depth]);
        let stack = maker.builder.stack(&locations);
        let label = maker.builder.text_label("<i>key</i>", "<script>window.hacked = 7</script>");
        let labels = maker.builder.labels(&[label]);
        maker.builder.sample(stack, labels, &[1_000_000]);
    }
    maker.builder.comment("<script>window.hacked = 8</script>");
    maker.builder.finish()
}

/// Stacks that are all different.
pub(crate) fn big(count: u64) -> Profile {
    let builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let mut maker = Maker { builder, numbers: Numbers(1) };
    // One function in five is the service's own, so that there are chains of others' frames everywhere.
    let crates = ["tokio", "hyper", "serde_json", "checkout", "core"];
    let name = |at: u64| match at {
        0 => "std::rt::lang_start".to_owned(),
        _ => format!("{}::module_{}::Handler<T>::function_{at}", crates[at as usize % 5], at % 700),
    };
    let locations: Vec<_> = (0..20_000u64).map(|at| maker.frame(&name(at))).collect();
    for _ in 0..count {
        let depth = 20 + maker.numbers.below(40);
        let (mut stack, mut at) = (Vec::new(), 0);
        for level in 0..depth {
            let choice = match maker.numbers.below(100) {
                _ if level < 8 => 0,
                0..70 => 0,
                70..90 => 1,
                _ => maker.numbers.below(50),
            };
            at = (at * 31 + choice + level) % 20_000;
            stack.push(locations[at as usize]);
        }
        stack.reverse();
        let stack = maker.builder.stack(&stack);
        maker.builder.sample(stack, LabelSetId::EMPTY, &[1, 10_000_000]);
    }
    maker.builder.finish()
}
