//! The constants that values refer to.

use flamelet_profile::budget::hash_entry;
use rustc_hash::FxHashMap as HashMap;

use super::chunk::{Bytes, ChunkHeader};
use super::metadata::{Class, Metadata};
use super::value::JavaValue;

/// The constants of a chunk, by class and number.
pub(super) struct Pools {
    values: HashMap<(i64, i64), JavaValue>,
}

impl Pools {
    /// Reads all constants, from the last event that contains some back to the first.
    pub(super) fn parse(chunk: &[u8], header: &ChunkHeader, metadata: &Metadata) -> Option<Self> {
        let mut pools = Self { values: HashMap::default() };
        let mut at = header.constants_offset;
        loop {
            metadata.budget.work(1).ok()?;
            let delta = pools.event(header.at(chunk, at)?, header.compressed, metadata)?;
            // Every step goes back, so this ends.
            if delta >= 0 {
                return Some(pools);
            }
            at = at.checked_add(delta)?;
        }
    }

    /// Reads one event of constants and returns the offset to the previous one.
    fn event(&mut self, event: &[u8], compressed: bool, metadata: &Metadata) -> Option<i64> {
        let size = usize::try_from(Bytes::new(event, compressed).size()?).ok()?;
        let mut bytes = Bytes::new(event.get(..size)?, compressed);
        bytes.size()?;
        for _ in 0..3 {
            bytes.long()?; // type, start, duration
        }
        let delta = bytes.long()?;
        bytes.byte()?; // why it was written
        let pools = bytes.int()?;
        for _ in 0..pools {
            let class = bytes.long()?;
            let count = bytes.int()?;
            for _ in 0..count {
                let key = bytes.long()?;
                metadata.budget.charge(hash_entry(size_of::<((i64, i64), JavaValue)>())).ok()?;
                let value = metadata.read_object(class, &mut bytes, 0)?;
                // Later constants were read first and take precedence.
                self.values.entry((class, key)).or_insert(value);
            }
        }
        Some(delta)
    }

    /// Returns the class and the fields of the object that a value is or refers to.
    pub(super) fn resolve<'a>(
        &'a self,
        value: &'a JavaValue,
        metadata: &'a Metadata,
    ) -> Option<(&'a Class, &'a [JavaValue])> {
        let (class, key) = value.reference()?;
        match self.values.get(&(class, key))? {
            JavaValue::Struct(fields) => Some((metadata.class(class)?, fields)),
            _ => None,
        }
    }

    /// Returns the text that a reference stands for.
    pub(super) fn text(&self, value: &JavaValue) -> Option<String> {
        match self.values.get(&value.reference()?)? {
            JavaValue::Text(text) => Some(text.to_string()),
            _ => None,
        }
    }
}
