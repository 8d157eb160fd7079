//! V8's `.cpuprofile`: a tree of nodes, and the node on top at each moment; and its `.heapprofile`.

mod heap;
mod nested;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result};
use rustc_hash::FxHashMap as HashMap;
use serde::{Deserialize, Serialize};

use crate::assembly::Assembly;
use crate::frames::{FrameTable, nanos_per, value_type};
use crate::input::Input;
use crate::output::Output;
use crate::{Error, FormatOptions, Notes, json};

#[derive(Deserialize)]
struct CpuProfileFile {
    #[serde(default)]
    nodes: Vec<ProfileNode>,
    /// The form of the tree that V8 wrote until 2016.
    #[serde(default)]
    head: Option<nested::NestedNode>,
    #[serde(default)]
    samples: Vec<u64>,
    #[serde(rename = "timeDeltas", default)]
    deltas: Vec<i64>,
    /// Microseconds; the nested form has them instead of `timeDeltas`, and its start and end are in seconds.
    #[serde(default)]
    timestamps: Vec<i64>,
    #[serde(rename = "startTime", default)]
    start: f64,
    #[serde(rename = "endTime", default)]
    end: f64,
}

#[derive(Deserialize, Serialize)]
struct ProfileNode {
    id: u64,
    #[serde(rename = "callFrame")]
    frame: CallFrame,
    #[serde(rename = "hitCount", default)]
    hits: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<u64>,
    /// Trace events name the parent instead of the children.
    #[serde(default, skip_serializing)]
    parent: Option<u64>,
}

#[derive(Deserialize, Serialize, Default)]
struct CallFrame {
    #[serde(rename = "functionName", default)]
    name: String,
    #[serde(rename = "scriptId", default, deserialize_with = "json::loose_text")]
    script: String,
    #[serde(default)]
    url: String,
    /// Counted from 0; -1 when unknown.
    #[serde(rename = "lineNumber", default = "unknown_line")]
    line: i64,
    #[serde(rename = "columnNumber", default = "unknown_line")]
    column: i64,
}

const fn unknown_line() -> i64 {
    -1
}

/// A node of the tree: its location and its caller.
struct TreeNode {
    location: LocationId,
    parent: Option<u32>,
}

/// What a node costs.
const NODE: usize = size_of::<TreeNode>() + hash_entry(size_of::<(u64, u32)>()) + size_of::<Option<u32>>();

/// The nodes of a tree, from which stacks are built.
#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<TreeNode>,
    by_id: HashMap<u64, u32>,
}

impl Tree {
    fn add(&mut self, node: &ProfileNode, assembly: &mut Assembly) {
        let frame = &node.frame;
        let name = if frame.name.is_empty() { "(anonymous)" } else { &frame.name };
        let location = assembly.frame(name, &frame.url, frame.line.saturating_add(1).max(0));
        if let Some(at) = self.number(node.id, assembly) {
            self.nodes[at as usize].location = location;
        }
        if let Some(parent) = node.parent {
            self.set_parent(node.id, parent, assembly);
        }
    }

    /// Returns the index of the node `id`, which may not have been read yet.
    fn number(&mut self, id: u64, assembly: &Assembly) -> Option<u32> {
        if let Some(&known) = self.by_id.get(&id) {
            return Some(known);
        }
        let number = u32::try_from(self.nodes.len()).ok().filter(|_| assembly.budget().has_room(NODE))?;
        self.nodes.push(TreeNode { location: MISSING, parent: None });
        self.by_id.insert(id, number);
        Some(number)
    }

    fn set_parent(&mut self, id: u64, parent: u64, assembly: &Assembly) {
        if let (Some(node), Some(parent)) = (self.number(id, assembly), self.number(parent, assembly)) {
            self.nodes[node as usize].parent = Some(parent);
        }
    }

    /// Collects the stack of node `top`, leaf first; the root is only a placeholder and is left out.
    fn stack(&self, top: u32, into: &mut Vec<LocationId>, budget: &Budget) -> Result<()> {
        into.clear();
        let mut at = Some(top);
        while let Some(number) = at {
            let node = &self.nodes[number as usize];
            // What is above a node that the file does not have is not known.
            if node.location == MISSING {
                return Ok(());
            }
            if into.len() > self.nodes.len() {
                return Err(Error::new(ErrorKind::Corrupt, "a node of the profile is its own ancestor"));
            }
            budget.work(1)?;
            into.push(node.location);
            at = node.parent;
        }
        if into.len() > 1 {
            into.pop();
        }
        Ok(())
    }
}

