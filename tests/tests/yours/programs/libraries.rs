//! Programs with crates that rules of `explain` are about: `libraries NAME` runs one of them for a second of CPU time. For
//! each rule there is one that it reports, and one that uses the same crate and spends its time elsewhere.

use std::hint::black_box;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// In microseconds, which `clock` counts in.
const BUDGET: i64 = 1_000_000;

unsafe extern "C" {
    safe fn clock() -> i64;
}

/// Calls `work` until the CPU time is used up.
fn busy(mut work: impl FnMut(u64)) {
    let mut turn = 0;
    while clock() < BUDGET {
        work(turn);
        turn += 1;
    }
}

/// Work of the program itself.
#[inline(never)]
fn own_work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum: u64, round| black_box(sum.rotate_left(5) ^ round.wrapping_mul(0x9e37_79b9)))
}

fn orders(count: u64) -> String {
    let order = |number| format!("{{\"number\":{number},\"items\":[\"apple\",\"pear\"],\"total\":{}.5}}", number * 3);
    let orders: Vec<String> = (0..count).map(order).collect();
    format!("[{}]", orders.join(","))
}

#[inline(never)]
fn read_orders() {
    let text = orders(100);
    busy(|_| {
        let orders: serde_json::Value = serde_json::from_str(black_box(&text)).expect("JSON");
        black_box(orders);
    });
}

/// Reads its orders once, and then works with them.
#[inline(never)]
fn use_orders() {
    let orders: serde_json::Value = serde_json::from_str(&orders(100)).expect("JSON");
    busy(|_| {
        black_box(own_work(black_box(&orders).as_array().map_or(0, Vec::len) as u64 * 100));
    });
}

fn document() -> String {
    let entry = |number| format!("<order number=\"{number}\"><item>apple</item><item>pear</item></order>");
    format!("<orders>{}</orders>", (0..100).map(entry).collect::<String>())
}

fn elements(text: &str) -> u64 {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut count = 0;
    loop {
        match reader.read_event().expect("XML") {
            quick_xml::events::Event::Eof => return count,
            quick_xml::events::Event::Start(_) => count += 1,
            _ => {}
        }
    }
}

#[inline(never)]
fn read_document() {
    let text = document();
    busy(|_| {
        black_box(elements(black_box(&text)));
    });
}

#[inline(never)]
fn use_document() {
    let count = elements(&document());
    busy(|_| {
        black_box(own_work(black_box(count) * 100));
    });
}

const PATTERN: &str = r"(\w+)@(\w+)\.(com|org)";

#[inline(never)]
fn compile_patterns() {
    busy(|_| {
        let pattern = regex::Regex::new(black_box(PATTERN)).expect("a pattern");
        black_box(pattern.is_match("someone@example.org"));
    });
}

#[inline(never)]
fn match_patterns() {
    let pattern = regex::Regex::new(PATTERN).expect("a pattern");
    busy(|_| {
        black_box(pattern.is_match(black_box("mail from someone@example.org, of last week")));
    });
}

/// Text that compresses somewhat.
fn page() -> Vec<u8> {
    (0..20_000u64).flat_map(|number| (number * number % 977).to_string().into_bytes()).collect()
}

fn compressed(page: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(page).expect("memory");
    encoder.finish().expect("memory")
}

#[inline(never)]
fn compress_pages() {
    let page = page();
    busy(|_| {
        black_box(compressed(black_box(&page)));
    });
}

/// Unpacks its page once.
#[inline(never)]
fn use_page() {
    let mut page_again = Vec::new();
    GzDecoder::new(&compressed(&page())[..]).read_to_end(&mut page_again).expect("gzip");
    busy(|_| {
        black_box(own_work(black_box(&page_again).len() as u64 / 4));
    });
}

#[inline(never)]
fn hash_pages() {
    let page = page();
    busy(|_| {
        black_box(Sha256::digest(black_box(&page)));
    });
}

#[inline(never)]
fn hash_once() {
    let hash = Sha256::digest(page());
    busy(|_| {
        black_box(own_work(u64::from(black_box(&hash)[0]) + 10_000));
    });
}

#[inline(never)]
fn log_much() {
    tracing_subscriber::fmt().with_writer(std::io::sink).without_time().init();
    busy(|turn| {
        tracing::info!(turn, "another turn");
        black_box(own_work(100));
    });
}

/// Its events are below the level that is logged.
#[inline(never)]
fn log_little() {
    let level = tracing::Level::WARN;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::sink).without_time().init();
    busy(|turn| {
        tracing::info!(turn, "another turn");
        black_box(own_work(100));
    });
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "read-orders" => read_orders(),
        "use-orders" => use_orders(),
        "read-document" => read_document(),
        "use-document" => use_document(),
        "compile-patterns" => compile_patterns(),
        "match-patterns" => match_patterns(),
        "compress-pages" => compress_pages(),
        "use-page" => use_page(),
        "hash-pages" => hash_pages(),
        "hash-once" => hash_once(),
        "log-much" => log_much(),
        "log-little" => log_little(),
        _ => {
            eprintln!("unknown program {name:?}");
            std::process::exit(2);
        }
    }
}
