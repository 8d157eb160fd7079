//! Reads the file from front to back: header, attrs, records, features.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::{Budget, Error, ErrorKind, Result};
use flamelet_unwind::perf_event::{ByteReader, EventAttr, RecordHeader, record_kind, sample_bit};

use super::blocks::{RecordBlocks, RecordPlace};
use super::features::Features;
use super::inflate::Inflate;
use super::own_records;
use super::replay::Replay;
use super::rounds::Rounds;
use super::source::RecordSource;
use super::sparse::{DumpPlace, NextRecord};
use crate::input::Input;

/// The size of the header of a file, and of a pipe's.
const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
/// The maximum size of what precedes the records, and of what follows them.
const MAX_FRONT: u64 = 64 << 20;
const MAX_FEATURES: u64 = 256 << 20;
/// What a byte of these costs: a short record becomes two texts and an entry of a table.
const PER_BYTE: usize = 12;
/// What an event costs in addition to its ids.
const ATTR: usize = size_of::<(EventAttr, Vec<u64>)>() + ALLOCATION;

/// A record, its place, and the place of its dump if that was left in the file.
type HeldRecord = (RecordHeader, RecordPlace, Option<DumpPlace>);

/// A perf.data file being read.
pub(super) struct Stream<'a> {
    source: RecordSource<'a>,
    big: bool,
    /// How many bytes of records follow; `None` means up to the end.
    records_left: Option<u64>,
    feature_bits: Vec<u64>,
    /// Where the records and the features start in the file.
    records_at: u64,
    features_at: u64,
    attrs: Vec<(EventAttr, Vec<u64>)>,
    pub(super) features: Features,
    blocks: RecordBlocks,
    rounds: Rounds,
    inflate: Option<Inflate>,
    /// Unpacked records; the last may be incomplete.
    unpacked: Vec<u8>,
    budget: Budget,
}

fn truncated(what: &str) -> Error {
    Error::new(ErrorKind::Truncated, format!("perf.data ends in the middle of {what}"))
}

fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("perf.data is damaged: {what}"))
}

impl<'a> Stream<'a> {
    /// Reads the header and the attrs.
    pub(super) fn open(input: Input<'a>, budget: &Budget) -> Result<Self> {
        let big = super::is_big_endian(input.head());
        let mut blocks = RecordBlocks::within(budget);
        let source = RecordSource::new(input, &mut blocks);
        let mut stream = Self {
            source,
            big,
            records_left: None,
            feature_bits: Vec::new(),
            records_at: 0,
            features_at: 0,
            attrs: Vec::new(),
            features: Features::default(),
            blocks,
            rounds: Rounds::within(budget),
            inflate: None,
            unpacked: Vec::new(),
            budget: budget.clone(),
        };
        let mut header = [0; PIPE_HEADER as usize];
        stream.fill(&mut header, "its header")?;
        let size = ByteReader::new(&header[8..], big).u64().unwrap_or(0);
        match size {
            PIPE_HEADER => Ok(stream),
            FILE_HEADER.. => stream.open_file().map(|()| stream),
            _ => Err(corrupt("the size of its header")),
        }
    }

    fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<()> {
        self.source.fill(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => truncated(what),
            _ => self.source.explain(&error),
        })
    }

    fn open_file(&mut self) -> Result<()> {
        let mut header = [0; (FILE_HEADER - PIPE_HEADER) as usize];
        self.fill(&mut header, "its header")?;
        let mut fields = ByteReader::new(&header, self.big);
        let mut next = || fields.u64().unwrap_or(0);
        let (attr_size, attrs_at, attrs_size) = (next(), next(), next());
        let (data_at, data_size) = (next(), next());
        let (_, _) = (next(), next());
        let bits = [next(), next(), next(), next()];
        self.feature_bits =
            (0..256u64).filter(|&bit| bits[bit as usize / 64] >> (bit % 64) & 1 == 1).collect();
        if !(FILE_HEADER..=MAX_FRONT).contains(&data_at) || attr_size < 64 + 16 {
            return Err(corrupt("where its records start"));
        }
        let _front = self.budget.lend(data_at as usize)?;
        // Everything before the records, so that offsets in it are offsets in the file.
        let mut front = vec![0; data_at as usize];
        self.fill(&mut front[FILE_HEADER as usize..], "its events")?;
        self.parse_attrs(&front, attr_size, attrs_at, attrs_size)?;
        self.records_left = (data_size > 0).then_some(data_size);
        self.records_at = data_at;
        self.features_at = data_at.saturating_add(data_size);
        Ok(())
    }

    fn parse_attrs(&mut self, front: &[u8], attr_size: u64, at: u64, size: u64) -> Result<()> {
        let bad = || corrupt("its list of events");
        let slice = |at: u64, size: u64| {
            let (start, size) = (usize::try_from(at).ok()?, usize::try_from(size).ok()?);
            front.get(start..start.checked_add(size)?)
        };
        for entry in slice(at, size).ok_or_else(bad)?.chunks_exact(attr_size as usize) {
            let (attr, ids) = entry.split_at(entry.len() - 16);
            let attr = EventAttr::parse(attr, self.big).ok_or_else(bad)?;
            let mut ids = ByteReader::new(ids, self.big);
            let (ids_at, ids_size) = (ids.u64().unwrap_or(0), ids.u64().unwrap_or(0));
            // Several events may share one list.
            let ids = slice(ids_at, ids_size).unwrap_or_default();
            self.budget.charge(ATTR + ids.len())?;
            let mut ids = ByteReader::new(ids, self.big);
            self.attrs.push((attr, std::iter::from_fn(|| ids.u64()).collect()));
        }
        if self.attrs.is_empty() { Err(bad()) } else { Ok(()) }
    }

    /// Passes every record to `replay` in time order, and reads the features.
    pub(super) fn each_record(&mut self, replay: &mut Replay<'a>) -> Result<()> {
        replay.big = self.big;
        if let [(first, _), others @ ..] = &self.attrs[..]
            && first.has(sample_bit::STACK_USER)
            && others.iter().all(|(other, _)| other.sample_layout() == first.sample_layout())
        {
            replay.file = self.source.leave_dumps(self.records_at, first.sample_layout(), &mut self.blocks);
        }
        self.attrs.drain(..).for_each(|(attr, ids)| replay.add_attr(attr, ids));
        while let Some((header, place, dump)) = self.next_record(replay)? {
            match header.kind {
                own_records::FINISHED_ROUND => {
                    // Unpacked records lag behind the others, so rounds do not apply to them.
                    if self.inflate.is_none() {
                        self.rounds.end_round(&mut self.blocks, |record, dump| replay.record(record, dump));
                    }
                }
                // The records that perf adds are rare, or compressed.
                own_records::FIRST.. => {
                    let record = self.blocks.record(place).to_vec();
                    self.record(header, &record[RecordHeader::SIZE..], replay)?;
                }
                _ => self.hold(header, place, dump, replay),
            }
        }
        if let Some(mut inflate) = self.inflate.take() {
            inflate.finish(&mut self.unpacked)?;
            self.unpacked_records(replay)?;
        }
        self.rounds.release_all(&mut self.blocks, |record, dump| replay.record(record, dump));
        if replay.attr_count() == 0 {
            return Err(truncated("its list of events"));
        }
        self.read_features(replay);
        Ok(())
    }

    fn next_record(&mut self, replay: &mut Replay<'a>) -> Result<Option<HeldRecord>> {
        if self.records_left.is_some_and(|left| left < RecordHeader::SIZE as u64) {
            return Ok(None);
        }
        self.budget.check()?;
        match self.source.record(self.big, replay.dump_part(), &mut self.blocks)? {
            NextRecord::Record(header, place, dump) => {
                let size = u64::from(header.size);
                self.records_left = self.records_left.map(|left| left.saturating_sub(size));
                return Ok(Some((header, place, dump)));
            }
            NextRecord::Senseless => return Err(corrupt("a record without a size")),
            // A recording that was killed has no end; everything before is valid.
            NextRecord::End => replay.cut |= self.records_left.is_some(),
            NextRecord::Cut => replay.cut = true,
        }
        Ok(None)
    }

    /// Takes a record that perf added.
    fn record(&mut self, header: RecordHeader, body: &[u8], replay: &mut Replay<'a>) -> Result<()> {
        let mut fields = ByteReader::new(body, self.big);
        match header.kind {
            own_records::COMPRESSED => self.compressed(body, replay)?,
            own_records::COMPRESSED2 => {
                let size = fields.u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
                let piece = fields.bytes(size).ok_or_else(|| truncated("a compressed record"))?;
                self.compressed(piece, replay)?;
            }
            own_records::HEADER_ATTR => header_attr(fields, self.big, replay)?,
            own_records::HEADER_FEATURE => {
                if let Some(number) = fields.u64().filter(|_| self.budget.has_room(body.len() * PER_BYTE)) {
                    self.features.add(number, fields.rest(), self.big);
                }
            }
            own_records::HEADER_BUILD_ID | own_records::EVENT_UPDATE => {
                self.budget.charge(body.len() * PER_BYTE)?;
                match header.kind {
                    own_records::HEADER_BUILD_ID => self.features.build_id(header, body, self.big),
                    _ => self.features.event_update(fields),
                }
            }
            own_records::HEADER_TRACING_DATA => {
                let size = fields.u32().unwrap_or(0);
                self.skip(u64::from(size).next_multiple_of(8))?;
            }
            own_records::AUXTRACE => {
                let size = fields.u64().unwrap_or(0);
                self.skip(size)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Skips data that follows a record.
    fn skip(&mut self, size: u64) -> Result<()> {
        let skipped = self.source.skip(size)?;
        self.records_left = self.records_left.map(|left| left.saturating_sub(skipped));
        Ok(())
    }

    fn compressed(&mut self, piece: &[u8], replay: &mut Replay<'a>) -> Result<()> {
        let inflate = self.inflate.get_or_insert_with(|| Inflate::new(&self.budget));
        inflate.push(piece, &mut self.unpacked)?;
        self.unpacked_records(replay)
    }

    /// Takes the records that have been unpacked completely.
    fn unpacked_records(&mut self, replay: &mut Replay<'a>) -> Result<()> {
        let unpacked = std::mem::take(&mut self.unpacked);
        let mut rest = &unpacked[..];
        while let Some(header) = RecordHeader::parse(rest, self.big) {
            let size = usize::from(header.size);
            if size < RecordHeader::SIZE {
                return Err(corrupt("a record without a size"));
            }
            let Some((record, after)) = rest.split_at_checked(size) else { break };
            if header.kind < own_records::FIRST {
                let place = self.blocks.store(record);
                self.hold(header, place, None, replay);
            }
            rest = after;
        }
        self.unpacked = rest.to_vec();
        Ok(())
    }

    /// Holds back a record of the kernel until it is due.
    fn hold(
        &mut self,
        header: RecordHeader,
        place: RecordPlace,
        dump: Option<DumpPlace>,
        replay: &mut Replay<'a>,
    ) {
        let body = &self.blocks.record(place)[RecordHeader::SIZE..];
        let time = replay.first_attr().and_then(|attr| match header.kind {
            record_kind::SAMPLE => attr.sample_layout().sample_time(ByteReader::new(body, self.big)),
            _ => attr.trailer_time(body, self.big),
        });
        self.rounds.push(time.unwrap_or(0), place, dump, &mut self.blocks);
        if self.rounds.is_full() || self.blocks.is_full() {
            self.rounds.release_half(&mut self.blocks, |record, dump| replay.record(record, dump));
        }
    }

    /// Reads the features after the records; without them only names and build ids are missing.
    fn read_features(&mut self, replay: &mut Replay<'a>) {
        if self.records_left.is_none() || self.feature_bits.is_empty() {
            return;
        }
        let most = MAX_FEATURES.min(self.budget.room() / PER_BYTE as u64);
        let (bytes, is_read) = self.source.rest(most, &self.blocks);
        self.budget.has_room(bytes.len() * PER_BYTE);
        let mut table = ByteReader::new(&bytes, self.big);
        for &number in &self.feature_bits {
            let (Some(at), Some(size)) = (table.u64(), table.u64()) else { break };
            let start = at.checked_sub(self.features_at).and_then(|start| usize::try_from(start).ok());
            let end = start.and_then(|start| start.checked_add(usize::try_from(size).ok()?));
            match start.zip(end).and_then(|(start, end)| bytes.get(start..end)) {
                Some(feature) => self.features.add(number, feature, self.big),
                None => replay.cut = true,
            }
        }
        replay.cut |= !is_read || bytes.is_empty();
    }
}

/// Takes an event from pipe mode: the attr (which contains its size), then its ids.
fn header_attr(fields: ByteReader<'_>, big: bool, replay: &mut Replay<'_>) -> Result<()> {
    let bytes = fields.rest();
    let size = bytes.get(4..).and_then(|rest| ByteReader::new(rest, big).u32()).unwrap_or(0) as usize;
    let attr = bytes.get(..size).and_then(|attr| EventAttr::parse(attr, big));
    let attr = attr.ok_or_else(|| corrupt("an event"))?;
    let mut ids = ByteReader::new(&bytes[size..], big);
    let ids: Vec<u64> = std::iter::from_fn(|| ids.u64()).collect();
    replay.add_attr(attr, ids);
    Ok(())
}
