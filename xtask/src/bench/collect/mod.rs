//! A fleet's profiles: `flamelet collect` compared with Pyroscope, on the same pushes and the same queries.

pub(super) mod store;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::page::{Section, at_most, verdict};
use super::statistics::{median, middle, milliseconds, times};
use super::{Options, build_flamelet, build_peer, folder};
use crate::{Failure, run};
use store::{Store, bytes_in};

/// A service's day in windows of a minute, and an hour of a fleet in windows of ten seconds.
const DAY: Load = Load { name: "day", services: 1, windows: 1430, seconds: 60 };
const FLEET: Load = Load { name: "fleet", services: 4, windows: 360, seconds: 10 };
/// A larger fleet for a minute, at its real speed.
const THOUSAND: Load = Load { name: "many", services: 1000, windows: 6, seconds: 10 };
/// Hours that each of a few and of very many services has, and profiles in each: a simulated day, faster than real.
const HOURS: u64 = 24;
const OF_AN_HOUR: u64 = 2;

const NAMES: [&str; 2] = ["flamelet collect", "Pyroscope 1.12.0"];
pub(super) const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

/// What each service pushes: the number of its windows, and their seconds.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    services: u64,
    windows: u64,
    seconds: u64,
}

/// A call of the query API.
struct Question {
    title: &'static str,
    call: &'static str,
    body: Value,
}

/// A simulated day in a store of its own.
struct SimulatedDay {
    services: u64,
    profiles: u64,
    blocks: usize,
    /// Profiles a second.
    rate: f64,
    cpu: f64,
    memory: f64,
    bytes: u64,
    /// How long an hour of one service takes.
    hour: Duration,
}

/// The figures of one store.
#[derive(Default)]
struct Figures {
    profiles: u64,
    ingest: f64,
    rate: f64,
    bytes: u64,
    memory: f64,
    /// Of a core, while a thousand services push.
    thousand: f64,
    /// A list of times for each question.
    times: Vec<Vec<Duration>>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let (flamelet, sender) = (build_flamelet()?, build_peer("bench-collect")?);
    let place = folder()?.join("collect");
    let _ = std::fs::remove_dir_all(&place);
    let stores = [Store::flamelet(&flamelet, &place, "5m")?, Store::pyroscope(&place)?];
    let now = now()?;
    let mut figures: [Figures; 2] = Default::default();
    for (store, figures) in stores.iter().zip(&mut figures) {
        fill(store, &sender, figures, now, options)?;
    }
    ask_all(&stores, &mut figures, &questions(now), options)?;
    for (store, figures) in stores.into_iter().zip(&mut figures) {
        figures.memory = store.process.peak_megabytes()?;
        let kept = store.kept.clone();
        store.process.end();
        figures.bytes = bytes_in(&kept)?;
    }
    let days = simulated_days(&flamelet, &sender, &place, now, options)?;
    Ok(section(&figures, &questions(now), &days))
}

fn now() -> Result<u64, Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map(|now| now.as_secs()).map_err(|error| Failure::failed(error.to_string()))
}

/// Pushes a day and a fleet as fast as the store accepts them, and a larger fleet at its real speed.
fn fill(
    store: &Store,
    sender: &Path,
    figures: &mut Figures,
    now: u64,
    options: &Options,
) -> Result<(), Failure> {
    run::heading(store.name);
    let mut micros = 0;
    for load in [DAY, FLEET] {
        let load = if options.quick { Load { windows: load.windows / 20, ..load } } else { load };
        let before = store.process.cpu_nanos()?;
        let [profiles, _, took] = push(store, sender, load, now, 0)?;
        figures.ingest += (store.process.cpu_nanos()? - before) as f64 / 1e9;
        figures.profiles += profiles;
        micros += took;
    }
    figures.rate = figures.profiles as f64 / (micros as f64 / 1e6);
    let (before, start) = (store.process.cpu_nanos()?, Instant::now());
    let load = if options.quick { Load { services: 20, ..THOUSAND } } else { THOUSAND };
    push(store, sender, load, now, load.services / load.seconds)?;
    let used = (store.process.cpu_nanos()? - before) as f64;
    figures.thousand = used / start.elapsed().as_nanos() as f64 * 100.0;
    Ok(())
}

