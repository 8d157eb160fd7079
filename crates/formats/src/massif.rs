//! massif's output file: the size of the heap at each snapshot, and for some of them what allocated it.
//!
//! The profile is the peak's tree as `inuse_space`, or without a peak that of the largest detailed snapshot. The
//! content of every snapshot is also kept as `snapshot_space`, labelled with the snapshot's number and placed on the
//! timeline at its time, so that `--sample-index snapshot_space --tagfocus snapshot=7` shows one of them.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result, ThreadId};

use crate::assembly::Assembly;
use crate::input::{Input, LineResult};
use crate::number::{decimal, signed};
use crate::{Error, FormatOptions, Notes, valgrind};

/// Returns whether `head` looks like massif's output file.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    head.starts_with(b"desc:") && has(b"\ntime_unit:") && has(b"\nsnapshot=")
}

/// Reads massif's output file.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = SnapshotReader::new(input.budget());
    input.each_line(|line| reader.line(line))?;
    reader.finish(options.timeline, notes)
}

/// A line of a tree: its depth, its bytes and its location.
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

struct SnapshotReader {
    budget: Budget,
    comments: Vec<String>,
    time_unit: String,
    snapshots: Vec<Snapshot>,
    open: Option<Snapshot>,
}

impl SnapshotReader {
    fn new(budget: &Budget) -> Self {
        let budget = budget.clone();
        Self { budget, comments: Vec::new(), time_unit: String::new(), snapshots: Vec::new(), open: None }
    }

    fn line(&mut self, line: &[u8]) -> LineResult {
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
            Some(snapshot) => snapshot.line(line, &self.budget),
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
            let comment = format!("massif: {text}");
            if self.budget.has_room(comment.len() + ALLOCATION) {
                self.budget.push(&mut self.comments, comment);
            }
        }
    }

    fn close(&mut self) {
        if let Some(snapshot) = self.open.take() {
            self.budget.push(&mut self.snapshots, snapshot);
        }
    }

    fn finish(mut self, keep_timeline: bool, notes: &mut Notes) -> Result<Profile> {
        self.close();
        if self.snapshots.is_empty() {
            return Err(Error::new(ErrorKind::Truncated, "the massif file has no snapshot"));
        }
        let mut assembly = Assembly::new(keep_timeline, &self.budget);
        assembly.column("inuse_space", "bytes");
        let over_time = assembly.column("snapshot_space", "bytes");
        assembly.events_count(over_time);
        assembly.builder.header_mut().default_sample_type = assembly.builder.string("inuse_space");
        self.comments.iter().for_each(|comment| assembly.builder.comment(comment));
        self.comment_totals(&mut assembly);
        self.add_shown(&mut assembly, notes);
        let thread = assembly.thread(0, 0, "heap", "").id;
        for snapshot in &self.snapshots {
            assembly.check_room()?;
            snapshot.add_to_timeline(&self.time_unit, over_time, thread, &mut assembly);
        }
        if keep_timeline && self.time_unit != "ms" {
            let unit = if self.time_unit == "B" { "bytes allocated" } else { "instructions" };
            notes.push(format!("the timeline counts {unit}, not time"));
        }
        assembly.finish()
    }

    fn comment_totals(&self, assembly: &mut Assembly) {
        let Some(largest) = self.snapshots.iter().max_by_key(|snapshot| snapshot.heap) else { return };
        let (count, unit) = (self.snapshots.len(), &self.time_unit);
        let Snapshot { number, time, heap, extra, stacks, .. } = largest;
        assembly.builder.comment(&format!(
            "massif: {count} snapshots; the largest is {number} at {time} {unit}: heap {heap} B, extra {extra} B, \
             stacks {stacks} B"
        ));
    }

    /// Adds the tree shown as the profile: the peak's, or the largest.
    fn add_shown(&self, assembly: &mut Assembly, notes: &mut Notes) {
        let detailed = self.snapshots.iter().filter(|snapshot| !snapshot.tree.is_empty());
        let Some(shown) = detailed.max_by_key(|snapshot| (snapshot.is_peak, snapshot.heap)) else {
            notes.push("no snapshot has details: only totals are known".into());
            return;
        };
        if !shown.is_peak {
            notes.push(format!("no snapshot is marked as the peak: snapshot {} is used", shown.number));
        }
        if shown.extra > 0 {
            notes.push(format!("{} bytes of allocator overhead are left out", shown.extra));
        }
        for_each_stack(&shown.tree, assembly, |assembly, stack, bytes| {
            let row = assembly.row(stack, LabelSetId::EMPTY);
            assembly.add(row, 0, bytes);
        });
    }
}

impl Snapshot {
    /// Adds what held how much at the time of the snapshot, or only the total if the snapshot has no details.
    fn add_to_timeline(&self, time_unit: &str, column: usize, thread: ThreadId, assembly: &mut Assembly) {
        let label = assembly.builder.number_label("snapshot", self.number as i64, "");
        let labels = assembly.builder.labels(&[label]);
        let nanos = if time_unit == "ms" { 1_000_000 } else { 1 };
        let time = u64::try_from(self.time).unwrap_or(0).saturating_mul(nanos);
        let add = |assembly: &mut Assembly, stack: &[LocationId], bytes: i64| {
            let row = assembly.row(stack, labels);
            assembly.add(row, column, bytes);
            assembly.event(time, row, thread, bytes);
        };
        if self.tree.is_empty() {
            let all = assembly.frame("[not detailed]", "", 0);
            add(assembly, &[all], self.heap);
        } else {
            for_each_stack(&self.tree, assembly, add);
        }
    }

    fn line(&mut self, line: &[u8], budget: &Budget) -> LineResult {
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
            let parsed = parse_tree_line(line).ok_or("neither a value nor a line of a tree")?;
            if budget.has_room(parsed.text.len() + ALLOCATION) {
                budget.push(&mut self.tree, parsed);
            }
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
    /// Bytes not accounted for by its children.
    left: i64,
    location: Option<LocationId>,
}

/// Calls a function with each stack of a tree and the bytes it holds. The tree's root is the allocation, and its
/// leaves are the outermost callers.
fn for_each_stack(
    tree: &[TreeLine],
    assembly: &mut Assembly,
    mut each: impl FnMut(&mut Assembly, &[LocationId], i64),
) {
    let mut open: Vec<OpenNode> = Vec::new();
    for line in tree {
        while open.last().is_some_and(|node| node.depth >= line.depth) {
            close(&mut open, assembly, &mut each);
        }
        if let Some(caller) = open.last_mut() {
            caller.left -= line.bytes;
        }
        let location = (line.depth > 0).then(|| tree_location(&line.text, assembly));
        open.push(OpenNode { depth: line.depth, left: line.bytes, location });
    }
    while !open.is_empty() {
        close(&mut open, assembly, &mut each);
    }
}

fn tree_location(text: &str, assembly: &mut Assembly) -> LocationId {
    if text.starts_with("in ") && text.contains(" place") {
        return assembly.frame("[below massif's threshold]", "", 0);
    }
    valgrind::location(text, assembly)
}

fn close(
    open: &mut Vec<OpenNode>,
    assembly: &mut Assembly,
    each: &mut impl FnMut(&mut Assembly, &[LocationId], i64),
) {
    let stack = || open.iter().filter_map(|node| node.location).collect::<Vec<_>>();
    let stack = open.last().filter(|node| node.left > 0).map(|_| stack());
    if let Some((node, stack)) = open.pop().zip(stack) {
        each(assembly, &stack, node.left);
    }
}
