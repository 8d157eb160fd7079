//! The XML of `xctrace export` with the `time-profile` table of Instruments.
//!
//! Anything that occurs again is written once with an `id` and then referred to by `ref`.

mod xml;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, ErrorKind, LocationId, Profile, Result};
use rustc_hash::FxHashMap as HashMap;
use xml::{Element, Token, Tokens};

use crate::assembly::{Assembly, ThreadRef};
use crate::input::Input;
use crate::number::{decimal, prefixed_hex};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` looks like the XML of `xctrace export`.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.starts_with(b"<") && memchr::memmem::find(text, b"<trace-query-result").is_some()
}

/// Reads the table of time profiles.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let bytes = input.slurp()?;
    let mut reader = ExportReader::new(options, budget);
    let mut tokens = Tokens::new(&bytes);
    while let Some(token) = tokens.next()? {
        budget.check()?;
        match token {
            Token::Start(element) => reader.start(&element)?,
            Token::End(name) => reader.end(name),
            Token::Text(text) => reader.text(text),
        }
    }
    reader.finish(notes)
}

struct OpenElement {
    name: String,
    id: Option<u64>,
    text: String,
    /// What its text was charged.
    charged: usize,
    is_reference: bool,
}

/// The table row being read.
#[derive(Default)]
struct TableRow {
    time: Option<u64>,
    weight: Option<i64>,
    thread: Option<ThreadRef>,
    stack: Option<Vec<LocationId>>,
}

/// A frame being read: its own attributes, and what is inside it.
#[derive(Default)]
struct FrameElement {
    id: Option<u64>,
    name: String,
    address: u64,
    module: String,
    file: String,
    line: i64,
}

struct ExportReader {
    assembly: Assembly,
    open: Vec<OpenElement>,
    row: Option<TableRow>,
    frame: Option<FrameElement>,
    /// The frames of the open backtrace.
    frames: Option<(Option<u64>, Vec<LocationId>)>,
    numbers: HashMap<u64, u64>,
    texts: HashMap<u64, String>,
    threads: HashMap<u64, ThreadRef>,
    known_frames: HashMap<u64, LocationId>,
    backtraces: HashMap<u64, Vec<LocationId>>,
    /// The ids of the open thread: its own and its process's.
    thread: (u64, u64),
    without_stack: u64,
}

/// What an element that may be referred to costs.
const KNOWN: usize = hash_entry(size_of::<(u64, String)>()) + ALLOCATION;

const SAMPLES: usize = 0;
const TIME: usize = 1;

impl ExportReader {
    fn new(options: &FormatOptions, budget: &Budget) -> Self {
        let mut assembly = Assembly::new(options.timeline, budget);
        assembly.column("samples", "count");
        let time = assembly.column("cpu", "nanoseconds");
        assembly.events_count(time);
        Self {
            assembly,
            open: Vec::new(),
            row: None,
            frame: None,
            frames: None,
            numbers: HashMap::default(),
            texts: HashMap::default(),
            threads: HashMap::default(),
            known_frames: HashMap::default(),
            backtraces: HashMap::default(),
            thread: (0, 0),
            without_stack: 0,
        }
    }

    fn start(&mut self, element: &Element<'_>) -> Result<()> {
        if let Some(reference) = element.attribute("ref").and_then(|at| decimal(at.as_bytes())) {
            self.reference(element.name, reference)?;
        } else {
            match element.name {
                "row" => self.row = Some(TableRow::default()),
                "thread" => self.thread = (0, 0),
                "backtrace" => self.frames = Some((id(element), Vec::new())),
                "frame" => {
                    self.frame = Some(FrameElement {
                        id: id(element),
                        name: element.attribute("name").unwrap_or_default(),
                        address: element
                            .attribute("addr")
                            .and_then(|at| prefixed_hex(at.as_bytes()))
                            .unwrap_or(0),
                        ..FrameElement::default()
                    });
                }
                "binary" => {
                    let path =
                        element.attribute("path").or_else(|| element.attribute("name")).unwrap_or_default();
                    self.keep_text(id(element), &path);
                    self.module(path);
                }
                "source" => {
                    let line = element.attribute("line").and_then(|line| line.parse().ok()).unwrap_or(0);
                    if let Some(frame) = &mut self.frame {
                        frame.line = line;
                    }
                }
                _ => {}
            }
        }
        if self.open.len() > 256 {
            return Err(Error::new(ErrorKind::Corrupt, "the XML is nested too deeply"));
        }
        let name = element.attribute("fmt").filter(|_| element.name == "thread").unwrap_or_default();
        let is_reference = element.attribute("ref").is_some();
        self.open.push(OpenElement {
            name: element.name.into(),
            id: id(element),
            text: name,
            charged: 0,
            is_reference,
        });
        Ok(())
    }

    /// Takes an element that refers to an earlier one.
    fn reference(&mut self, name: &str, at: u64) -> Result<()> {
        let missing = || {
            Error::new(ErrorKind::Corrupt, format!("the XML refers to `{name}` {at}, which does not exist"))
        };
        match name {
            "frame" => {
                let location = *self.known_frames.get(&at).ok_or_else(missing)?;
                self.push_frame(location);
            }
            "backtrace" => {
                let stack = self.backtraces.get(&at).ok_or_else(missing)?;
                self.assembly.budget().work(stack.len())?;
                self.set_stack(stack.clone());
            }
            "binary" => {
                let module = self.texts.get(&at).ok_or_else(missing)?;
                self.assembly.budget().can_look_through(module.len());
                self.module(module.clone());
            }
            "path" => {
                let path = self.texts.get(&at).cloned().unwrap_or_default();
                if let Some(frame) = &mut self.frame {
                    frame.file = path;
                }
            }
            "thread" => {
                let thread = *self.threads.get(&at).ok_or_else(missing)?;
                self.row.iter_mut().for_each(|row| row.thread = Some(thread));
            }
            "sample-time" | "start-time" | "weight" | "tid" | "pid" => {
                let number = *self.numbers.get(&at).ok_or_else(missing)?;
                self.number(name, number);
            }
            _ => {}
        }
        Ok(())
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.assembly.budget().has_room(bytes)
    }

    fn keep_text(&mut self, id: Option<u64>, text: &str) {
        if let Some(id) = id.filter(|_| self.has_room(KNOWN + text.len())) {
            self.texts.insert(id, text.into());
        }
    }

    fn text(&mut self, text: &str) {
        let budget = self.assembly.budget();
        if let Some(open) =
            self.open.last_mut().filter(|open| open.name != "thread" && budget.has_room(text.len()))
        {
            open.text.push_str(text);
            open.charged += text.len();
        }
    }

    fn end(&mut self, name: &str) {
        let open = self.open.pop();
        self.assembly.budget().refund(open.as_ref().map_or(0, |open| open.charged));
        let Some(open) = open.filter(|open| !open.is_reference) else { return };
        match name {
            "row" => self.end_row(),
            "frame" => self.end_frame(),
            "backtrace" => {
                if let Some((id, stack)) = self.frames.take() {
                    if let Some(id) = id.filter(|_| self.has_room(KNOWN + size_of_val(&*stack))) {
                        self.backtraces.insert(id, stack.clone());
                    }
                    self.set_stack(stack);
                }
            }
            "thread" => self.end_thread(&open),
            "path" => {
                self.keep_text(open.id, &open.text);
                if let Some(frame) = self.frame.as_mut().filter(|_| !open.text.is_empty()) {
                    frame.file = open.text;
                }
            }
            _ => {
                if let Some(number) = decimal(open.text.trim().as_bytes()) {
                    open.id.filter(|_| self.has_room(KNOWN)).map(|id| self.numbers.insert(id, number));
                    self.number(name, number);
                }
            }
        }
    }

    fn number(&mut self, name: &str, number: u64) {
        match (name, &mut self.row) {
            ("tid", _) => self.thread.0 = number,
            ("pid", _) => self.thread.1 = number,
            ("sample-time" | "start-time", Some(row)) => row.time = Some(number),
            ("weight", Some(row)) => row.weight = Some(i64::try_from(number).unwrap_or(i64::MAX)),
            _ => {}
        }
    }

    fn module(&mut self, path: String) {
        if let Some(frame) = &mut self.frame {
            frame.module = path;
        }
    }

    fn end_frame(&mut self) {
        let Some(frame) = self.frame.take() else { return };
        let module = (!frame.module.is_empty()).then(|| self.assembly.module(&frame.module));
        let is_named = !frame.name.is_empty() && !frame.name.starts_with("0x");
        let location = if is_named {
            self.assembly.builder.named_address(module, frame.address, &frame.name, &frame.file, frame.line)
        } else {
            self.assembly.builder.address(module, frame.address)
        };
        frame.id.filter(|_| self.has_room(KNOWN)).map(|id| self.known_frames.insert(id, location));
        self.push_frame(location);
    }

    fn push_frame(&mut self, location: LocationId) {
        if let Some((_, frames)) = &mut self.frames {
            frames.push(location);
        }
    }

    fn set_stack(&mut self, stack: Vec<LocationId>) {
        if let Some(row) = &mut self.row {
            row.stack = Some(stack);
        }
    }

    fn end_thread(&mut self, open: &OpenElement) {
        let (tid, pid) = self.thread;
        let thread = self.assembly.thread(pid, tid, &open.text, "");
        open.id.filter(|_| self.has_room(KNOWN)).map(|id| self.threads.insert(id, thread));
        self.row.iter_mut().for_each(|row| row.thread = Some(thread));
    }

    fn end_row(&mut self) {
        let Some(row) = self.row.take() else { return };
        let (Some(stack), Some(weight)) = (row.stack, row.weight) else {
            self.without_stack += 1;
            return;
        };
        let thread = row.thread.unwrap_or_else(|| self.assembly.thread(0, 0, "", ""));
        let sample = self.assembly.row(&stack, thread.labels);
        self.assembly.add(sample, SAMPLES, 1);
        self.assembly.add(sample, TIME, weight);
        if let Some(time) = row.time {
            self.assembly.event(time, sample, thread.id, weight);
        }
    }

    fn finish(self, notes: &mut Notes) -> Result<Profile> {
        if self.assembly.row_count() == 0 {
            let message = "the XML has no samples; export the table with --xpath '/trace-toc/run/data/table[@schema=\"time-profile\"]'";
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        if self.without_stack > 0 {
            notes.push(format!("{} rows without a stack or a weight are dropped", self.without_stack));
        }
        self.assembly.finish()
    }
}

fn id(element: &Element<'_>) -> Option<u64> {
    element.attribute("id").and_then(|id| decimal(id.as_bytes()))
}