/// Pushes, and returns the profiles, their bytes, and the microseconds it took.
fn push(store: &Store, sender: &Path, load: Load, end: u64, rate: u64) -> Result<[u64; 3], Failure> {
    let numbers = [load.services, load.windows, load.seconds, end, rate].map(|number| number.to_string());
    let text = run::output(Command::new(sender).args([&store.address, load.name]).args(&numbers))?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().map_err(|_| Failure::failed(format!("bench-collect printed `{text}`")))
}

fn questions(now: u64) -> [Question; 4] {
    let select = |selector: &str, seconds: u64| {
        json!({
            "profileTypeID": CPU,
            "labelSelector": selector,
            "start": ((now - seconds) * 1000).to_string(),
            "end": ((now + 60) * 1000).to_string(),
            "maxNodes": "8192",
        })
    };
    let merge = "SelectMergeStacktraces";
    let version = |version| select(&format!("{{service_name=\"fleet-1\",version=\"{version}\"}}"), 3600);
    [
        Question { title: "1 h of a service", call: merge, body: select("{service_name=\"fleet-0\"}", 3600) },
        Question {
            title: "24 h of a service",
            call: merge,
            body: select("{service_name=\"day-0\"}", 85_800),
        },
        Question { title: "the fleet's hour", call: merge, body: select("{}", 3600) },
        Question {
            title: "two versions",
            call: "Diff",
            body: json!({ "left": version("1"), "right": version("2") }),
        },
    ]
}

/// Asks both stores in turn. Their totals must be the same.
fn ask_all(
    stores: &[Store; 2],
    figures: &mut [Figures; 2],
    questions: &[Question],
    options: &Options,
) -> Result<(), Failure> {
    let rounds = if options.quick { 1 } else { options.rounds * 3 };
    for question in questions {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            let mut totals = Vec::new();
            for (store, times) in stores.iter().zip(&mut times) {
                let start = Instant::now();
                let answer = store.ask(question.call, &question.body)?;
                times.push(start.elapsed());
                totals.push(total(&answer));
            }
            if totals[0].is_none() || totals[0] != totals[1] {
                return Err(Failure::failed(format!("{}: the totals are {totals:?}", question.title)));
            }
        }
        for (figures, times) in figures.iter_mut().zip(times) {
            figures.times.push(times);
        }
    }
    Ok(())
}

/// Returns the total of a flame graph, or the totals of both sides of a comparison.
fn total(answer: &Value) -> Option<Vec<String>> {
    let graph = &answer["flamegraph"];
    let text = |field: &str| match &graph[field] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match text("leftTicks") {
        Some(left) => Some(vec![left, text("rightTicks")?]),
        None => Some(vec![text("total")?]),
    }
}

/// Fills a store with a day of a few services and one with a day of very many, and asks both for an hour of one.
fn simulated_days(
    flamelet: &Path,
    sender: &Path,
    place: &Path,
    now: u64,
    options: &Options,
) -> Result<[SimulatedDay; 2], Failure> {
    let mut stores = Vec::new();
    for services in [1, if options.quick { 20 } else { 1000 }] {
        let store = Store::flamelet(flamelet, &place.join(format!("{services}-services")), "1s")?;
        run::heading(&format!("a day of {services} services"));
        let (mut profiles, mut micros) = (0, 0);
        for hour in (1..=HOURS).rev() {
            let load = Load { name: "hours", services, windows: OF_AN_HOUR, seconds: 10 };
            let [sent, _, took] = push(&store, sender, load, now - hour * 3600, 0)?;
            profiles += sent;
            micros += took;
        }
        let blocks = store.wait_for_blocks((services * HOURS) as usize)?;
        let rate = profiles as f64 / (micros as f64 / 1e6);
        let cpu = store.process.cpu_nanos()? as f64 / 1e9;
        let (memory, bytes, hour) = (0.0, 0, Duration::ZERO);
        let day = SimulatedDay { services, profiles, blocks, rate, cpu, memory, bytes, hour };
        stores.push((store, day));
    }
    let question = |store: &Store| {
        let [from, to] = [3 * 3600 + 600, 2 * 3600 + 600].map(|ago| ((now - ago) * 1000).to_string());
        let body = json!({
            "profileTypeID": CPU, "labelSelector": "{service_name=\"hours-0\"}", "start": from, "end": to,
        });
        let start = Instant::now();
        store.ask("SelectMergeStacktraces", &body).map(|_| start.elapsed())
    };
    let mut taken = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds * 7 {
        for ((store, _), taken) in stores.iter().zip(&mut taken) {
            taken.push(question(store)?);
        }
    }
    let mut days = Vec::new();
    for ((store, day), taken) in stores.into_iter().zip(taken) {
        let (memory, kept) = (store.process.peak_megabytes()?, store.kept.clone());
        store.process.end();
        days.push(SimulatedDay { memory, bytes: bytes_in(&kept)?, hour: median(taken), ..day });
    }
    days.try_into().map_err(|_| Failure::failed("there are two stores"))
}

