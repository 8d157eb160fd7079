//! Reads samples before the tables are known. They keep the file's numbers of locations and strings until the end, when
//! these are replaced by rows.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::schema;
use super::tables::{IdMap, LabelSetReader, corrupt, row_number, string_at};
use crate::budget::{Advance, hash_entry};
use crate::model::Samples;
use crate::protobuf::{FieldValue, Fields, Uints};
use crate::rows::Rows;
use crate::{Budget, Label, LabelSetId, LocationId, Profile, Result, StackId, StringId};

/// The samples read so far.
pub(super) struct SampleReader {
    advance: Advance,
    stacks: StackReader,
    labels: Vec<LabelSetId>,
    values: Vec<i64>,
    /// Their strings are the numbers of the file.
    label_sets: LabelSetReader,
    /// How many values the first sample has.
    width: usize,
}

impl SampleReader {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            advance: Advance::new(budget),
            stacks: StackReader::default(),
            labels: Vec::new(),
            values: Vec::new(),
            label_sets: LabelSetReader::new(),
            width: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Reads one sample.
    #[inline]
    pub(super) fn add(&mut self, message: &[u8]) -> Result<()> {
        self.advance.charge(size_of::<(u32, u16, StackId, LabelSetId)>())?;
        self.label_sets.raw.clear();
        let before = self.values.len();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::sample::LOCATION_ID => self.stacks.add(value, &mut self.advance)?,
                schema::sample::VALUE => {
                    self.advance.charge(value.count() * size_of::<i64>())?;
                    for value in value.uints()? {
                        self.values.push(value? as i64);
                    }
                }
                schema::sample::LABEL => {
                    self.label_sets.push(label(value.bytes()?)?, self.advance.budget())?;
                }
                _ => {}
            }
        }
        let found = self.values.len() - before;
        if self.is_empty() {
            self.width = found;
        } else if self.width != found {
            return Err(corrupt(format!("a sample has {found} values and another {}", self.width)));
        }
        self.stacks.end()?;
        self.labels.push(self.label_sets.intern(self.advance.budget())?);
        Ok(())
    }

    /// Replaces the numbers of the file by rows, and puts the samples into `profile`, which has all else.
    pub(super) fn finish(
        mut self,
        locations: &IdMap,
        strings: &[StringId],
        profile: &mut Profile,
    ) -> Result<()> {
        let width = profile.sample_types.len();
        if self.width != width && !self.is_empty() {
            return Err(corrupt(format!("a sample has {} values for {width} sample types", self.width)));
        }
        self.resolve_labels(strings, profile.strings.len())?;
        let mut stacks = self.stacks.resolved(locations)?;
        stacks.items.shrink_to_fit();
        stacks.ends.shrink_to_fit();
        stacks.shared.shrink_to_fit();
        self.labels.shrink_to_fit();
        self.values.shrink_to_fit();
        profile.samples = Samples {
            stacks: (0..stacks.len()).map(StackId::from_index).collect(),
            labels: self.labels,
            values: self.values,
        };
        profile.stacks = stacks.into();
        profile.label_sets = self.label_sets.rows;
        Ok(())
    }

    /// Replaces the numbers of strings in all labels; the table has `distinct` strings.
    fn resolve_labels(&mut self, strings: &[StringId], distinct: usize) -> Result<()> {
        let string = |number: StringId| string_at(strings, number.index() as u64);
        for Label { key, text, unit, .. } in &mut self.label_sets.rows.items {
            (*key, *text, *unit) = (string(*key)?, string(*text)?, string(*unit)?);
        }
        if distinct == strings.len() {
            return Ok(());
        }
        // A file that has a string twice may have equal sets that looked different.
        let different = std::mem::replace(&mut self.label_sets, LabelSetReader::new()).rows;
        let sets: Vec<LabelSetId> = (0..different.len())
            .map(|row| {
                self.label_sets.raw.clear();
                self.label_sets.raw.extend_from_slice(different.get(row));
                self.label_sets.intern(self.advance.budget())
            })
            .collect::<Result<_>>()?;
        self.labels.iter_mut().for_each(|set| *set = sets[set.index()]);
        Ok(())
    }
}

/// Reads a label, whose strings are the numbers of the file.
fn label(message: &[u8]) -> Result<Label> {
    let mut label = Label::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            schema::label::KEY => label.key = string_number(value)?,
            schema::label::STR => label.text = string_number(value)?,
            schema::label::NUM => label.number = value.int()?,
            schema::label::NUM_UNIT => label.unit = string_number(value)?,
            _ => {}
        }
    }
    Ok(label)
}

