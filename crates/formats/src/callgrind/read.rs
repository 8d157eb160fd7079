//! Reads the lines of an output file into call graphs.

use std::collections::BTreeMap;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, ErrorKind, Profile, Result};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::expand::expand;
use super::graph::{CostPlace, FunctionKey, Graph, NameId};
use crate::assembly::{Assembly, ByteIndex};
use crate::input::{Input, LineResult};
use crate::number::{decimal, hex, words};
use crate::{Error, FormatOptions, Notes};

/// What a graph costs; the nodes of the map that holds it are half full.
const GRAPH: usize = 2 * size_of::<(u64, Graph)>() + ALLOCATION;
/// The most events a file may have; real files have up to 14.
const MAX_EVENTS: usize = 64;

/// Returns whether `head` looks like callgrind's output file.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let starts =
        |prefix: &[u8]| head.split(|&byte| byte == b'\n').take(60).any(|line| line.starts_with(prefix));
    let signed = head.starts_with(b"# callgrind format") || starts(b"creator: callgrind");
    signed || (starts(b"events:") && (starts(b"positions:") || starts(b"calls=")))
}

/// Reads callgrind's output file.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let mut parser = OutFileParser::new(budget);
    input.each_line(|line| parser.line(line.trim_ascii()))?;
    parser.finish(budget, notes)
}

/// Which kind of compressed name, `(1) name`, a line contains.
#[derive(Clone, Copy)]
enum NameSpace {
    Object,
    File,
    Function,
}

/// The names in a file, and what their numbers stand for.
#[derive(Default)]
struct ReadNames {
    texts: Vec<String>,
    compressed: [HashMap<u64, NameId, FxBuildHasher>; 3],
}

/// The position of a line: numbers that the next line may be relative to.
#[derive(Clone, Copy, Default)]
struct Position {
    address: u64,
    line: u64,
}

struct OutFileParser {
    budget: Budget,
    names: ReadNames,
    by_text: ByteIndex<NameId>,
    events: Vec<String>,
    has_address: bool,
    has_line: bool,
    position: Position,
    object: NameId,
    /// The file that the current function is in.
    function_file: NameId,
    /// The file that the current lines come from, which differs where code was inlined.
    file: NameId,
    function: Option<usize>,
    called_object: Option<NameId>,
    called_file: Option<NameId>,
    called_name: Option<NameId>,
    /// The next line is the cost of this many calls.
    calls: Option<u64>,
    /// The next line only says where a jump is.
    jump: bool,
    thread: u64,
    graphs: BTreeMap<u64, Graph>,
    comments: Vec<String>,
    jumps: u64,
    /// Lines of kinds that are not known.
    unknown: u64,
    /// Numbers that were never given a name.
    nameless: u64,
    costs: Vec<u64>,
}

impl OutFileParser {
    fn new(budget: &Budget) -> Self {
        let names = ReadNames { texts: vec![String::new()], ..ReadNames::default() };
        Self {
            budget: budget.clone(),
            names,
            by_text: ByteIndex::new(budget),
            events: Vec::new(),
            has_address: false,
            has_line: true,
            position: Position::default(),
            object: 0,
            function_file: 0,
            file: 0,
            function: None,
            called_object: None,
            called_file: None,
            called_name: None,
            calls: None,
            jump: false,
            thread: 0,
            graphs: BTreeMap::new(),
            comments: Vec::new(),
            jumps: 0,
            unknown: 0,
            nameless: 0,
            costs: Vec::new(),
        }
    }

    fn line(&mut self, line: &[u8]) -> LineResult {
        match line.first() {
            None | Some(b'#') => Ok(()),
            Some(b'0'..=b'9' | b'+' | b'-' | b'*') => self.cost_line(line),
            Some(b'=') => Ok(()), // valgrind's own messages, `==123== …`
            _ => self.named_line(line),
        }
    }

