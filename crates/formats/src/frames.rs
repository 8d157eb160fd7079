//! Stacks as writers need them: one frame a function, inlined ones included, with text for every part.

use flamelet_profile::{FunctionId, LocationId, Profile, StackId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// One frame of a written stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// The function's name, or the best stand-in.
    pub(crate) name: String,
    /// The source file, may be empty.
    pub(crate) file: String,
    /// The line, 0 when unknown.
    pub(crate) line: i64,
    /// The column, 0 when unknown.
    pub(crate) column: i64,
    /// The module's file name, may be empty.
    pub(crate) module: String,
    /// The address in the process, 0 when unknown.
    pub(crate) address: u64,
    /// How many frames inlined at the same address stand outside of this one.
    pub(crate) inline_depth: u32,
}

/// Numbers the frames of a profile; equal frames get one number.
pub(crate) struct FrameTable<'a> {
    profile: &'a Profile,
    with_lines: bool,
    frames: Vec<Frame>,
    index: HashMap<Frame, u32, FxBuildHasher>,
    by_location: Vec<Option<Vec<u32>>>,
}

impl<'a> FrameTable<'a> {
    /// Frames that differ by line and address.
    pub(crate) fn with_lines(profile: &'a Profile) -> Self {
        Self::new(profile, true)
    }

    /// Frames that differ by function only.
    pub(crate) fn by_function(profile: &'a Profile) -> Self {
        Self::new(profile, false)
    }

    fn new(profile: &'a Profile, with_lines: bool) -> Self {
        let by_location = vec![None; profile.locations().len()];
        Self { profile, with_lines, frames: Vec::new(), index: HashMap::default(), by_location }
    }

    /// All frames that were asked for, by number.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames of a stack, root first.
    pub(crate) fn stack(&mut self, stack: StackId, into: &mut Vec<u32>) {
        into.clear();
        for &location in self.profile.stack(stack).iter().rev() {
            if self.by_location[location.index()].is_none() {
                self.by_location[location.index()] = Some(self.number(location));
            }
            into.extend(self.by_location[location.index()].as_deref().unwrap_or_default());
        }
    }

    /// The frames at a location, outermost first.
    fn number(&mut self, id: LocationId) -> Vec<u32> {
        let location = *self.profile.location(id);
        let module = location.mapping.map_or("", |at| self.profile.string(self.profile.mapping(at).filename));
        let lines = self.profile.lines(id);
        let frame = |function: Option<FunctionId>, line: i64, column: i64, depth: usize| {
            let function = function.map(|id| self.profile.function(id));
            let text = |id| self.profile.string(id).to_owned();
            let name = function.map(|f| if f.name.is_empty() { f.system_name } else { f.name });
            let mut name = name.map(text).unwrap_or_default();
            if name.is_empty() {
                name = stand_in(module, location.address);
            }
            let file = function.map(|f| text(f.filename)).unwrap_or_default();
            Frame {
                name,
                file,
                line,
                column,
                module: module.into(),
                address: location.address,
                inline_depth: depth as u32,
            }
        };
        let mut frames: Vec<Frame> = lines
            .iter()
            .rev()
            .enumerate()
            .map(|(depth, line)| frame(line.function, line.line, line.column, depth))
            .collect();
        if frames.is_empty() {
            frames.push(frame(None, 0, 0, 0));
        }
        frames.into_iter().map(|frame| self.intern(frame)).collect()
    }

    fn intern(&mut self, mut frame: Frame) -> u32 {
        if !self.with_lines {
            frame = Frame { line: 0, column: 0, address: 0, inline_depth: 0, ..frame };
        }
        if let Some(&number) = self.index.get(&frame) {
            return number;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.index.insert(frame, number);
        number
    }
}

/// What to call a frame that has no function.
fn stand_in(module: &str, address: u64) -> String {
    let base = module.rsplit('/').next().unwrap_or(module);
    match (base.is_empty(), address) {
        (true, 0) => "[unknown]".into(),
        (true, address) => format!("0x{address:x}"),
        (false, 0) => format!("[{base}]"),
        (false, address) => format!("[{base}] 0x{address:x}"),
    }
}

/// The kind and unit of a sample type.
pub(crate) fn value_type(profile: &Profile, index: usize) -> (&str, &str) {
    profile
        .sample_types()
        .get(index)
        .map_or(("samples", "count"), |value| (profile.string(value.kind), profile.string(value.unit)))
}

/// How many nanoseconds one of `unit` is, when it is a unit of time.
pub(crate) fn nanos_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1.0,
        "microseconds" | "microsecond" | "us" | "µs" => 1e3,
        "milliseconds" | "millisecond" | "ms" => 1e6,
        "seconds" | "second" | "s" => 1e9,
        _ => return None,
    })
}