/// The rows of nodes with the labels of one thread; each stack is built once, however many samples have it.
struct NodeRows<'a> {
    tree: &'a Tree,
    labels: LabelSetId,
    rows: Vec<Option<u32>>,
    stack: Vec<LocationId>,
}

impl<'a> NodeRows<'a> {
    fn new(tree: &'a Tree, labels: LabelSetId) -> Self {
        Self { tree, labels, rows: vec![None; tree.nodes.len()], stack: Vec::new() }
    }

    /// Returns the row of a node, or `None` if the file does not have the node.
    fn row(&mut self, id: u64, assembly: &mut Assembly) -> Result<Option<u32>> {
        let number = self.tree.by_id.get(&id).copied();
        let is_known = |number: &u32| self.tree.nodes[*number as usize].location != MISSING;
        let Some(number) = number.filter(is_known) else { return Ok(None) };
        if let Some(row) = self.rows[number as usize] {
            return Ok(Some(row));
        }
        self.tree.stack(number, &mut self.stack, assembly.budget())?;
        let row = assembly.row(&self.stack, self.labels);
        assembly.check_room()?;
        self.rows[number as usize] = Some(row);
        Ok(Some(row))
    }
}

/// Returns whether a file with these keys is a CPU profile, of flat nodes or of nested ones, or a heap profile.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("nodes")
        || (keys.has("head") && ["samples", "startTime", "endTime"].iter().any(|key| keys.has(key)))
        || (keys.has("head") && keys.mentions("\"selfSize\""))
}

/// Reads a `.cpuprofile`.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let text = input.slurp()?;
    if heap::recognise(&text) {
        return heap::read(&text, budget);
    }
    let file = CpuProfileFile::parse(&text, budget)?;
    let mut assembly = Assembly::new(options.timeline, budget);
    let columns = Columns::new(&mut assembly);
    let mut tree = Tree::default();
    for node in &file.nodes {
        tree.add(node, &mut assembly);
        node.children.iter().for_each(|&child| tree.set_parent(child, node.id, &assembly));
    }
    assembly.check_room()?;
    if file.samples.is_empty() {
        by_hits(&file, &tree, columns, &mut assembly)?;
        notes.push("the file has hit counts but no samples, so there are no times".into());
    } else {
        let thread = assembly.thread(0, 1, "", "");
        budget.charge(file.deltas.len().max(file.timestamps.len()) * size_of::<i64>())?;
        let (times, end) = file.times();
        let missing = by_samples(&file.samples, &times, Some(end), &tree, columns, thread, &mut assembly)?;
        note_missing(missing, notes);
    }
    assembly.builder.header_mut().duration_nanos =
        ((file.end - file.start) * file.micros() * 1e3).max(0.0) as i64;
    assembly.finish()
}

#[derive(Clone, Copy)]
pub(crate) struct Columns {
    samples: usize,
    time: usize,
}

impl Columns {
    pub(crate) fn new(assembly: &mut Assembly) -> Self {
        let columns = Self {
            samples: assembly.column("samples", "count"),
            time: assembly.column("time", "nanoseconds"),
        };
        assembly.events_count(columns.time);
        columns
    }
}

/// What ordering a sample by time costs, including its time.
const ORDER: usize = 2 * size_of::<usize>() + size_of::<i64>();
/// The location of a node that is referred to but missing.
const MISSING: LocationId = LocationId::MAX;

impl CpuProfileFile {
    fn parse(text: &[u8], budget: &Budget) -> Result<Self> {
        if nested::recognise(text) {
            nested::parse(text, budget)
        } else {
            json::parse(text, "cpuprofile", budget)
        }
    }

    /// Returns the length in microseconds of the unit of start and end.
    fn micros(&self) -> f64 {
        let last = self.timestamps.iter().copied().max().unwrap_or(0);
        if (last as f64) > self.end { 1e6 } else { 1.0 }
    }

    /// Returns when each sample was taken and when the last one ended, in microseconds since the start.
    fn times(&self) -> (Vec<i64>, i64) {
        let (start, end) = ((self.start * self.micros()) as i64, (self.end * self.micros()) as i64);
        let times = match self.timestamps.is_empty() {
            true => sums(&self.deltas, 0),
            false => self.timestamps.iter().map(|time| time.saturating_sub(start)).collect(),
        };
        (times, end.saturating_sub(start))
    }
}

/// Returns the times of samples, given the time between each and the previous one.
fn sums(deltas: &[i64], start: i64) -> Vec<i64> {
    let sum = |sum: &mut i64, delta: &i64| {
        *sum = sum.saturating_add(*delta);
        Some(*sum)
    };
    deltas.iter().scan(start, sum).collect()
}