    fn named_line(&mut self, line: &[u8]) -> LineResult {
        let split =
            line.iter().position(|&byte| byte == b'=' || byte == b':').ok_or("neither a cost nor a name")?;
        let (key, value) = (line[..split].trim_ascii_end(), line[split + 1..].trim_ascii());
        if line[split] == b':' {
            return self.header(key, value);
        }
        match key {
            b"ob" => self.object = self.name(NameSpace::Object, value)?,
            b"fl" => {
                self.function_file = self.name(NameSpace::File, value)?;
                self.file = self.function_file;
            }
            b"fi" | b"fe" => self.file = self.name(NameSpace::File, value)?,
            b"fn" => {
                let name = self.name(NameSpace::Function, value)?;
                // A function starts in the file named last, whichever way it was named.
                self.function_file = self.file;
                let key = FunctionKey { object: self.object, file: self.file, name };
                self.function = Some(self.graph().function(key));
            }
            b"cob" => self.called_object = Some(self.name(NameSpace::Object, value)?),
            b"cfi" | b"cfl" => self.called_file = Some(self.name(NameSpace::File, value)?),
            b"cfn" => self.called_name = Some(self.name(NameSpace::Function, value)?),
            b"calls" => {
                let count = words(value).next().and_then(decimal).ok_or("calls= without a number")?;
                self.calls = Some(count);
            }
            // The file and function that a jump leads to. Their names may be defined by this line.
            b"jfi" => _ = self.name(NameSpace::File, value)?,
            b"jfn" => _ = self.name(NameSpace::Function, value)?,
            b"jump" | b"jcnd" => {
                self.jump = true;
                self.jumps += 1;
            }
            // A newer version may say more.
            _ => self.unknown += 1,
        }
        Ok(())
    }

