//! bpftrace's printed maps: `@[stack, keys]: count`, plain keys, and histograms.
//!
//! Stacks stay stacks, and the other keys of a map become the label `key`. Maps without stacks become stacks of their
//! keys below the map's name, and so do histogram buckets. Frames that bpftrace found no name for are addresses;
//! `flamelet run` adds what the process had mapped (`MAPPED_LIBRARIES:`), so that they can be named.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result};

use crate::addresses::{MappedModule, find, mapping, parse_module};
use crate::assembly::Assembly;
use crate::input::Input;
use crate::linked_names::readable;
use crate::number::{decimal, prefixed_hex, signed};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` looks like bpftrace's maps: a line that opens or holds one.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let mut lines = head
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
        .peekable();
    while lines.next_if(|line| line.starts_with(b"Attaching ") || line.starts_with(b"Attached ")).is_some() {}
    lines.take(50).any(|line| {
        line.starts_with(b"@")
            && (line.ends_with(b"[") || split_value(line).is_some() || line.ends_with(b":"))
    })
}

/// Reads bpftrace's maps.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = MapReader::new(input.budget());
    input.each_line(|line| {
        reader.line(line);
        Ok(())
    })?;
    reader.finish(notes)
}

/// Splits `name…]: 12` or `@x: 12` into what precedes the colon and the number.
fn split_value(line: &[u8]) -> Option<(&[u8], i64)> {
    let colon = memchr::memmem::rfind(line, b": ")?;
    Some((&line[..colon], signed(line[colon + 2..].trim_ascii())?))
}

/// A map entry whose stacks are being read.
struct MapEntry {
    map: String,
    frames: Vec<MapFrame>,
    keys: Vec<String>,
    /// The next frame is the first of a stack; the others are callers.
    is_leaf: bool,
}

impl MapEntry {
    fn new(map: &[u8], keys: Vec<String>) -> Self {
        let map = String::from_utf8_lossy(map).into_owned();
        Self { map, frames: Vec::new(), keys, is_leaf: true }
    }
}

/// A frame: a known location, or an address in a module that is not known yet.
#[derive(Clone, Copy)]
enum MapFrame {
    Known(LocationId),
    Address(u64),
}

struct MapReader {
    assembly: Assembly,
    entry: Option<MapEntry>,
    /// The map of the histogram whose buckets are being read.
    histogram: Option<String>,
    /// Samples with addresses, until all modules are known.
    held: Vec<(Vec<MapFrame>, LabelSetId, i64)>,
    modules: Vec<MappedModule>,
    in_modules: bool,
    odd_lines: u64,
}

impl MapReader {
    fn new(budget: &Budget) -> Self {
        let mut assembly = Assembly::new(false, budget);
        assembly.column("samples", "count");
        Self {
            assembly,
            entry: None,
            histogram: None,
            held: Vec::new(),
            modules: Vec::new(),
            in_modules: false,
            odd_lines: 0,
        }
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if self.entry.is_some() {
            return self.inside(line);
        }
        if line.is_empty() {
            return;
        }
        if line[0] == b'@' {
            self.in_modules = false;
            return self.start(line);
        }
        if line == b"MAPPED_LIBRARIES:" {
            self.in_modules = true;
            return;
        }
        if self.in_modules {
            return self.module(line);
        }
        match (&self.histogram, parse_bucket(line)) {
            (Some(map), Some((bucket, count))) => {
                let frames = [map.clone(), bucket];
                self.keys_sample(&frames, count);
            }
            _ => self.odd_lines += 1,
        }
    }

    fn module(&mut self, line: &[u8]) {
        let Some(module) = parse_module(line).filter(MappedModule::is_code) else { return };
        if self.assembly.budget().has_room(module.path.len() + ALLOCATION) {
            self.assembly.budget().push(&mut self.modules, module);
        }
    }

    fn start(&mut self, line: &[u8]) {
        self.histogram = None;
        if let Some((name, value)) = split_value(line) {
            return self.plain(name, value);
        }
        if let Some(map) = line.strip_suffix(b"[") {
            self.entry = Some(MapEntry::new(map, Vec::new()));
        } else if let Some(map) = line.strip_suffix(b":") {
            self.histogram = Some(String::from_utf8_lossy(map).into_owned());
        } else if let Some(bracket) = memchr::memchr(b'[', line) {
            // A key before the first stack: `@[bash,`.
            let keys = split_keys(&line[bracket + 1..]);
            self.entry = Some(MapEntry::new(&line[..bracket], keys));
        } else {
            self.odd_lines += 1;
        }
    }

    /// `@name[key, key]: 5` or `@name: 5`.
    fn plain(&mut self, name: &[u8], value: i64) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let frames = match name.iter().position(|&byte| byte == b'[').zip(name.strip_suffix(b"]")) {
            Some((bracket, inside)) => {
                let mut frames = vec![text(&name[..bracket])];
                frames.extend(split_keys(&inside[bracket + 1..]));
                frames
            }
            None => vec![text(name)],
        };
        self.keys_sample(&frames, value);
    }

    /// Adds a sample whose stack is `keys`, root first.
    fn keys_sample(&mut self, keys: &[String], value: i64) {
        let stack: Vec<_> = keys.iter().rev().map(|key| self.assembly.frame(key, "", 0)).collect();
        let row = self.assembly.row(&stack, flamelet_profile::LabelSetId::EMPTY);
        self.assembly.add(row, 0, value);
    }

    /// Takes a line inside an entry: a frame (indented), keys (after a comma), or the end with the value.
    fn inside(&mut self, line: &[u8]) {
        let Some(mut entry) = self.entry.take() else { return };
        let trimmed = line.trim_ascii();
        if let Some((keys, value)) = split_value(trimmed).filter(|(keys, _)| keys.ends_with(b"]")) {
            self.add_keys(&mut entry, &keys[..keys.len() - 1]);
            return self.sample(entry, value);
        }
        let is_indented = line.first().is_some_and(|byte| byte.is_ascii_whitespace());
        if is_indented && !trimmed.is_empty() {
            let frame = self.frame(trimmed, entry.is_leaf);
            self.assembly.budget().push(&mut entry.frames, frame);
            entry.is_leaf = false;
        } else {
            entry.is_leaf = true;
            self.add_keys(&mut entry, trimmed);
        }
        self.entry = Some(entry);
    }

    fn add_keys(&self, entry: &mut MapEntry, text: &[u8]) {
        let keys = split_keys(text);
        let size = text.len() + keys.len() * (size_of::<String>() + ALLOCATION);
        if self.assembly.budget().has_room(size) {
            entry.keys.extend(keys);
        }
    }

    /// `function+12`, `0x7f00` or `function+12 (module)`.
    fn frame(&mut self, text: &[u8], is_leaf: bool) -> MapFrame {
        let (text, module) = match text
            .strip_suffix(b")")
            .and_then(|inside| Some((inside, memchr::memmem::rfind(inside, b" (")?)))
        {
            Some((inside, paren)) => (&inside[..paren], Some(&inside[paren + 2..])),
            None => (text, None),
        };
        let module = module.map(|module| self.assembly.module(&String::from_utf8_lossy(module)));
        if let Some(address) = prefixed_hex(text) {
            // Callers are return addresses; subtracting 1 gives an address inside the call.
            let address = address.saturating_sub(u64::from(!is_leaf));
            return match module {
                Some(_) => MapFrame::Known(self.assembly.builder.address(module, address)),
                None => MapFrame::Address(address),
            };
        }
        let plus = memchr::memrchr(b'+', text).filter(|&plus| decimal(&text[plus + 1..]).is_some());
        let name = String::from_utf8_lossy(&text[..plus.unwrap_or(text.len())]);
        let name = readable(&name);
        MapFrame::Known(match module {
            Some(_) => self.assembly.builder.named_address(module, 0, &name, "", 0),
            None => self.assembly.frame(&name, "", 0),
        })
    }

    fn sample(&mut self, entry: MapEntry, value: i64) {
        let mut labels = Vec::new();
        if !entry.keys.is_empty() {
            labels.push(self.assembly.builder.text_label("key", &entry.keys.join(", ")));
        }
        if entry.map.len() > 1 {
            labels.push(self.assembly.builder.text_label("map", &entry.map));
        }
        let labels = self.assembly.builder.labels(&labels);
        if entry.frames.iter().any(|frame| matches!(frame, MapFrame::Address(_))) {
            if self.assembly.budget().has_room(ALLOCATION) {
                self.assembly.budget().push(&mut self.held, (entry.frames, labels, value));
            }
            return;
        }
        self.add(&entry.frames, labels, value);
    }

    fn add(&mut self, frames: &[MapFrame], labels: LabelSetId, value: i64) {
        let stack: Vec<LocationId> = frames
            .iter()
            .map(|frame| match *frame {
                MapFrame::Known(location) => location,
                MapFrame::Address(address) => {
                    let module = find(&self.modules, address);
                    let module = module.map(|at| mapping(&self.modules[at], &mut self.assembly));
                    self.assembly.builder.address(module, address)
                }
            })
            .collect();
        let row = self.assembly.row(&stack, labels);
        self.assembly.add(row, 0, value);
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.modules.sort_by_key(|module| module.start);
        for (frames, labels, value) in std::mem::take(&mut self.held) {
            self.assembly.check_room()?;
            self.add(&frames, labels, value);
        }
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Truncated, "the bpftrace output has no map"));
        }
        if self.entry.is_some() {
            notes.push("the last map entry is truncated".into());
        }
        if self.odd_lines > 0 {
            notes.push(format!("{} lines of the bpftrace output are not maps", self.odd_lines));
        }
        self.assembly.finish()
    }
}

/// Splits keys at commas.
fn split_keys(text: &[u8]) -> Vec<String> {
    let keys = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|key| !key.is_empty());
    keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

/// Splits `[4, 8)    2 |@@@  |` into the bucket and its count.
fn parse_bucket(line: &[u8]) -> Option<(String, i64)> {
    let end = line
        .iter()
        .position(|&byte| byte == b')' || byte == b']')
        .filter(|_| matches!(line[0], b'[' | b'('))?;
    let bar = memchr::memchr(b'|', line)?;
    let count = signed(line.get(end + 1..bar)?.trim_ascii())?;
    Some((String::from_utf8_lossy(&line[..=end]).into_owned(), count))
}