/// Adds samples, each of which lasts until the next one; `times` and `end` are in microseconds. Returns how many were
/// dropped because the file does not have their nodes.
fn by_samples(
    samples: &[u64],
    times: &[i64],
    end: Option<i64>,
    tree: &Tree,
    columns: Columns,
    thread: crate::assembly::ThreadRef,
    assembly: &mut Assembly,
) -> Result<u64> {
    let last = times.iter().copied().max().unwrap_or(0);
    let at = |index: usize| times.get(index).copied().unwrap_or(last);
    // V8 does not always write them in time order.
    assembly.budget().charge(samples.len() * ORDER)?;
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|&index| at(index));
    let mut missing = 0;
    let mut rows = NodeRows::new(tree, thread.labels);
    for (place, &index) in order.iter().enumerate() {
        let time = at(index);
        let next = order.get(place + 1).map(|&next| at(next)).or(end).unwrap_or(time);
        let nanos = next.saturating_sub(time).max(0).saturating_mul(1000);
        let Some(row) = rows.row(samples[index], assembly)? else {
            missing += 1;
            continue;
        };
        assembly.add(row, columns.samples, 1);
        assembly.add(row, columns.time, nanos);
        assembly.event((time.max(0) as u64).saturating_mul(1000), row, thread.id, nanos);
    }
    Ok(missing)
}

/// Notes samples whose nodes the file does not have.
pub(crate) fn note_missing(missing: u64, notes: &mut Notes) {
    if missing > 0 {
        notes.push(format!("{missing} samples are dropped: the file does not have their nodes"));
    }
}

fn by_hits(file: &CpuProfileFile, tree: &Tree, columns: Columns, assembly: &mut Assembly) -> Result<()> {
    let mut rows = NodeRows::new(tree, LabelSetId::EMPTY);
    for node in file.nodes.iter().filter(|node| node.hits != 0) {
        if let Some(row) = rows.row(node.id, assembly)? {
            assembly.add(row, columns.samples, node.hits);
        }
    }
    Ok(())
}

/// A chunk of a profile inside a trace, as written by Chrome's developer tools.
#[derive(Deserialize, Default)]
pub(crate) struct Chunk {
    #[serde(rename = "cpuProfile", default)]
    profile: ChunkProfile,
    #[serde(rename = "timeDeltas", default)]
    deltas: Vec<i64>,
}

#[derive(Deserialize, Default)]
struct ChunkProfile {
    #[serde(default)]
    nodes: Vec<ProfileNode>,
    #[serde(default)]
    samples: Vec<u64>,
    /// Some versions write them here.
    #[serde(rename = "timeDeltas", default)]
    deltas: Vec<i64>,
}

/// A profile that comes in chunks.
#[derive(Default)]
pub(crate) struct Chunked {
    tree: Tree,
    samples: Vec<u64>,
    /// The time between each sample and the previous one, in microseconds.
    deltas: Vec<i64>,
    /// Microseconds of the trace's clock.
    pub(crate) start: i64,
}

impl Chunked {
    pub(crate) fn push(&mut self, chunk: &Chunk, assembly: &mut Assembly) {
        for node in &chunk.profile.nodes {
            self.tree.add(node, assembly);
        }
        let size = size_of_val(&*chunk.profile.samples) + size_of_val(&*chunk.deltas);
        if assembly.budget().has_room(2 * size) {
            self.samples.extend(&chunk.profile.samples);
            let inner = if chunk.deltas.is_empty() { &chunk.profile.deltas } else { &chunk.deltas };
            self.deltas.extend(inner);
        }
    }

    pub(crate) fn finish(
        &self,
        columns: Columns,
        thread: crate::assembly::ThreadRef,
        assembly: &mut Assembly,
    ) -> Result<u64> {
        assembly.budget().charge(size_of_val(&*self.deltas))?;
        let times = sums(&self.deltas, self.start);
        by_samples(&self.samples, &times, None, &self.tree, columns, thread, assembly)
    }
}

#[derive(Serialize)]
struct OutFile {
    nodes: Vec<ProfileNode>,
    #[serde(rename = "startTime")]
    start: i64,
    #[serde(rename = "endTime")]
    end: i64,
    samples: Vec<u64>,
    #[serde(rename = "timeDeltas")]
    deltas: Vec<i64>,
}

