//! The watch: what got slower with a deploy is told once, and nothing else is.
//!
//! The deploys are simulated as in `ask/simulation.rs`, and go all the way: each window of a version is a profile that is
//! accepted, becomes part of a block, and is read again.

use flamelet_collect::{Collector, Offered};
use flamelet_profile::{LabelSetId, Line, ProfileBuilder, pprof};
use flamelet_test_support::Random;

use crate::support::{Noting, Site, T0};

const MINUTE: i64 = 60_000_000_000;
const WINDOWS: i64 = 12;
const FUNCTIONS: usize = 40;
/// Observations of a window: 17 minutes of four cores at 100 a second.
const OBSERVATIONS: f64 = 400_000.0;

/// Returns the share of the CPU time that a function has.
fn share(function: usize) -> f64 {
    let weight = |rank: usize| 1.0 / (rank as f64 + 1.5);
    weight(function) / (0..FUNCTIONS).map(weight).sum::<f64>()
}

/// One window of a service, in which one function costs so much more.
fn window(random: &mut Random, time: i64, slow: usize, factor: f64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, MINUTE);
    let main = builder.named_frame("main");
    // Traffic and the speed of the machine.
    let all = OBSERVATIONS * (0.3 * random.normal()).exp() * (0.03 * random.normal()).exp();
    for at in 0..FUNCTIONS {
        let planted = if at == slow { factor } else { 1.0 };
        let mean = all * share(at) * planted * (0.01 * random.normal()).exp();
        let count = (mean + mean.sqrt() * random.normal()).round().max(0.0) as i64;
        let function = Some(builder.named_function(&format!("f{at}"), "src/shop.rs"));
        let leaf = builder.location(None, 0, &[Line { function, line: 10 + at as i64, column: 0 }]);
        let stack = builder.stack(&[leaf, main]);
        builder.sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
    }
    pprof::encode(&builder.finish())
}

/// Sends two versions of a service; in the second one, a function costs so much more.
fn deploy(collector: &Collector, random: &mut Random, service: &str, slow: usize, factor: f64) {
    for number in 0..2 * WINDOWS {
        let (version, factor) = if number < WINDOWS { ("1", 1.0) } else { ("2", factor) };
        let offered = Offered {
            service: service.to_owned(),
            labels: vec![("version".to_owned(), version.to_owned())],
            is_delta: true,
            bytes: window(random, T0 + number * MINUTE, slow, factor),
            ..Offered::default()
        };
        collector.accept(&offered).expect("accepted");
    }
}

#[test]
fn every_planted_regression_is_told_once_and_no_other_deploy_is() {
    let site = Site::new();
    let notes = Noting::default();
    let mut options = site.options();
    // Everything is one log until it becomes blocks.
    options.max_log = u64::MAX;
    let collector = Collector::open(options, Box::new(notes.clone())).expect("opened");
    let mut random = Random::new(18);
    for number in 0..20 {
        deploy(&collector, &mut random, &format!("slower-{number:02}"), number % 5, 1.05);
    }
    for number in 0..100 {
        deploy(&collector, &mut random, &format!("same-{number:03}"), 0, 1.0);
    }
    collector.maintain();
    let now = T0 + 60 * MINUTE;
    collector.watch(now);
    let told = notes.all();
    let services: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
    let planted: Vec<String> = (0..20).map(|number| format!("slower-{number:02}")).collect();
    assert_eq!(services, planted, "{told:?}");
    for (number, line) in told.iter().enumerate() {
        let words = format!(" 2 got slower than 1 (since 2026-01-15T10:12:00Z): f{} +", number % 5);
        assert!(line.contains(&words) && !line.contains(" more"), "{line}");
    }
    // The same again is no news; and a day later there is nothing to compare.
    collector.watch(now + MINUTE);
    collector.watch(now + 48 * 60 * MINUTE);
    assert_eq!(notes.all(), told);
}
