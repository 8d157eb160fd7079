//! From the bodies of records to the tables of a segment and its windows.
//!
//! Nothing in a body is trusted. A row that refers to a row which is not there, because the record that had it is
//! damaged, is not there either; a window with such a row is not served.

use flamelet_profile::protobuf::{FieldValue, Fields, unzigzag};
use flamelet_profile::{Budget, Error, ErrorKind, Observations, Observed, Quality, Result};

use crate::segment::hash::ContentHash;
use crate::segment::kind::Kind;
use crate::segment::observed;
use crate::segment::record::TAG;
use crate::segment::tables::{
    LabelRow, StoredFrame, StoredModule, column_field, field, kind_field, module_field, quality_field,
    window_field,
};

/// The most rows that may be missing between two records.
const MAX_GAP: usize = 1 << 22;

/// A table whose rows are numbered; some may be missing.
#[derive(Debug)]
pub(crate) struct NumberedTable<T> {
    rows: Vec<Option<T>>,
}

impl<T> Default for NumberedTable<T> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<T> NumberedTable<T> {
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.rows.get(number as usize)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Continues at row `first`: rows before it that no record brought are missing.
    fn skip_to(&mut self, first: u64, budget: &Budget) -> Result<()> {
        let missing = usize::try_from(first).ok().and_then(|first| first.checked_sub(self.rows.len()));
        let Some(missing) = missing.filter(|&missing| missing <= MAX_GAP) else { return Err(corrupt()) };
        budget.charge(missing * size_of::<Option<T>>())?;
        self.rows.extend((0..missing).map(|_| None));
        Ok(())
    }

    fn push(&mut self, row: Option<T>, budget: &Budget) -> Result<()> {
        budget.charge(size_of::<Option<T>>())?;
        self.rows.push(row);
        Ok(())
    }
}

/// A stack: its last frame, the stack that called it, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackRow {
    pub(crate) caller: u32,
    pub(crate) frame: u32,
    pub(crate) hash: ContentHash,
}

/// The tables of a segment, as far as its records were read.
#[derive(Debug, Default)]
pub(crate) struct SegmentTables {
    strings: NumberedTable<Box<str>>,
    pub(crate) modules: NumberedTable<StoredModule>,
    pub(crate) frames: NumberedTable<(StoredFrame, ContentHash)>,
    pub(crate) nodes: NumberedTable<StackRow>,
    pub(crate) label_sets: NumberedTable<Box<[LabelRow]>>,
    /// A stack and a label set.
    pub(crate) rows: NumberedTable<(u32, u32)>,
    kinds: NumberedTable<Kind>,
}

/// A window: when it was, and the values of its rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Nanoseconds since 1970.
    pub(crate) start: i64,
    pub(crate) duration: i64,
    pub(crate) kind: u32,
    /// How many windows it is the sum of.
    pub(crate) windows: u64,
    pub(crate) rows: Vec<u32>,
    /// A column of as many values as there are rows for each value of the kind.
    pub(crate) columns: Vec<Vec<i64>>,
    /// The number of the engine's name, and the rest.
    pub(crate) quality: Option<(u32, Quality)>,
    /// What the values are based on, if the capture knew.
    pub(crate) observed: Option<Observations>,
}

impl Window {
    /// Returns a window with what the tag of its record says.
    pub(crate) fn of_tag(tag: &[u8; TAG]) -> Self {
        let number = |at: usize| tag[at..].first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let kind = tag.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Self { start: number(0), duration: number(8), kind, windows: 1, ..Self::default() }
    }

    /// Returns the tag of the record.
    pub(crate) fn tag(start: i64, duration: i64, kind: u32) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag[..8].copy_from_slice(&start.to_le_bytes());
        tag[8..16].copy_from_slice(&duration.to_le_bytes());
        tag[16..].copy_from_slice(&kind.to_le_bytes());
        tag
    }

    /// Returns the middle of the window, by which it belongs to a range.
    pub(crate) fn middle(&self) -> i64 {
        self.start.saturating_add(self.duration / 2)
    }

    pub(crate) fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }
}

/// What a record has brought.
#[derive(Debug)]
pub(crate) enum Added {
    Rows,
    Window(Window),
    /// A window that refers to rows which are missing.
    Lost,
}

/// The fields of a record of rows.
#[derive(Default)]
struct Raw<'a> {
    /// The number of the first new row of each table, by its field.
    firsts: [u64; 20],
    strings: Vec<&'a [u8]>,
    modules: Vec<&'a [u8]>,
    label_sets: Vec<&'a [u8]>,
    kinds: Vec<&'a [u8]>,
    /// The columns of numbers, by their field.
    columns: [Option<&'a [u8]>; 20],
}