/// Writes one value as a `.cpuprofile`. Without times, samples are placed one after another.
pub(crate) fn write(profile: &Profile, Output { out, options, notes }: Output<'_>) -> Result<()> {
    let index = options.sample_index(profile)?;
    notes.dropped_values(profile, index);
    notes.dropped_places(profile, "addresses and modules");
    notes.dropped_comments(profile);
    let scale = nanos_per(value_type(profile, index).1).unwrap_or_else(|| {
        notes.push("the values are not times: each unit is written as a microsecond".into());
        1e3
    });
    let mut writer = TreeWriter::new(profile);
    match &profile.timeline {
        Some(timeline) if timeline.value_type == index => {
            notes.dropped_labels_but_threads(profile);
            if timeline.threads.len() > 1 {
                notes.push("threads become the first level of the tree".into());
            }
            for event in &timeline.events {
                let thread = &timeline.threads[event.thread.index()];
                let name = (timeline.threads.len() > 1)
                    .then(|| format!("{} {}", profile.string(thread.name), thread.tid));
                let stack = profile.sample(event.sample as usize).stack;
                writer.push(stack, name.as_deref(), event.value as f64 * scale / 1e3);
            }
        }
        _ => {
            notes.dropped_timeline(profile);
            notes.dropped_labels(profile);
            notes.push("the order of the samples is arbitrary".into());
            for sample in profile.samples().filter(|sample| sample.values[index] > 0) {
                writer.push(sample.stack, None, sample.values[index] as f64 * scale / 1e3);
            }
        }
    }
    json::write(out, &writer.finish())
}

struct TreeWriter<'a> {
    table: FrameTable<'a>,
    nodes: Vec<ProfileNode>,
    children: HashMap<(u64, u32), u64>,
    threads: HashMap<String, u64>,
    samples: Vec<u64>,
    deltas: Vec<i64>,
    /// The exact end so far, so that rounding to microseconds does not accumulate.
    end: f64,
    stack: Vec<u32>,
}

impl<'a> TreeWriter<'a> {
    fn new(profile: &'a Profile) -> Self {
        let root =
            CallFrame { name: "(root)".into(), script: "0".into(), url: String::new(), line: -1, column: -1 };
        Self {
            table: FrameTable::with_lines(profile),
            nodes: vec![ProfileNode { id: 1, frame: root, hits: 0, children: Vec::new(), parent: None }],
            children: HashMap::default(),
            threads: HashMap::default(),
            samples: Vec::new(),
            deltas: vec![0],
            end: 0.0,
            stack: Vec::new(),
        }
    }

    fn push(&mut self, stack: flamelet_profile::StackId, thread: Option<&str>, micros: f64) {
        let mut frames = std::mem::take(&mut self.stack);
        self.table.stack(stack, &mut frames);
        let mut node = thread.map_or(1, |name| self.thread(name));
        for &frame in &frames {
            node = match self.children.get(&(node, frame)) {
                Some(&child) => child,
                None => self.child(node, frame),
            };
        }
        self.stack = frames;
        self.nodes[node as usize - 1].hits += 1;
        self.samples.push(node);
        let before = self.end.round() as i64;
        self.end += micros;
        self.deltas.push(self.end.round() as i64 - before);
    }

    fn thread(&mut self, name: &str) -> u64 {
        if let Some(&node) = self.threads.get(name) {
            return node;
        }
        let frame =
            CallFrame { name: name.into(), script: "0".into(), url: String::new(), line: -1, column: -1 };
        let node = self.add(1, frame);
        self.threads.insert(name.into(), node);
        node
    }

    fn child(&mut self, parent: u64, number: u32) -> u64 {
        let frame = &self.table.frames()[number as usize];
        let frame = CallFrame {
            name: frame.name.clone(),
            script: "0".into(),
            url: frame.file.clone(),
            line: frame.line - 1,
            column: frame.column - 1,
        };
        let node = self.add(parent, frame);
        self.children.insert((parent, number), node);
        node
    }

    fn add(&mut self, parent: u64, frame: CallFrame) -> u64 {
        let id = self.nodes.len() as u64 + 1;
        self.nodes.push(ProfileNode { id, frame, hits: 0, children: Vec::new(), parent: None });
        self.nodes[parent as usize - 1].children.push(id);
        id
    }

    /// Returns the file. A delta is the time before a sample, so the last sample's own time is the rest up to the
    /// end.
    fn finish(mut self) -> OutFile {
        self.deltas.pop();
        OutFile {
            nodes: self.nodes,
            start: 0,
            end: self.end.round() as i64,
            samples: self.samples,
            deltas: self.deltas,
        }
    }
}
