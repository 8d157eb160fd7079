//! A collector with made-up services, for the tests in a browser (`ui/tests/fleet.test.mjs`) and for looking at its pages.
//!
//! `cargo run -p flamelet-collect --example fleet DIR` keeps them in DIR and prints the address, with the token.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flamelet_collect::{Access, Collector, Offered, Options, Outside, Tenants, serve};
use flamelet_profile::{LabelSetId, Line, ProfileBuilder, pprof};

const MINUTE: i64 = 60_000_000_000;
const TOKEN: &str = "made-up-token";

struct Nowhere;

impl Outside for Nowhere {
    fn note(&self, message: &str) {
        eprintln!("{message}");
    }
}

/// A minute of a service: `slow` samples in one function, and a thousand in each of ten others.
fn profile(time: i64, slow: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, MINUTE);
    let names = (0..10).map(|at| (format!("shop::step{at}"), 1000)).chain([("shop::total".to_owned(), slow)]);
    for (name, count) in names {
        let mut frame = |name: &str, line| {
            let function = Some(builder.named_function(name, "src/shop.rs"));
            builder.location(None, 0, &[Line { function, line, column: 0 }])
        };
        let frames = [frame(&name, 7), frame("shop::main", 3)];
        let stack = builder.stack(&frames);
        builder.sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
    }
    pprof::encode(&builder.finish())
}

fn main() {
    let folder = std::env::args_os().nth(1).expect("say which folder");
    let options = Options::new(std::path::Path::new(&folder));
    let collector = Collector::open(options, Box::new(Nowhere)).expect("a new folder");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    let now = i64::try_from(since.as_nanos()).expect("this century");
    for service in ["cart", "checkout", "<b>search</b>"] {
        for minute in 0..50 {
            let version = if minute < 25 { "1" } else { "2" };
            let is_slow = service == "checkout" && minute >= 25;
            let slow = if is_slow { 1300 } else { 1000 } + minute % 5;
            collector
                .accept(&Offered {
                    service: service.to_owned(),
                    labels: vec![("version".to_owned(), version.to_owned())],
                    is_delta: true,
                    bytes: profile(now - (55 - minute) * MINUTE, slow),
                    ..Offered::default()
                })
                .expect("a good profile");
        }
    }
    collector.maintain();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    println!("http://{}/?token={TOKEN}", listener.local_addr().expect("bound"));
    let access = Access::parse(TOKEN).expect("a token");
    serve(listener, Arc::new(Tenants::none(collector)), access, None, || false)
        .expect("it serves until it is killed");
}