    fn header(&mut self, key: &[u8], value: &[u8]) -> LineResult {
        let text = || String::from_utf8_lossy(value).into_owned();
        match key {
            b"events" => self.set_events(value)?,
            b"positions" => {
                self.has_address = words(value).any(|word| word == b"instr");
                self.has_line = words(value).any(|word| word == b"line");
            }
            b"thread" => self.thread = decimal(value).unwrap_or(0),
            b"part" => self.position = Position::default(),
            b"cmd" | b"creator" => {
                let comment = format!("callgrind: {} {}", String::from_utf8_lossy(key), text());
                let has_room =
                    self.budget.can_work(self.comments.len()) && self.budget.has_room(comment.len());
                if has_room && !self.comments.contains(&comment) {
                    self.budget.push(&mut self.comments, comment);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn set_events(&mut self, value: &[u8]) -> LineResult {
        let events: Vec<_> = words(value).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if events.is_empty() || events.len() > MAX_EVENTS {
            return Err("no events, or too many");
        }
        if !self.events.is_empty() && self.events != events {
            return Err("the parts of the file count different events");
        }
        self.events = events;
        Ok(())
    }

    fn graph(&mut self) -> &mut Graph {
        self.graphs.entry(self.thread).or_insert_with(|| {
            self.budget.has_room(GRAPH);
            Graph::new(&self.budget)
        })
    }

    /// Reads a plain name, `(7) name`, which gives number 7 a name, or `(7)`, which refers to it.
    fn name(&mut self, space: NameSpace, value: &[u8]) -> std::result::Result<NameId, &'static str> {
        let Some((number, rest)) = compressed(value) else { return Ok(self.text(value)) };
        if rest.is_empty() {
            let known = self.names.compressed[space as usize].get(&number).copied();
            return Ok(known.unwrap_or_else(|| self.undefined(space, number)));
        }
        let id = self.text(rest);
        if self.budget.has_room(hash_entry(size_of::<(u64, NameId)>())) {
            self.names.compressed[space as usize].insert(number, id);
        }
        Ok(id)
    }

    /// Returns a name for a number that has none: some are missing in files that were cut or joined.
    fn undefined(&mut self, space: NameSpace, number: u64) -> NameId {
        let id = self.text(format!("({number})").as_bytes());
        if self.budget.has_room(hash_entry(size_of::<(u64, NameId)>())) {
            self.names.compressed[space as usize].insert(number, id);
            self.nameless += 1;
        }
        id
    }

    fn text(&mut self, text: &[u8]) -> NameId {
        if let Some(id) = self.by_text.get(text) {
            return id;
        }
        if !self.budget.has_room(text.len() + ALLOCATION) {
            return 0;
        }
        let id = self.names.texts.len() as NameId;
        self.budget.push(&mut self.names.texts, String::from_utf8_lossy(text).into_owned());
        self.by_text.insert(text, id);
        id
    }

    /// `position… cost…`.
    fn cost_line(&mut self, line: &[u8]) -> LineResult {
        let mut words = words(line);
        if self.has_address {
            self.position.address = subposition(words.next(), self.position.address)?;
        }
        if self.has_line {
            self.position.line = subposition(words.next(), self.position.line)?;
        }
        if std::mem::take(&mut self.jump) {
            return Ok(());
        }
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        for word in words.take(self.events.len()) {
            costs.push(
                decimal(word).or_else(|| hex(word.strip_prefix(b"0x")?)).ok_or("a cost is not a number")?,
            );
        }
        costs.resize(self.events.len(), 0);
        let done = self.add(&costs);
        self.costs = costs;
        done
    }

    fn add(&mut self, costs: &[u64]) -> LineResult {
        if self.events.is_empty() {
            return Err("costs before the line `events:`");
        }
        let function = self.function.ok_or("costs before any function")?;
        let line = u32::try_from(self.position.line).unwrap_or(0);
        let place = CostPlace { file: self.file, line, address: self.position.address };
        let Some(calls) = self.calls.take() else {
            self.graph().add_own(function, place, costs);
            return Ok(());
        };
        let key = FunctionKey {
            object: self.called_object.take().unwrap_or(self.object),
            file: self.called_file.take().unwrap_or(self.file),
            name: self.called_name.take().ok_or("calls= without cfn=")?,
        };
        let graph = self.graph();
        let callee = graph.function(key);
        graph.add_calls(function, callee, calls, place, costs);
        Ok(())
    }

    fn finish(self, budget: &Budget, notes: &mut Notes) -> Result<Profile> {
        if self.events.is_empty() || self.graphs.values().all(|graph| graph.functions.is_empty()) {
            return Err(Error::new(ErrorKind::Truncated, "the callgrind file has no function"));
        }
        let mut assembly = Assembly::new(false, budget);
        for event in &self.events {
            let (kind, unit) = event_value_type(event);
            assembly.column(kind, unit);
        }
        assembly.check_room()?;
        // Costs are distinguished by their position.
        if assembly.column_count() != self.events.len() {
            return Err(Error::new(ErrorKind::Corrupt, "the callgrind file lists an event twice"));
        }
        self.comments.iter().for_each(|comment| assembly.builder.comment(comment));
        let first = assembly.builder.string(event_value_type(&self.events[0]).0);
        assembly.builder.header_mut().default_sample_type = first;
        for (&thread, graph) in &self.graphs {
            let labels = if thread == 0 {
                flamelet_profile::LabelSetId::EMPTY
            } else {
                assembly.thread(0, thread, &format!("thread {thread}"), "").labels
            };
            expand(graph, &self.names.texts, self.has_address, labels, &mut assembly);
        }
        notes.push(
            "callgrind records callers, not stacks: the cost of a function is spread over its callers".into(),
        );
        if self.jumps > 0 {
            notes.push(format!("{} jumps are dropped", self.jumps));
        }
        if self.nameless > 0 {
            notes.push(format!("{} names are never defined; their numbers are shown instead", self.nameless));
        }
        if self.unknown > 0 {
            notes.push(format!("{} lines of unknown kinds are dropped", self.unknown));
        }
        assembly.finish()
    }
}

/// Splits an event into kind and unit: `write` appends units other than counts to the name.
fn event_value_type(event: &str) -> (&str, &str) {
    const UNITS: [&str; 7] =
        ["nanoseconds", "microseconds", "milliseconds", "seconds", "bytes", "thousandths", "millionths"];
    let kind_in = |unit: &str| event.strip_suffix(unit)?.strip_suffix('_');
    match event {
        "sysTime" | "sysCpuTime" => (event, "microseconds"),
        _ => UNITS.iter().find_map(|unit| Some((kind_in(unit)?, *unit))).unwrap_or((event, "count")),
    }
}

/// Splits `(7) rest` into 7 and `rest`.
fn compressed(value: &[u8]) -> Option<(u64, &[u8])> {
    let inside = value.strip_prefix(b"(")?;
    let end = memchr::memchr(b')', inside)?;
    Some((decimal(&inside[..end])?, inside[end + 1..].trim_ascii()))
}

/// Parses a number, or one relative to the previous position: `+3`, `-3`, `*`.
fn subposition(word: Option<&[u8]>, before: u64) -> std::result::Result<u64, &'static str> {
    let number = |digits: &[u8]| decimal(digits).or_else(|| hex(digits.strip_prefix(b"0x")?));
    match word {
        None => Err("a line without its position"),
        Some(b"*") => Ok(before),
        Some([b'+', digits @ ..]) => {
            number(digits).and_then(|by| before.checked_add(by)).ok_or("a bad position")
        }
        // In unusual files the line of a call target is negative after subtraction; the position is then unknown.
        Some([b'-', digits @ ..]) => {
            number(digits).map(|by| before.saturating_sub(by)).ok_or("a bad position")
        }
        Some(digits) => number(digits).ok_or("a bad position"),
    }
}