impl<'a> Raw<'a> {
    fn read(body: &'a [u8], budget: &Budget) -> Result<Self> {
        let mut raw = Self::default();
        let mut fields = Fields::new(body);
        while let Some((number, value)) = fields.next()? {
            let messages = match number {
                field::STRING => &mut raw.strings,
                field::MODULE => &mut raw.modules,
                field::LABEL_SET => &mut raw.label_sets,
                field::KIND => &mut raw.kinds,
                number if (1..20).contains(&number) => {
                    match value {
                        FieldValue::Varint(first) => raw.firsts[number as usize] = first,
                        value => raw.columns[number as usize] = Some(value.bytes()?),
                    }
                    continue;
                }
                // Of a later version.
                _ => continue,
            };
            budget.work(1)?;
            messages.push(value.bytes()?);
        }
        Ok(raw)
    }

    fn column(&self, number: u32) -> Result<Vec<u64>> {
        numbers(self.columns[number as usize].unwrap_or_default())
    }

    fn first(&self, number: u32) -> u64 {
        self.firsts[number as usize]
    }
}

impl SegmentTables {
    /// Adds what a record brings.
    pub(crate) fn add(&mut self, tag: Option<&[u8; TAG]>, body: &[u8], budget: &Budget) -> Result<Added> {
        let Some(tag) = tag else { return self.add_all_rows(body, budget).map(|()| Added::Rows) };
        budget.work(body.len())?;
        let _loan = budget.lend(body.len().saturating_mul(size_of::<u64>()))?;
        let window = self.window(Window::of_tag(tag), body, budget)?;
        Ok(window.map_or(Added::Lost, Added::Window))
    }

    fn add_all_rows(&mut self, body: &[u8], budget: &Budget) -> Result<()> {
        let raw = Raw::read(body, budget)?;
        budget.work(body.len())?;
        let _loan = budget.lend(body.len().saturating_mul(size_of::<u64>()))?;
        self.add_strings(&raw, budget)?;
        self.modules.skip_to(raw.first(field::FIRST_MODULE), budget)?;
        for message in &raw.modules {
            let module = self.module(message)?;
            self.modules.push(module, budget)?;
        }
        self.add_frames(&raw, budget)?;
        self.add_nodes(&raw, budget)?;
        self.add_label_sets(&raw, budget)?;
        self.add_rows(&raw, budget)?;
        self.kinds.skip_to(raw.first(field::FIRST_KIND), budget)?;
        for message in &raw.kinds {
            let kind = self.read_kind(message)?;
            self.kinds.push(kind, budget)?;
        }
        Ok(())
    }

    pub(crate) fn string(&self, number: u32) -> Option<&str> {
        self.strings.get(number).map(|text| &**text)
    }

