//! Small files that would become large: one or more for every reader.
//!
//! Lists of empty things, stacks that share their beginnings, tables that refer to each other, content that
//! decompresses to far more than its size.

mod binary;
mod json;
mod pprof;
mod text;

use std::io::Write;

use flamelet_tests::wire::gzip;

/// A file whose reader must stay within its limits.
pub(crate) struct Bomb {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Bomb {
    fn new(name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name, bytes: bytes.into() }
    }

    /// Compressed, so that repetitions cost nothing.
    fn packed(name: &'static str, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(name, gzip(bytes.as_ref()))
    }

    /// Returns `head` and then `unit` repeated this many times, compressed on the fly.
    fn packed_units(name: &'static str, head: &[u8], unit: &[u8], count: usize) -> Self {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let many = unit.repeat(1 << 10);
        packed.write_all(head).expect("compressing into memory");
        (0..count >> 10).for_each(|_| packed.write_all(&many).expect("compressing into memory"));
        Self::new(name, packed.finish().expect("compressing into memory"))
    }
}

/// How a bomb is made; one at a time, so that the tests themselves stay small.
pub(crate) type Maker = fn() -> Bomb;

/// All of them.
pub(crate) fn all() -> Vec<Maker> {
    [pprof::ALL, json::ALL, text::ALL, binary::ALL].concat()
}

/// Files that took gigabytes or minutes before there were budgets.
pub(crate) fn worst() -> Vec<Maker> {
    vec![binary::jfr_nested, pprof::worst_lines, pprof::worst_labels, text::worst_events]
}

/// One that runs out of memory, and one that runs out of work.
pub(crate) const OUT_OF_MEMORY: Maker = pprof::empty_lines;
pub(crate) const OUT_OF_WORK: Maker = json::speedscope_unmatched;

/// Returns the results of `item` for the numbers below `count`, concatenated.
fn repeated(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

/// The same, separated by commas.
fn listed(count: usize, item: impl Fn(usize) -> String) -> String {
    repeated(count, |at| if at == 0 { item(at) } else { format!(",{}", item(at)) })
}
