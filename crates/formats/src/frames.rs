//! Stacks as writers need them: one frame per function, including inlined ones, with text for every part.

use std::num::NonZero;

use flamelet_profile::{Event, Line, LocationId, Profile, StackId, StringId, Timeline};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// One frame of a written stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WrittenFrame {
    /// The function's name, or the best substitute.
    pub(crate) name: String,
    /// The source file, or empty.
    pub(crate) file: String,
    /// The line, 0 when unknown.
    pub(crate) line: i64,
    /// The column, 0 when unknown.
    pub(crate) column: i64,
    /// The module's file name, or empty.
    pub(crate) module: String,
    /// The address in the process, 0 when unknown.
    pub(crate) address: u64,
    /// How many frames inlined at the same address enclose this one.
    pub(crate) inline_depth: u32,
}

/// What identifies a frame, without its text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    name: StringId,
    file: StringId,
    module: StringId,
    line: i64,
    column: i64,
    address: u64,
    inline_depth: u32,
}

/// Numbers the frames of a profile; equal frames get one number.
pub(crate) struct FrameTable<'a> {
    profile: &'a Profile,
    with_lines: bool,
    frames: Vec<WrittenFrame>,
    index: HashMap<Key, u32, FxBuildHasher>,
    /// Where in `numbers` the frames of each location are, once they have been requested.
    by_location: Vec<Option<NumberRange>>,
    /// The locations that have been requested.
    asked: Vec<LocationId>,
    numbers: Vec<u32>,
}

#[derive(Clone, Copy)]
struct NumberRange {
    start: u32,
    count: NonZero<u32>,
}

impl<'a> FrameTable<'a> {
    /// Creates a table in which frames are distinguished by line and address.
    pub(crate) fn with_lines(profile: &'a Profile) -> Self {
        Self::new(profile, true)
    }

    /// Creates a table in which frames are distinguished by function only.
    pub(crate) fn by_function(profile: &'a Profile) -> Self {
        Self::new(profile, false)
    }

    fn new(profile: &'a Profile, with_lines: bool) -> Self {
        let by_location = vec![None; profile.locations().len()];
        Self {
            profile,
            with_lines,
            frames: Vec::new(),
            index: HashMap::default(),
            by_location,
            asked: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Forgets every frame, to start another table. Takes time only for the locations that were requested.
    pub(crate) fn restart(&mut self) {
        self.asked.drain(..).for_each(|location| self.by_location[location.index()] = None);
        self.frames.clear();
        self.index.clear();
        self.numbers.clear();
    }

    /// Returns all frames that were requested, by number.
    pub(crate) fn frames(&self) -> &[WrittenFrame] {
        &self.frames
    }

    /// Appends the frames of a stack, root first.
    pub(crate) fn stack(&mut self, stack: StackId, into: &mut Vec<u32>) {
        into.clear();
        for &location in self.profile.stack(stack).iter().rev() {
            self.location(location, into);
        }
    }

    /// Appends the frames of a location, outermost first.
    pub(crate) fn location(&mut self, location: LocationId, into: &mut Vec<u32>) {
        let span = self.by_location[location.index()].unwrap_or_else(|| self.number(location));
        into.extend(&self.numbers[span.start as usize..][..span.count.get() as usize]);
    }

    /// Numbers the frames at a location, outermost first.
    fn number(&mut self, id: LocationId) -> NumberRange {
        let profile = self.profile;
        let start = self.numbers.len();
        let lines = profile.lines(id);
        for (depth, line) in lines.iter().rev().enumerate() {
            let number = self.intern(id, Some(line), depth);
            self.numbers.push(number);
        }
        if lines.is_empty() {
            let number = self.intern(id, None, 0);
            self.numbers.push(number);
        }
        let count = NonZero::new((self.numbers.len() - start) as u32).unwrap_or(NonZero::<u32>::MIN);
        let span = NumberRange { start: start as u32, count };
        self.by_location[id.index()] = Some(span);
        self.asked.push(id);
        span
    }

    fn intern(&mut self, id: LocationId, line: Option<&Line>, depth: usize) -> u32 {
        let key = self.key(id, line, depth);
        let next = self.frames.len() as u32;
        let number = *self.index.entry(key).or_insert(next);
        if number == next {
            self.frames.push(self.frame(&key));
        }
        number
    }

    fn key(&self, id: LocationId, line: Option<&Line>, depth: usize) -> Key {
        let location = self.profile.location(id);
        let function = line.and_then(|line| line.function).map(|id| self.profile.function(id));
        let name = function.map(|f| if f.name.is_empty() { f.system_name } else { f.name });
        let name = name.unwrap_or(StringId::EMPTY);
        let file = function.map_or(StringId::EMPTY, |f| f.filename);
        let module = location.mapping.map_or(StringId::EMPTY, |at| self.profile.mapping(at).filename);
        let (line, column) = line.filter(|_| self.with_lines).map_or((0, 0), |at| (at.line, at.column));
        // A frame without a name is identified by its address.
        let address = if self.with_lines || name.is_empty() { location.address } else { 0 };
        let inline_depth = if self.with_lines { depth as u32 } else { 0 };
        Key { name, file, module, line, column, address, inline_depth }
    }

    fn frame(&self, key: &Key) -> WrittenFrame {
        let text = |id| self.profile.string(id).to_owned();
        let &Key { name, file, module, line, column, address, inline_depth } = key;
        let module = text(module);
        let name = if name.is_empty() { stand_in(&module, address) } else { text(name) };
        let address = if self.with_lines { address } else { 0 };
        WrittenFrame { name, file: text(file), line, column, module, address, inline_depth }
    }
}

/// Returns the name for a frame that has no function.
fn stand_in(module: &str, address: u64) -> String {
    let base = module.rsplit('/').next().unwrap_or(module);
    match (base.is_empty(), address) {
        (true, 0) => "[unknown]".into(),
        (true, address) => format!("0x{address:x}"),
        (false, 0) => format!("[{base}]"),
        (false, address) => format!("[{base}] 0x{address:x}"),
    }
}

/// Returns the events of each thread in time order, in the sample type at `index`.
pub(crate) fn events_by_thread(profile: &Profile, timeline: &Timeline, index: usize) -> Vec<Vec<Event>> {
    let mut threads = vec![Vec::new(); timeline.threads.len()];
    let events = profile.events_in(index).into_iter().flatten();
    events.for_each(|event| threads[event.thread.index()].push(event));
    threads
}

/// Returns the kind and unit of a sample type.
pub(crate) fn value_type(profile: &Profile, index: usize) -> (&str, &str) {
    profile
        .sample_types()
        .get(index)
        .map_or(("samples", "count"), |value| (profile.string(value.kind), profile.string(value.unit)))
}

/// Returns how many nanoseconds one `unit` is, if it is a unit of time.
pub(crate) fn nanos_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1.0,
        "microseconds" | "microsecond" | "us" | "µs" => 1e3,
        "milliseconds" | "millisecond" | "ms" => 1e6,
        "seconds" | "second" | "s" => 1e9,
        _ => return None,
    })
}
