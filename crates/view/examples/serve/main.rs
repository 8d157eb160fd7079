//! Serves made-up profiles, for the tests in a browser (`ui/tests/browser.mjs`) and for looking at the page.
//!
//! `cargo run -p flamelet-view --example serve -- service|heap|hostile|several|unchanged|live|past|fleet|big COUNT` prints the address.
//! `… -- file PATH` serves a pprof file. `… -- export service|hostile|big FILE` writes the page as a file.

mod made_up;
mod made_up_heap;
mod made_up_waits;

use flamelet_report::flame::FlameOptions;
use flamelet_report::page::html;
use flamelet_report::profile::{HeapView, Profile, pprof};
use flamelet_view::{
    CancelToken, CodeOptions, Course, Error, Past, ServeOptions, Server, Source, Take, Taken, WaitKind,
};

struct Busy;

impl Take for Busy {
    fn take(&self, seconds: u32, _: &CancelToken) -> Result<Taken, Error> {
        Ok(Taken { name: format!("cpu, {seconds} s"), profile: made_up::service(2) })
    }

    fn has_heap(&self) -> bool {
        true
    }

    fn take_heap(&self, view: HeapView, _: u32, _: &CancelToken) -> Result<Taken, Error> {
        let profile = match view {
            HeapView::InUse => made_up_heap::heap(),
            HeapView::Lifetime => made_up_heap::lifetime(),
            HeapView::Growth => made_up_heap::growth(),
            _ => return Err(flamelet_view::Error::unreadable("made up: not this one")),
        };
        Ok(Taken { name: view.endpoint().to_owned(), profile })
    }

    fn has_requests(&self) -> bool {
        true
    }

    fn requests(&self) -> Result<String, Error> {
        Ok(made_up_waits::requests())
    }

    fn take_wait(&self, kind: WaitKind, _: u32, _: &CancelToken) -> Result<Taken, Error> {
        Ok(Taken { name: kind.endpoint().to_owned(), profile: made_up_waits::waits(kind) })
    }
}

/// Six hours, with a busy one in the middle.
struct SixHours;

const SIX_HOURS: (i64, i64) = (1_794_700_800_000, 1_794_700_800_000 + 6 * 3_600_000);

impl Past for SixHours {
    fn course(&self, parts: usize) -> Result<Course, Error> {
        let (from, to) = SIX_HOURS;
        let mut numbers = made_up::Numbers(7);
        let window = |time: i64| {
            let is_busy = (150..210).contains(&((time - from) / 60_000));
            (
                time,
                2_000_000_000 + numbers.below(1_500_000_000) as i64 + if is_busy { 9_000_000_000 } else { 0 },
            )
        };
        let windows: Vec<(i64, i64)> = (from..to).step_by(10_000).map(window).collect();
        Ok(Course::new(SIX_HOURS, parts, windows))
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken, Error> {
        let is_late = from > (SIX_HOURS.0 + SIX_HOURS.1) / 2 - 3_600_000;
        let name = format!("{} s from {}", (to - from) / 1000, from / 1000);
        Ok(Taken { name, profile: made_up::service(if is_late { 2 } else { 1 }) })
    }
}

/// Six hours of each of three services.
struct Fleet;

impl Past for Fleet {
    fn course(&self, parts: usize) -> Result<Course, Error> {
        SixHours.course(parts)
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken, Error> {
        SixHours.range(from, to)
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        Ok(["cart", "checkout", "<b>search</b>"].map(str::to_owned).to_vec())
    }

    fn of_service(&self, service: &str) -> Option<Box<dyn Past + '_>> {
        self.services().ok()?.iter().any(|known| known == service).then(|| Box::new(SixHours) as _)
    }
}

fn profile(kind: &str) -> Profile {
    match kind {
        "hostile" => made_up::hostile(),
        "service" => made_up::service(1),
        "heap" => made_up_heap::heap(),
        count => made_up::big(count.parse().expect("service, heap, hostile or a number of stacks")),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let source = match words[..] {
        ["export", kind, file] => {
            let options = FlameOptions { title: format!("{kind} profile"), ..FlameOptions::default() };
            std::fs::write(file, html(&profile(kind), &options)).expect("the file can be written");
            return;
        }
        ["file", path] => {
            let bytes = std::fs::read(path).expect("the file can be read");
            Source::profile(path, pprof::read(&bytes, &Default::default()).expect("a pprof file"))
        }
        ["folder", path] => Source::folder(path, |path| {
            let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
            pprof::read(&bytes, &Default::default()).map_err(|error| error.to_string())
        }),
        ["several"] => Source::profiles(vec![
            ("before".into(), made_up::service(1)),
            ("after".into(), made_up::service(2)),
        ]),
        ["unchanged"] => Source::profiles(vec![
            ("before".into(), made_up::service(1)),
            ("after".into(), made_up::slower_run(1)),
        ]),
        ["heap"] => Source::profiles(vec![
            ("growth".into(), made_up_heap::growth()),
            ("lifetime".into(), made_up_heap::lifetime()),
            ("heap".into(), made_up_heap::heap()),
        ]),
        ["live"] => Source::live(vec![Taken { name: "first".into(), profile: made_up::service(1) }], Busy),
        ["past"] => Source::profile("all of it", made_up::service(1)).with_past(Box::new(SixHours)),
        ["fleet"] => Source::profiles(Vec::new()).with_past(Box::new(Fleet)),
        [kind] | [_, kind] => Source::profile(kind, profile(kind)),
        _ => panic!(
            "say what to serve: service, hostile, several, live, past, fleet, folder PATH, or big COUNT"
        ),
    };
    let source = source
        .with_code(CodeOptions { source_path: env!("CARGO_MANIFEST_DIR").into(), ..CodeOptions::default() });
    let server = Server::bind(source, &ServeOptions::default()).expect("loopback has a free port");
    println!("{}", server.url());
    server.run().expect("the server runs until it is killed");
}