fn string_number(value: FieldValue<'_>) -> Result<StringId> {
    let number = value.uint()?;
    match u32::try_from(number) {
        Ok(number) => Ok(StringId::from_index(number as usize)),
        Err(_) => Err(corrupt(format!("refers to string {number}"))),
    }
}

/// The stacks read so far. An item is the file's id minus one, which is also the row in nearly all files; ids that are
/// too large for that are in a table.
#[derive(Default)]
struct StackReader {
    rows: Rows<LocationId>,
    /// The bytes of the last list of ids, which are the last items.
    last: Vec<u8>,
    /// How many items at the end of the stack that is being read are those of the stack before.
    shared: usize,
    /// The largest item so far.
    largest: usize,
    large: LargeIds,
}

/// The items from here on are rows of [`LargeIds`].
const FIRST_LARGE: usize = 1 << 31;

impl StackReader {
    /// Adds ids to the stack that is being read.
    #[inline]
    fn add(&mut self, value: FieldValue<'_>, advance: &mut Advance) -> Result<()> {
        let count = value.count();
        advance.charge(count * size_of::<LocationId>())?;
        self.rows.items.reserve(count);
        let start = self.rows.ends.last().map_or(0, |&end| end as usize);
        let end = self.rows.items.len();
        self.shared = 0;
        let FieldValue::Bytes(packed) = value else {
            self.last.clear();
            return self.push(value.uints()?, 0, advance);
        };
        // Most stacks end like the one before, because their outer frames are the same. Those need not be decoded again.
        let same = shared_numbers(packed, &self.last);
        let shared = FieldValue::Bytes(&packed[packed.len() - same..]).count();
        self.push(value.uints()?, same, advance)?;
        self.rows.items.extend_from_within(end - shared..end);
        if end == start {
            self.shared = shared;
        }
        self.last.clear();
        self.last.extend_from_slice(packed);
        Ok(())
    }

    /// Adds ids but for the last, which take `rest` bytes.
    #[inline]
    fn push(&mut self, mut ids: Uints<'_>, rest: usize, advance: &mut Advance) -> Result<()> {
        let mut largest = self.largest;
        while let Some(id) = ids.next_before(rest) {
            let id = id?;
            let item = match id.wrapping_sub(1) {
                item if item < FIRST_LARGE as u64 => item as usize,
                _ => self.large.item(id, advance)?,
            };
            largest = largest.max(item);
            self.rows.items.push(LocationId::from_index(item));
        }
        self.largest = largest;
        Ok(())
    }

    /// Ends the stack that is being read.
    fn end(&mut self) -> Result<()> {
        row_number(self.rows.items.len())?;
        if self.rows.ends.last().map_or(0, |&end| end as usize) == self.rows.items.len() {
            // The next stack shares nothing with one that has no frames.
            self.last.clear();
            self.shared = 0;
        }
        self.rows.shared.push(u16::try_from(self.shared).unwrap_or(u16::MAX));
        self.rows.finish_row();
        Ok(())
    }

    /// Returns the stacks with the rows of `locations`.
    fn resolved(mut self, locations: &IdMap) -> Result<Rows<LocationId>> {
        let are_ids = self.large.ids.is_empty() && locations.counts_to(self.largest as u64 + 1);
        if !are_ids {
            for item in &mut self.rows.items {
                *item = LocationId::from_index(locations.row(self.large.id(item.index()))?);
            }
        }
        Ok(self.rows)
    }
}

/// Ids that do not fit an item.
#[derive(Default)]
struct LargeIds {
    ids: Vec<u64>,
    rows: HashMap<u64, usize, FxBuildHasher>,
}

impl LargeIds {
    #[cold]
    fn item(&mut self, id: u64, advance: &mut Advance) -> Result<usize> {
        if let Some(&row) = self.rows.get(&id) {
            return Ok(FIRST_LARGE + row);
        }
        advance.charge(size_of::<u64>() + hash_entry(size_of::<(u64, usize)>()))?;
        let row = self.ids.len();
        row_number(FIRST_LARGE + row)?;
        self.ids.push(id);
        self.rows.insert(id, row);
        Ok(FIRST_LARGE + row)
    }

    /// Returns the id that became `item`.
    fn id(&self, item: usize) -> u64 {
        match item.checked_sub(FIRST_LARGE) {
            Some(row) => self.ids[row],
            None => item as u64 + 1,
        }
    }
}

