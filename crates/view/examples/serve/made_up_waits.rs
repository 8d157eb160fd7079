//! Made-up answers about requests, and a profile of awaits.

use flamelet_report::profile::{Profile, ProfileBuilder};
use flamelet_view::WaitKind;

/// What `/debug/pprof/requests` of a service might answer.
pub(crate) fn requests() -> String {
    let sum = |count: u64, [cpu, blocked, awaiting, runnable]: [u64; 4]| {
        format!(
            "\"count\": {count}, \"wall_ns\": {}, \"cpu_ns\": {cpu}, \"blocked_ns\": {blocked}, \
             \"awaiting_ns\": {awaiting}, \"runnable_ns\": {runnable}",
            cpu + blocked + awaiting + runnable
        )
    };
    let route = |name: &str, method: &str, all: String, errors: u64, slowest: String| {
        format!(
            "{{\"route\": \"{name}\", \"method\": \"{method}\", {all}, \"errors\": {errors}, \"cancelled\": 2, \
             \"p50_ns\": 4200000, \"p90_ns\": 9000000, \"p99_ns\": 87000000, \"max_ns\": 310000000, \
             \"slowest\": {{{slowest}}}}}"
        )
    };
    let ms = |parts: [u64; 4]| parts.map(|part| part * 1_000_000);
    let routes = [
        route(
            "/checkout/{id}",
            "GET",
            sum(12_000, ms([10_000, 5_000, 80_000, 5_000])),
            0,
            sum(120, ms([100, 0, 9_800, 100])),
        ),
        route(
            "<img src=x onerror=hacked()>",
            "POST",
            sum(300, ms([3_000, 100, 400, 20])),
            7,
            sum(3, ms([90, 5, 5, 0])),
        ),
        route("/lock", "GET", sum(64, ms([2, 1_900, 0, 98])), 0, sum(1, ms([0, 99, 0, 1]))),
    ];
    format!("{{\"routes\": [{}]}}", routes.join(", "))
}

/// Waits of two routes; of polls that took long, some were on the CPU.
pub(crate) fn waits(kind: WaitKind) -> Profile {
    let rows: &[(&str, &str, &str, i64)] = match kind {
        WaitKind::Blocked => {
            &[("/lock", "blocked", "shop::read_file", 900), ("/lock", "cpu", "shop::hash", 500)]
        }
        _ => &[
            ("/checkout/{id}", "awaiting", "tokio::sync::batch_semaphore::Acquire::poll", 900),
            ("/lock", "awaiting", "shop::lock", 100),
        ],
    };
    let mut builder = ProfileBuilder::new(&[("awaits", "count"), ("delay", "nanoseconds")]);
    builder.set_default_sample_type("delay");
    for &(route, part, leaf, millis) in rows {
        let frames: Vec<_> = [leaf, "shop::handle"]
            .iter()
            .map(|name| {
                let function = builder.named_function(name, "/home/me/shop/src/main.rs");
                builder.frame(function, 7)
            })
            .collect();
        let stack = builder.stack(&frames);
        let labels = [builder.text_label("route", route), builder.text_label("part", part)];
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[10, millis * 1_000_000]);
    }
    builder.finish()
}
