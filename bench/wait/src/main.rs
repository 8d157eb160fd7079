//! `bench-wait serve | load ADDRESS CONNECTIONS MILLIS RATE | lock | poll | wall THREADS SECONDS | sampler SECONDS | dump`.
//!
//! `serve` prints its address and serves until it is killed; all others print one line of JSON. What watches the service is a
//! feature of this package; the service is the same.

mod clock;
#[cfg(feature = "dump")]
mod dump;
mod load;
mod lock;
#[cfg(feature = "flamelet")]
mod micro;
mod service;

#[cfg_attr(feature = "flamelet", path = "watch/by_flamelet.rs")]
#[cfg_attr(feature = "console", path = "watch/by_console.rs")]
#[cfg_attr(feature = "await-tree", path = "watch/by_await_tree.rs")]
#[cfg_attr(feature = "dial9", path = "watch/by_dial9.rs")]
#[cfg_attr(
    not(any(feature = "flamelet", feature = "console", feature = "await-tree", feature = "dial9")),
    path = "watch/nobody.rs"
)]
mod watch;

use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u32>().ok());
    let millis = |at: usize| number(at).map(|millis| Duration::from_millis(millis.into()));
    match (arguments.first().map(String::as_str), arguments.get(1), number(2), millis(3), number(4)) {
        (Some("serve"), ..) => service::run(),
        (Some("load"), Some(address), Some(connections), Some(time), Some(rate)) => {
            load::run(address.parse().expect("an address"), connections, time, rate);
        }
        (Some("lock"), ..) => lock::run(),
        #[cfg(feature = "flamelet")]
        (Some("poll"), ..) => micro::poll(),
        #[cfg(feature = "flamelet")]
        (Some("wall"), ..) => micro::wall(number(1).unwrap_or(500), number(2).unwrap_or(10)),
        #[cfg(feature = "flamelet")]
        (Some("sampler"), ..) => micro::sampler(number(1).unwrap_or(10)),
        #[cfg(feature = "dump")]
        (Some("dump"), ..) => dump::run(),
        _ => {
            eprintln!(
                "usage: bench-wait serve | load ADDRESS CONNECTIONS MILLIS RATE | lock | poll | wall THREADS SECONDS | \
                 sampler SECONDS | dump"
            );
            std::process::exit(2);
        }
    }
}