    /// Returns the text of a number that a row has whose strings were checked.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.string(number).unwrap_or_default()
    }

    /// Returns the labels of a set that are texts, as (name, value).
    pub(crate) fn label_texts(&self, set: u32) -> Vec<(&str, &str)> {
        let rows = self.label_sets.get(set).map(|rows| &**rows).unwrap_or_default();
        let texts = rows.iter().filter(|row| row.text != 0);
        texts.map(|row| (self.text(row.key), self.text(row.text))).collect()
    }

    pub(crate) fn kind(&self, number: u32) -> Option<&Kind> {
        self.kinds.get(number)
    }

    fn add_strings(&mut self, raw: &Raw<'_>, budget: &Budget) -> Result<()> {
        self.strings.skip_to(raw.first(field::FIRST_STRING), budget)?;
        for bytes in &raw.strings {
            budget.charge(bytes.len() + flamelet_profile::budget::ALLOCATION)?;
            self.strings.push(Some(String::from_utf8_lossy(bytes).into()), budget)?;
        }
        Ok(())
    }

    fn module(&self, message: &[u8]) -> Result<Option<StoredModule>> {
        let mut module = StoredModule::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                module_field::BUILD_ID => module.build_id = small(value.uint()?)?,
                module_field::FILE => module.file = small(value.uint()?)?,
                module_field::OFFSET => module.offset = value.uint()?,
                module_field::SIZE => module.size = value.uint()?,
                module_field::START => module.start = value.uint()?,
                _ => {}
            }
        }
        let is_possible = module.start.checked_add(module.size).is_some()
            && module.offset.checked_add(module.size).is_some()
            && [module.build_id, module.file].iter().all(|&text| self.string(text).is_some());
        Ok(is_possible.then_some(module))
    }

    fn add_frames(&mut self, raw: &Raw<'_>, budget: &Budget) -> Result<()> {
        self.frames.skip_to(raw.first(field::FIRST_FRAME), budget)?;
        let (modules, steps) = (raw.column(field::FRAME_MODULE)?, raw.column(field::FRAME_OFFSET)?);
        let (names, files) = (raw.column(field::FRAME_NAME)?, raw.column(field::FRAME_FILE)?);
        if steps.len() != modules.len() || names.len() != files.len() {
            return Err(corrupt());
        }
        let mut offset = 0u64;
        for (at, (&module, &step)) in modules.iter().zip(&steps).enumerate() {
            offset = offset.wrapping_add(unzigzag(step) as u64);
            let text = |column: &[u64]| column.get(at).map_or(Ok(0), |&number| small(number));
            let frame =
                StoredFrame { module: small(module)?, offset, name: text(&names)?, file: text(&files)? };
            let hash = self.hash_of(&frame);
            self.frames.push(hash.map(|hash| (frame, hash)), budget)?;
        }
        Ok(())
    }

    /// Returns the hash of a frame, if everything that it refers to is known.
    fn hash_of(&self, frame: &StoredFrame) -> Option<ContentHash> {
        let (name, file) = (self.string(frame.name)?, self.string(frame.file)?);
        if !name.is_empty() {
            return Some(ContentHash::of_name(name, file));
        }
        let Some(module) = frame.module.checked_sub(1) else {
            return Some(ContentHash::of_code("", frame.offset));
        };
        let module = self.modules.get(module)?;
        let is_inside = frame.offset.checked_sub(module.offset).is_some_and(|inside| inside < module.size);
        let identity = if module.build_id == 0 { module.file } else { module.build_id };
        is_inside.then(|| ContentHash::of_code(self.text(identity), frame.offset))
    }

    fn add_nodes(&mut self, raw: &Raw<'_>, budget: &Budget) -> Result<()> {
        if self.nodes.len() == 0 {
            let empty = StackRow { caller: 0, frame: 0, hash: ContentHash::EMPTY };
            self.nodes.push(Some(empty), budget)?;
        }
        self.nodes.skip_to(raw.first(field::FIRST_NODE).max(1), budget)?;
        let (backs, frames) = (raw.column(field::NODE_BACK)?, raw.column(field::NODE_FRAME)?);
        if backs.len() != frames.len() {
            return Err(corrupt());
        }
        for (&back, &frame) in backs.iter().zip(&frames) {
            let caller =
                (self.nodes.len() as u64).checked_sub(back).filter(|_| back > 0).ok_or_else(corrupt)?;
            let node = self.node(small(caller)?, small(frame)?);
            self.nodes.push(node, budget)?;
        }
        Ok(())
    }

    fn node(&self, caller: u32, frame: u32) -> Option<StackRow> {
        let (calling, (_, called)) = (self.nodes.get(caller)?, self.frames.get(frame)?);
        Some(StackRow { caller, frame, hash: calling.hash.calling(*called) })
    }

    fn add_label_sets(&mut self, raw: &Raw<'_>, budget: &Budget) -> Result<()> {
        self.label_sets.skip_to(raw.first(field::FIRST_LABEL_SET), budget)?;
        for message in &raw.label_sets {
            let mut rows = Vec::new();
            let mut fields = Fields::new(message);
            while let Some((number, value)) = fields.next()? {
                if number == 1 {
                    rows = self.labels(&numbers(value.bytes()?)?)?;
                }
            }
            budget.charge(rows.len() * size_of::<LabelRow>())?;
            let has_texts = |label: &LabelRow| {
                [label.key, label.text, label.unit].iter().all(|&text| self.string(text).is_some())
            };
            let set = rows.iter().all(has_texts).then(|| rows.into());
            self.label_sets.push(set, budget)?;
        }
        Ok(())
    }

    fn labels(&self, numbers: &[u64]) -> Result<Vec<LabelRow>> {
        let (labels, rest) = numbers.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(corrupt());
        }
        let label = |&[key, text, number, unit]: &[u64; 4]| {
            Ok(LabelRow {
                key: small(key)?,
                text: small(text)?,
                number: unzigzag(number),
                unit: small(unit)?,
            })
        };
        labels.iter().map(label).collect()
    }

    fn add_rows(&mut self, raw: &Raw<'_>, budget: &Budget) -> Result<()> {
        self.rows.skip_to(raw.first(field::FIRST_ROW), budget)?;
        let (nodes, labels) = (raw.column(field::ROW_NODE)?, raw.column(field::ROW_LABELS)?);
        if nodes.len() != labels.len() {
            return Err(corrupt());
        }
        for (&node, &labels) in nodes.iter().zip(&labels) {
            let (node, labels) = (small(node)?, small(labels)?);
            let is_there = self.nodes.get(node).is_some() && self.label_sets.get(labels).is_some();
            self.rows.push(is_there.then_some((node, labels)), budget)?;
        }
        Ok(())
    }

    fn read_kind(&self, message: &[u8]) -> Result<Option<Kind>> {
        let (mut name, mut values, mut period_type, mut period) = (0, Vec::new(), Vec::new(), 0);
        let (mut shown_first, mut drop_frames) = (0, 0);
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                kind_field::NAME => name = small(value.uint()?)?,
                kind_field::VALUES => values = numbers(value.bytes()?)?,
                kind_field::PERIOD_TYPE => period_type = numbers(value.bytes()?)?,
                kind_field::PERIOD => period = value.int()?,
                kind_field::SHOWN_FIRST => shown_first = value.uint()?,
                kind_field::DROP_FRAMES => drop_frames = value.uint()?,
                _ => {}
            }
        }
        let text = |number: u64| self.string(u32::try_from(number).ok()?).map(str::to_owned);
        let pairs = |numbers: &[u64]| {
            let (pairs, rest) = numbers.as_chunks::<2>();
            let read = pairs.iter().map(|&[kind, unit]| Some((text(kind)?, text(unit)?)));
            read.collect::<Option<Vec<_>>>().filter(|_| rest.is_empty())
        };
        let read = || {
            let period_type = pairs(&period_type)?.into_iter().next();
            Some(Kind {
                name: text(u64::from(name))?,
                values: pairs(&values)?,
                period_type,
                period,
                shown_first: text(shown_first)?,
                drop_frames: text(drop_frames)?,
            })
        };
        Ok(read())
    }

    /// Returns a window with its rows; `None` if one of them is missing.
    fn window(&self, mut window: Window, message: &[u8], budget: &Budget) -> Result<Option<Window>> {
        let (mut steps, mut columns, mut observed) = (Vec::new(), Vec::new(), None);
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                window_field::ROWS => steps = numbers(value.bytes()?)?,
                window_field::COLUMN => columns.push(value.bytes()?),
                window_field::QUALITY => window.quality = Some(quality(value.bytes()?)?),
                window_field::WINDOWS => window.windows = value.uint()?,
                window_field::OBSERVED => observed = Some(value.bytes()?),
                _ => {}
            }
        }
        let mut row = 0u64;
        for step in steps {
            row = row.saturating_add(step);
            window.rows.push(small(row)?);
        }
        let has_rows = window.rows.iter().all(|&row| self.rows.get(row).is_some());
        let Some(kind) = self.kind(window.kind).filter(|_| has_rows && window.duration >= 0) else {
            return Ok(None);
        };
        if columns.len() != kind.values.len() {
            return Err(corrupt());
        }
        // A few bytes stand for a column that is a multiple of another.
        let width = columns.len() * size_of::<i64>() + size_of::<Observed>() + size_of::<u64>();
        let _loan = budget.lend(window.rows.len().saturating_mul(width))?;
        for message in columns {
            let column = column(message, window.columns.first(), window.rows.len())?;
            window.columns.push(column);
        }
        window.observed = observed.map(|message| observed::read(message, &window.columns)).transpose()?;
        let has_engine = window.quality.is_none_or(|(engine, _)| self.string(engine).is_some());
        Ok(has_engine.then_some(window))
    }
}