fn section(figures: &[Figures; 2], questions: &[Question], days: &[SimulatedDay; 2]) -> Section {
    let of = |figures: &Figures, at: usize| median(figures.times[at].iter().copied());
    let rows = NAMES.iter().zip(figures).map(|(name, figures)| {
        let mut row = vec![
            (*name).to_owned(),
            format!("{:.2} s", figures.ingest),
            format!("{:.0}", figures.rate),
            format!("{:.1} MB", figures.bytes as f64 / 1e6),
            format!("{:.0} MB", figures.memory),
            format!("{:.1} %", figures.thousand),
        ];
        row.extend((0..questions.len()).map(|at| milliseconds(of(figures, at))));
        row
    });
    let mut columns = vec!["store", "CPU to take them", "profiles/s", "kept", "memory", "1,000 services"];
    columns.extend(questions.iter().map(|question| question.title));
    let [ours, theirs] = figures;
    let at_least_5 = |what: &str, theirs: f64, ours: f64| {
        format!("{what} at least 5 times less: {}, {}", times(theirs, ours), verdict(theirs >= 5.0 * ours))
    };
    let is_faster = (0..questions.len()).all(|at| of(ours, at) <= of(theirs, at));
    let first: Vec<String> = (questions.iter().zip(&ours.times).zip(&theirs.times))
        .map(|((question, ours), theirs)| {
            format!("{} {} and {}", question.title, milliseconds(ours[0]), milliseconds(theirs[0]))
        })
        .collect();
    let [few, many] = days;
    let growth = many.hour.as_secs_f64() / few.hour.as_secs_f64();
    Section {
        title: "collect: a fleet's profiles, compared with Pyroscope".to_owned(),
        about: format!(
            "{} profiles of synthetic services (190 samples, 40 frames deep, with names), pushed once as \
             Pyroscope's agents do, as\nfast as the store accepts them: a day of one service and an hour \
             of {}. Then 1,000 services push every ten seconds for a\nminute: the share of a core. Then \
             the same calls of the query API, in turn; both answer with the same totals. What is\nkept is \
             counted after both have ended; for Pyroscope, it is what is in its store, without the copy \
             that it removes\nlater.",
            ours.profiles, FLEET.services
        ),
        columns,
        rows: rows.collect(),
        goals: vec![
            at_least_5("CPU to take profiles", theirs.ingest, ours.ingest),
            at_least_5("bytes kept", theirs.bytes as f64, ours.bytes as f64),
            at_most("24 h of a service, in ms", middle([of(ours, 1).as_secs_f64() * 1e3]), 100.0, "ms"),
            at_most("memory", Some(ours.memory), 512.0, "MB"),
            format!("no query slower than Pyroscope's: {}", verdict(is_faster)),
            format!("asked for the first time, against Pyroscope: {}", first.join(", ")),
            format!(
                "an hour of one service costs the same with {} and with {} blocks in the store: {} and {}, {}",
                few.blocks,
                many.blocks,
                milliseconds(few.hour),
                milliseconds(many.hour),
                verdict(growth <= 1.25)
            ),
            format!(
                "a simulated day of {} services, {} profiles: {:.0} a second, {:.1} s of CPU, {:.1} MB kept, at most 512 MB of \
                 memory: {:.0}, {}",
                many.services,
                many.profiles,
                many.rate,
                many.cpu,
                many.bytes as f64 / 1e6,
                many.memory,
                verdict(many.memory <= 512.0)
            ),
        ],
    }
}
