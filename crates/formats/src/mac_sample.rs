//! The report of macOS's `sample`: a tree of counts, drawn with `+`, `!`, `:` and `|`.

use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result};

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::{decimal, prefixed_hex, words};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` is such a report.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    has(b"Analysis of sampling ") && has(b"Call graph:") || head.starts_with(b"Call graph:")
}

/// Reads the report.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, _notes: &mut Notes) -> Result<Profile> {
    let mut reader = CallTreeReader::new(input.budget());
    input.each_line(|line| {
        reader.line(line);
        Ok(())
    })?;
    reader.finish()
}

/// A node of the tree whose children are being read.
struct OpenNode {
    column: usize,
    /// Samples not accounted for by its children.
    left: i64,
    location: Option<LocationId>,
    labels: LabelSetId,
}

struct CallTreeReader {
    assembly: Assembly,
    in_tree: bool,
    open: Vec<OpenNode>,
    period_nanos: i64,
}

impl CallTreeReader {
    fn new(budget: &Budget) -> Self {
        let mut assembly = Assembly::new(false, budget);
        assembly.column("samples", "count");
        assembly.column("time", "nanoseconds");
        Self { assembly, in_tree: false, open: Vec::new(), period_nanos: 1_000_000 }
    }

    fn line(&mut self, line: &[u8]) {
        if !self.in_tree {
            self.header(line);
            return;
        }
        if line.trim_ascii().is_empty() || line.starts_with(b"Total number in stack") {
            self.close_to(0);
            self.in_tree = line.trim_ascii().is_empty() && self.assembly.row_count() == 0;
            return;
        }
        self.node(line);
    }

    fn header(&mut self, line: &[u8]) {
        if line.starts_with(b"Call graph:") {
            self.in_tree = true;
        } else if let Some(rest) = line.strip_prefix(b"Analysis of sampling ") {
            let text = String::from_utf8_lossy(rest).into_owned();
            self.assembly.builder.comment(&format!("sample: {text}"));
            // `… every 1 millisecond`
            let every = memchr::memmem::find(rest, b" every ").map(|at| &rest[at + 7..]);
            let mut fields = every.map(words).into_iter().flatten();
            if let (Some(number), Some(unit)) = (fields.next().and_then(decimal), fields.next()) {
                let scale = if unit.starts_with(b"micro") { 1_000 } else { 1_000_000 };
                self.period_nanos = i64::try_from(number).unwrap_or(1).saturating_mul(scale);
            }
        }
    }

    /// `    + ! 2565 main  (in foo) + 33  [0x10a]`.
    fn node(&mut self, line: &[u8]) {
        let Some(column) = line.iter().position(|byte| !b" +!:|".contains(byte)) else { return };
        let text = &line[column..];
        let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
        let Some(count) = decimal(&text[..end]).and_then(|count| i64::try_from(count).ok()) else { return };
        self.close_to(column);
        if let Some(parent) = self.open.last_mut() {
            parent.left -= count;
        }
        let what = String::from_utf8_lossy(text[end..].trim_ascii()).into_owned();
        let (location, labels) = match self.open.last() {
            // The outermost nodes are threads.
            None if what.starts_with("Thread") => {
                let label = self.assembly.builder.text_label("thread", &what);
                (None, self.assembly.builder.labels(&[label]))
            }
            parent => {
                let labels = parent.map_or(LabelSetId::EMPTY, |parent| parent.labels);
                (Some(location(&what, &mut self.assembly)), labels)
            }
        };
        self.open.push(OpenNode { column, left: count, location, labels });
    }

    /// Closes all nodes at `column` or further right.
    fn close_to(&mut self, column: usize) {
        while self.open.last().is_some_and(|node| node.column >= column) {
            let stack: Vec<_> = self.open.iter().rev().filter_map(|node| node.location).collect();
            let Some(node) = self.open.pop().filter(|node| node.left > 0) else { continue };
            let row = self.assembly.row(&stack, node.labels);
            self.assembly.add(row, 0, node.left);
            self.assembly.add(row, 1, node.left.saturating_mul(self.period_nanos));
        }
    }

    fn finish(mut self) -> Result<Profile> {
        self.close_to(0);
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Truncated, "the report has no call graph"));
        }
        let time = self.assembly.builder.value_type("time", "nanoseconds");
        let header = self.assembly.builder.header_mut();
        header.period_type = Some(time);
        header.period = self.period_nanos;
        self.assembly.finish()
    }
}

/// `main  (in foo) + 33  [0x10a]`, or `main  (in foo)  load address 0x1 + 0x2  [0x3]  file.c:12`.
fn location(text: &str, assembly: &mut Assembly) -> LocationId {
    let Some((name, rest)) = text.split_once("  (in ") else { return assembly.frame(text, "", 0) };
    let (module, rest) = rest.split_once(')').unwrap_or((rest, ""));
    let address = rest.split_once('[').map_or("", |(_, rest)| rest);
    let address =
        address.split([']', ',']).next().and_then(|word| prefixed_hex(word.as_bytes())).unwrap_or(0);
    let place = rest.rsplit_once(']').map_or("", |(_, place)| place.trim());
    let (file, line) = place.rsplit_once(':').unwrap_or(("", ""));
    let module = assembly.module(module);
    if name == "???" {
        return assembly.builder.address(Some(module), address);
    }
    assembly.builder.named_address(Some(module), address, name, file, line.parse().unwrap_or(0))
}