/// Reads a column of `length` values.
fn column(message: &[u8], first: Option<&Vec<i64>>, length: usize) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            column_field::RATIO => {
                let (ratio, first) = (unzigzag(value.uint()?), first.ok_or_else(corrupt)?);
                values = first.iter().map(|value| value.saturating_mul(ratio)).collect();
            }
            column_field::VALUES => values = numbers(value.bytes()?)?.into_iter().map(unzigzag).collect(),
            _ => {}
        }
    }
    if values.len() == length { Ok(values) } else { Err(corrupt()) }
}

fn quality(message: &[u8]) -> Result<(u32, Quality)> {
    let (mut engine, mut quality) = (0, Quality::default());
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        let into = match number {
            quality_field::ENGINE => {
                engine = small(value.uint()?)?;
                continue;
            }
            quality_field::ASKED => &mut quality.asked_millihertz,
            quality_field::ACHIEVED => &mut quality.achieved_millihertz,
            quality_field::SAMPLES => &mut quality.samples,
            quality_field::LOST => &mut quality.lost,
            quality_field::TRUNCATED => &mut quality.truncated,
            quality_field::OWN_CPU => &mut quality.own_cpu_nanos,
            _ => continue,
        };
        *into = value.uint()?;
    }
    Ok((engine, quality))
}

/// Reads packed numbers; the caller has charged eight bytes for each byte of them.
fn numbers(packed: &[u8]) -> Result<Vec<u64>> {
    let mut numbers = Vec::with_capacity(FieldValue::Bytes(packed).count());
    FieldValue::Bytes(packed).each_uint(|number| {
        numbers.push(number);
        Ok(())
    })?;
    Ok(numbers)
}

fn small(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| corrupt())
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "a record of the history contradicts itself")
}