/// Returns how many bytes at the end of two lists of numbers are the same whole numbers.
fn shared_numbers(one: &[u8], other: &[u8]) -> usize {
    let shared = shared_end(one, other);
    let is_start = |list: &[u8]| list[..list.len() - shared].last().is_none_or(|&byte| byte < 0x80);
    if is_start(one) && is_start(other) {
        return shared;
    }
    let end = &one[one.len() - shared..];
    // The first of them may belong to different numbers; after the end of a number, everything is the same.
    let first_end = end.iter().position(|&byte| byte < 0x80);
    first_end.map_or(0, |at| shared - at - 1)
}

/// Returns how many bytes at the end of two slices are the same.
fn shared_end(one: &[u8], other: &[u8]) -> usize {
    let (words, other_words) = (one.as_rchunks::<8>().1, other.as_rchunks::<8>().1);
    for (at, (word, other)) in std::iter::zip(words.iter().rev(), other_words.iter().rev()).enumerate() {
        let difference = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if difference != 0 {
            return at * 8 + difference.leading_zeros() as usize / 8;
        }
    }
    let same = words.len().min(other_words.len()) * 8;
    let rest = std::iter::zip(one.iter().rev(), other.iter().rev()).skip(same);
    same + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::protobuf::MessageWriter;

    #[test]
    fn the_same_end_of_any_length() {
        let bytes: Vec<u8> = (0..40).collect();
        for length in 0..40 {
            for same in 0..=length {
                let mut other = bytes[..length].to_vec();
                if same < length {
                    other[length - same - 1] = 99;
                }
                assert_eq!(shared_end(&bytes[..length], &other), same, "{same} of {length}");
                assert_eq!(shared_end(&bytes[length - same..length], &bytes[..length]), same);
            }
        }
    }

    #[test]
    fn only_whole_numbers_are_shared() {
        // 300 and 5; 172 and 5: the second byte of 300 is also that of 428.
        assert_eq!(shared_numbers(&[0xac, 2, 5, 6], &[0xad, 2, 5, 6]), 2);
        assert_eq!(shared_numbers(&[0x80, 0x80, 1], &[0x81, 0x80, 1]), 0);
        assert_eq!(shared_numbers(&[], &[1]), 0);
    }

    /// Reads samples at these locations, each a list of lists, packed or not.
    fn stacks(samples: &[&[&[u64]]], is_packed: bool) -> StackReader {
        let mut reader = SampleReader::new(&Budget::new(Limits::default()));
        for lists in samples {
            let mut writer = MessageWriter::default();
            for list in *lists {
                match is_packed {
                    true => writer.packed(1, list.iter().copied()),
                    false => list.iter().for_each(|&id| writer.uint_of_oneof(1, id)),
                }
            }
            reader.add(writer.as_bytes()).expect("our own message");
        }
        reader.stacks
    }

    fn ids(stacks: &StackReader) -> Vec<Vec<u64>> {
        let rows = (0..stacks.rows.len()).map(|row| stacks.rows.get(row));
        rows.map(|row| row.iter().map(|item| stacks.large.id(item.index())).collect()).collect()
    }

    #[test]
    fn stacks_that_share_their_end_are_read_as_if_they_did_not() {
        let samples: &[&[&[u64]]] = &[
            &[&[1, 300, 20_000, 5, 6]],
            &[&[2, 300, 20_000, 5, 6]],
            &[&[428, 20_000, 5, 6]],
            &[&[5, 6]],
            &[],
            &[&[7, 5, 6], &[9, 5, 6]],
            &[&[u64::MAX, 1 << 31, (1 << 31) + 1, 5, 6]],
            &[&[0, (1 << 31) + 1, 5, 6]],
            &[&[1, 300, 20_000, 5, 6]],
        ];
        let expected: Vec<Vec<u64>> = samples.iter().map(|lists| lists.concat()).collect();
        let (packed, plain) = (stacks(samples, true), stacks(samples, false));
        assert_eq!((ids(&packed), ids(&plain)), (expected.clone(), expected.clone()));
        assert_eq!(packed.rows.shared, [0, 4, 3, 2, 0, 0, 2, 3, 2]);
        let truly = |at: usize| {
            let pairs = std::iter::zip(expected[at].iter().rev(), expected[at - 1].iter().rev());
            pairs.take_while(|(one, other)| one == other).count()
        };
        for rows in [&packed.rows, &plain.rows] {
            assert!((1..rows.len()).all(|at| usize::from(rows.shared[at]) <= truly(at)), "{:?}", rows.shared);
        }
    }
}
