//! The metadata of the file: event names, build ids, the command.

use flamelet_profile::hex;
use flamelet_unwind::perf_event::{ByteReader, RecordHeader};
use rustc_hash::FxHashMap as HashMap;

const BUILD_ID: u64 = 2;
const CMDLINE: u64 = 11;
const EVENT_DESC: u64 = 12;
/// A bit in `misc` of a build id: its length is given.
const MISC_HAS_SIZE: u16 = 1 << 15;

/// The features that flamelet uses.
#[derive(Debug, Default)]
pub(super) struct Features {
    /// Names of events in the order of the attrs.
    pub(super) event_names: Vec<String>,
    /// Names of events by one of their ids, which is how pipe mode identifies them.
    pub(super) names_by_id: HashMap<u64, String>,
    /// Build ids in hexadecimal by file name.
    pub(super) build_ids: HashMap<String, String>,
    pub(super) command: Vec<String>,
}

impl Features {
    /// Reads one feature; a feature that cannot be read is left out.
    pub(super) fn add(&mut self, number: u64, bytes: &[u8], big: bool) {
        let fields = ByteReader::new(bytes, big);
        match number {
            BUILD_ID => self.build_ids(bytes, big),
            CMDLINE => self.command = command(fields).unwrap_or_default(),
            EVENT_DESC => self.event_names = event_names(fields).unwrap_or_default(),
            _ => {}
        }
    }

    fn build_ids(&mut self, mut bytes: &[u8], big: bool) {
        while let Some(header) = RecordHeader::parse(bytes, big) {
            let size = usize::from(header.size);
            let Some((record, rest)) = bytes.split_at_checked(size) else { break };
            if size <= RecordHeader::SIZE {
                break;
            }
            self.build_id(header, &record[RecordHeader::SIZE..], big);
            bytes = rest;
        }
    }

    /// Takes a build id record: the process, the id in 24 bytes, the file's name.
    pub(super) fn build_id(&mut self, header: RecordHeader, body: &[u8], big: bool) {
        let mut fields = ByteReader::new(body, big);
        let (Some(_), Some(id)) = (fields.u32(), fields.bytes(24)) else { return };
        let size = if header.misc & MISC_HAS_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
        self.build_ids.insert(text(fields), hex::encode(&id[..size]));
    }

    /// Takes an event update, of which only the name matters.
    pub(super) fn event_update(&mut self, mut fields: ByteReader<'_>) {
        const NAME: u64 = 2;
        if let (Some(NAME), Some(id)) = (fields.u64(), fields.u64()) {
            self.names_by_id.insert(id, text(fields));
        }
    }
}

/// Returns the remaining text up to the first zero byte.
fn text(fields: ByteReader<'_>) -> String {
    String::from_utf8_lossy(fields.text()).into_owned()
}

/// Returns a text that is preceded by its length.
fn counted_text(fields: &mut ByteReader<'_>) -> Option<String> {
    let length = fields.u32()? as usize;
    Some(text(ByteReader::new(fields.bytes(length)?, false)))
}

fn command(mut fields: ByteReader<'_>) -> Option<Vec<String>> {
    let count = fields.u32()?;
    (0..count.min(10_000)).map(|_| counted_text(&mut fields)).collect()
}

fn event_names(mut fields: ByteReader<'_>) -> Option<Vec<String>> {
    let (count, attr_size) = (fields.u32()?, fields.u32()?);
    let mut names = Vec::new();
    for _ in 0..count {
        fields.bytes(attr_size as usize)?;
        let ids = fields.u32()?;
        names.push(counted_text(&mut fields)?);
        fields.words(u64::from(ids))?;
    }
    Some(names)
}
