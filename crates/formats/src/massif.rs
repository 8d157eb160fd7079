//! massif's out file: how much heap there was at each snapshot, and for some of them who allocated it.
//!
//! The profile is the peak's tree as `inuse_space`; without a peak, that of the largest detailed snapshot.
//! The totals of all snapshots are kept as comments.

use flamelet_profile::{ErrorKind, LabelSetId, LocationId, Profile, Result};

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::{decimal, signed};
use crate::{Error, Notes, Options, valgrind};

/// Whether `head` looks like massif's out file.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    head.starts_with(b"desc:") && has(b"\ntime_unit:") && has(b"\nsnapshot=")
}

/// Reads massif's out file.
pub(crate) fn read(input: Input<'_>, _options: &Options, notes: &mut Notes) -> Result<Profile> {
    let mut reader = Reader::default();
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        if let Err(what) = reader.line(line) {
            return Err(lines.corrupt(what));
        }
    }
    reader.finish(notes)
}

/// A line of a tree: how deep, how much, and what.
struct TreeLine {
    depth: usize,
    bytes: i64,
    text: String,
}

#[derive(Default)]
struct Snapshot {
    number: u64,
    time: i64,
    heap: i64,
    extra: i64,
    stacks: i64,
    is_peak: bool,
    tree: Vec<TreeLine>,
}

#[derive(Default)]
struct Reader {
    comments: Vec<String>,
    time_unit: String,
    snapshots: Vec<[i64; 5]>,
    open: Option<Snapshot>,
    best: Option<Snapshot>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> std::result::Result<(), &'static str> {
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() || trimmed[0] == b'#' || trimmed.starts_with(b"==") {
            return Ok(());
        }
        if let Some(number) = trimmed.strip_prefix(b"snapshot=") {
            self.close();
            let number = decimal(number).ok_or("a bad snapshot number")?;
            self.open = Some(Snapshot { number, ..Snapshot::default() });
            return Ok(());
        }
        match &mut self.open {
            Some(snapshot) => snapshot.line(line),
            None => {
                self.header(trimmed);
                Ok(())
            }
        }
    }

    fn header(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(unit) = text.strip_prefix("time_unit:") {
            self.time_unit = unit.trim().into();
        } else {
            self.comments.push(format!("massif: {text}"));
        }
    }

    fn close(&mut self) {
        let Some(snapshot) = self.open.take() else { return };
        let totals = [snapshot.number as i64, snapshot.time, snapshot.heap, snapshot.extra, snapshot.stacks];
        self.snapshots.push(totals);
        let better = |best: &Snapshot| (snapshot.is_peak, snapshot.heap) >= (best.is_peak, best.heap);
        if !snapshot.tree.is_empty() && self.best.as_ref().is_none_or(better) {
            self.best = Some(snapshot);
        }
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.close();
        if self.snapshots.is_empty() {
            return Err(Error::new(ErrorKind::Truncated, "the massif file holds no snapshot"));
        }
        let mut assembly = Assembly::new(false);
        assembly.column("inuse_space", "bytes");
        self.comments.iter().for_each(|comment| assembly.builder.comment(comment));
        for [number, time, heap, extra, stacks] in &self.snapshots {
            let unit = &self.time_unit;
            let comment = format!(
                "massif: snapshot {number} at {time} {unit}: heap {heap} B, extra {extra} B, stacks {stacks} B"
            );
            assembly.builder.comment(&comment);
        }
        match &self.best {
            Some(snapshot) => {
                if !snapshot.is_peak {
                    notes.push(format!("no peak is marked: snapshot {} is shown", snapshot.number));
                }
                if snapshot.extra > 0 {
                    notes.push(format!("{} bytes of the allocator's own are left out", snapshot.extra));
                }
                add_tree(&snapshot.tree, &mut assembly);
            }
            None => notes.push("no snapshot is detailed: only totals are known, see the comments".into()),
        }
        Ok(assembly.finish())
    }
}

impl Snapshot {
    fn line(&mut self, line: &[u8]) -> std::result::Result<(), &'static str> {
        let trimmed = line.trim_ascii();
        let number = |digits: &[u8]| signed(digits).ok_or("a bad number");
        if let Some(digits) = trimmed.strip_prefix(b"time=") {
            // Milliseconds may have a fraction.
            self.time = number(digits.split(|&byte| byte == b'.').next().unwrap_or_default())?;
        } else if let Some(digits) = trimmed.strip_prefix(b"mem_heap_B=") {
            self.heap = number(digits)?;
        } else if let Some(digits) = trimmed.strip_prefix(b"mem_heap_extra_B=") {
            self.extra = number(digits)?;
        } else if let Some(digits) = trimmed.strip_prefix(b"mem_stacks_B=") {
            self.stacks = number(digits)?;
        } else if let Some(kind) = trimmed.strip_prefix(b"heap_tree=") {
            self.is_peak = kind == b"peak";
        } else {
            self.tree.push(parse_tree_line(line).ok_or("neither a figure nor a line of a tree")?);
        }
        Ok(())
    }
}

/// `  n2: 256326 0x151A05: name (place)`.
fn parse_tree_line(line: &[u8]) -> Option<TreeLine> {
    let depth = line.iter().position(|&byte| byte != b' ')?;
    let rest = line[depth..].strip_prefix(b"n")?;
    let colon = memchr::memchr(b':', rest)?;
    decimal(&rest[..colon])?;
    let rest = rest[colon + 1..].trim_ascii_start();
    let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
    let bytes = i64::try_from(decimal(&rest[..end])?).ok()?;
    Some(TreeLine { depth, bytes, text: String::from_utf8_lossy(rest[end..].trim_ascii()).into_owned() })
}

/// A node of a tree whose children are being read.
struct OpenNode {
    depth: usize,
    /// What its children do not account for.
    left: i64,
    location: Option<LocationId>,
}

/// Adds a tree: its root is the allocation, its leaves are the outermost callers.
fn add_tree(tree: &[TreeLine], assembly: &mut Assembly) {
    let mut open: Vec<OpenNode> = Vec::new();
    for line in tree {
        while open.last().is_some_and(|node| node.depth >= line.depth) {
            close(&mut open, assembly);
        }
        if let Some(caller) = open.last_mut() {
            caller.left -= line.bytes;
        }
        let location = (line.depth > 0).then(|| tree_location(&line.text, assembly));
        open.push(OpenNode { depth: line.depth, left: line.bytes, location });
    }
    while !open.is_empty() {
        close(&mut open, assembly);
    }
}

fn tree_location(text: &str, assembly: &mut Assembly) -> LocationId {
    if text.starts_with("in ") && text.contains(" place") {
        return assembly.frame("[below massif's threshold]", "", 0);
    }
    valgrind::location(text, assembly)
}

fn close(open: &mut Vec<OpenNode>, assembly: &mut Assembly) {
    let stack: Vec<LocationId> = open.iter().filter_map(|node| node.location).collect();
    if let Some(node) = open.pop().filter(|node| node.left > 0) {
        let row = assembly.row(&stack, LabelSetId::EMPTY);
        assembly.add(row, 0, node.left);
    }
}
