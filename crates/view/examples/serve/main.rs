//! Serves made-up profiles, for the tests in a browser (`ui/tests/browser.mjs`) and for looking at the page.
//!
//! `cargo run -p flamelet-view --example serve -- service|heap|hostile|several|live|big COUNT` prints the address.
//! `… -- file PATH` serves a pprof file. `… -- export service|hostile|big FILE` writes the page as a file.

mod made_up;
mod made_up_heap;

use flamelet_report::flame::FlameOptions;
use flamelet_report::page::html;
use flamelet_report::profile::{HeapView, Profile, pprof};
use flamelet_view::{CancelToken, CodeOptions, Error, ServeOptions, Server, Source, Take, Taken};

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
        ["several"] => Source::profiles(vec![
            ("before".into(), made_up::service(1)),
            ("after".into(), made_up::service(2)),
        ]),
        ["heap"] => Source::profiles(vec![
            ("growth".into(), made_up_heap::growth()),
            ("lifetime".into(), made_up_heap::lifetime()),
            ("heap".into(), made_up_heap::heap()),
        ]),
        ["live"] => Source::live(vec![Taken { name: "first".into(), profile: made_up::service(1) }], Busy),
        [kind] | [_, kind] => Source::profile(kind, profile(kind)),
        _ => panic!("say what to serve: service, hostile, several, live, or big COUNT"),
    };
    let source = source
        .with_code(CodeOptions { source_path: env!("CARGO_MANIFEST_DIR").into(), ..CodeOptions::default() });
    let server = Server::bind(source, &ServeOptions::default()).expect("loopback has a free port");
    println!("{}", server.url());
    server.run().expect("the server runs until it is killed");
}
