//! The files of a block: their columns, which are what other engines see, and docs/fleet.md describes.

use std::sync::Arc;

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Result};

use super::columns::{self, Column, Values, cut, next, same_length};
use super::damaged::{damaged, guarded};
use super::rollup::{Rollup, RollupWriter};
use super::samples::SampleWriter;
use super::tables::{BlockFrame, BlockTables, CodeLocation};
use crate::series::Series;

/// The files of a block, in the order in which they are read.
pub(crate) const NAMES: [&str; 4] =
    ["samples.parquet", "stacks.parquet", "locations.parquet", "series.parquet"];

const STACKS: &str = "message stacks {
    required fixed_len_byte_array(16) stack;
    required group locations (LIST) { repeated group list { required fixed_len_byte_array(16) element; } }
}";

const LOCATIONS: &str = "message locations {
    required fixed_len_byte_array(16) location;
    required binary build_id (STRING);
    required binary mapping (STRING);
    required int64 offset (INTEGER(64,false));
    required group functions (LIST) { repeated group list { required binary element (STRING); } }
    required group system_names (LIST) { repeated group list { required binary element (STRING); } }
    required group files (LIST) { repeated group list { required binary element (STRING); } }
    required group lines (LIST) { repeated group list { required int64 element; } }
}";

const SERIES: &str = "message series {
    required fixed_len_byte_array(16) series;
    required binary service_name (STRING);
    required binary name (STRING);
    required binary type (STRING);
    required binary unit (STRING);
    required binary period_type (STRING);
    required binary period_unit (STRING);
    required int64 period;
    required group labels (MAP) {
        repeated group key_value { required binary key (STRING); required binary value (STRING); }
    }
}";

/// The files of a block.
pub(crate) struct Written {
    /// In the order of [`NAMES`].
    pub(crate) files: [Vec<u8>; 4],
    pub(crate) rows: [usize; 4],
    pub(crate) rollups: Vec<Rollup>,
    /// When its first and its last profile begin.
    pub(crate) span: (i64, i64),
}

pub(crate) fn write(tables: &BlockTables) -> Result<Written> {
    let mut samples = SampleWriter::new()?;
    samples.extend(&tables.samples)?;
    let mut rollups = RollupWriter::new(tables);
    tables.samples.iter().for_each(|row| rollups.push(row));
    write_with(samples, rollups.finish(), tables)
}

/// Writes the files of a block whose samples and rollups were written already.
pub(crate) fn write_with(
    samples: SampleWriter,
    rollups: Vec<Rollup>,
    tables: &BlockTables,
) -> Result<Written> {
    let (samples, rows, span) = samples.finish()?;
    let files = [
        samples,
        write_stacks(&tables.stacks)?,
        write_locations(&tables.locations)?,
        columns::write(SERIES, &series_columns(&tables.series))?,
    ];
    let rows = [rows, tables.stacks.len(), tables.locations.len(), tables.series.len()];
    Ok(Written { files, rows, rollups, span })
}

/// Reads the series of a block. The memory that they take is added to the loan.
pub(crate) fn read_series(file: Vec<u8>, budget: &Budget, loan: &mut Loan) -> Result<Vec<(u128, Series)>> {
    guarded(|| {
        let mut series = series_of(columns::read(SERIES, file, budget, loan)?.into_iter())?;
        sort(&mut series);
        Ok(series)
    })
}

pub(super) fn write_stacks(stacks: &[(u128, Vec<u128>)]) -> Result<Vec<u8>> {
    columns::write(STACKS, &stack_columns(stacks))
}

/// Writes locations. Names that are similar come together, which makes the file a quarter smaller.
pub(super) fn write_locations(locations: &[(u128, Arc<CodeLocation>)]) -> Result<Vec<u8>> {
    let mut sorted: Vec<&(u128, Arc<CodeLocation>)> = locations.iter().collect();
    fn names(location: &CodeLocation) -> (&str, &str) {
        location.frames.last().map(|frame| (&*frame.file, &*frame.function)).unwrap_or_default()
    }
    sorted.sort_by(|(one_hash, one), (other_hash, other)| {
        let by_name = names(one).cmp(&names(other)).then_with(|| one.offset.cmp(&other.offset));
        by_name.then_with(|| one_hash.cmp(other_hash))
    });
    columns::write(LOCATIONS, &location_columns(&sorted))
}

/// Reads stacks. The memory that they take is added to the loan.
pub(super) fn read_stacks(file: Vec<u8>, budget: &Budget, loan: &mut Loan) -> Result<Vec<(u128, Vec<u128>)>> {
    guarded(|| stacks_of(columns::read(STACKS, file, budget, loan)?.into_iter()))
}

/// Reads locations. The memory that they take is added to the loan.
pub(super) fn read_locations(
    file: Vec<u8>,
    budget: &Budget,
    loan: &mut Loan,
) -> Result<Vec<(u128, Arc<CodeLocation>)>> {
    guarded(|| locations_of(columns::read(LOCATIONS, file, budget, loan)?.into_iter()))
}

/// Reads all tables of a block except the samples; `files` are stacks, locations and series. The memory that they take
/// is added to the loan.
pub(crate) fn read_tables(files: [Vec<u8>; 3], budget: &Budget, loan: &mut Loan) -> Result<BlockTables> {
    let [stacks, locations, series] = files;
    let series = read_series(series, budget, loan)?;
    let (mut stacks, mut locations) =
        (read_stacks(stacks, budget, loan)?, read_locations(locations, budget, loan)?);
    sort(&mut stacks);
    sort(&mut locations);
    let tables = BlockTables { series, stacks, locations, ..BlockTables::default() };
    let is_whole = |list: &[u128]| list.iter().all(|&location| tables.location(location).is_some());
    if tables.stacks.iter().all(|(_, list)| is_whole(list)) { Ok(tables) } else { Err(misfit()) }
}

/// Tables are looked up by binary search.
fn sort<T>(table: &mut [(u128, T)]) {
    if !table.is_sorted_by_key(|(hash, _)| *hash) {
        table.sort_unstable_by_key(|(hash, _)| *hash);
    }
}

pub(super) fn misfit() -> flamelet_profile::Error {
    damaged("its tables do not fit together")
}

fn stack_columns(stacks: &[(u128, Vec<u128>)]) -> Vec<Column> {
    let items = stacks.iter().flat_map(|(_, list)| list.iter().copied()).collect();
    vec![
        Column::hashes(stacks.iter().map(|(hash, _)| *hash)),
        Column::lists(stacks.iter().map(|(_, list)| list.len()), Values::Hash(items)),
    ]
}

fn stacks_of(mut columns: impl Iterator<Item = Column>) -> Result<Vec<(u128, Vec<u128>)>> {
    let hashes = next(&mut columns)?.into_hashes()?;
    let lists = next(&mut columns)?;
    let lengths = lists.list_lengths();
    let lists = cut(&lengths, lists.into_hashes()?)?;
    same_length(&[hashes.len(), lists.len()])?;
    Ok(hashes.into_iter().zip(lists).collect())
}

fn location_columns(locations: &[&(u128, Arc<CodeLocation>)]) -> Vec<Column> {
    let frames = || locations.iter().flat_map(|(_, location)| &location.frames);
    let lists =
        |values: Values| Column::lists(locations.iter().map(|(_, location)| location.frames.len()), values);
    let texts = |text: fn(&BlockFrame) -> &String| {
        lists(Values::Text(frames().map(|frame| text(frame).clone()).collect()))
    };
    vec![
        Column::hashes(locations.iter().map(|(hash, _)| *hash)),
        Column::texts(locations.iter().map(|(_, location)| &*location.build_id)),
        Column::texts(locations.iter().map(|(_, location)| &*location.mapping)),
        Column::ints(locations.iter().map(|(_, location)| location.offset as i64)),
        texts(|frame| &frame.function),
        texts(|frame| &frame.system_name),
        texts(|frame| &frame.file),
        lists(Values::Int(frames().map(|frame| frame.line).collect())),
    ]
}

fn locations_of(mut columns: impl Iterator<Item = Column>) -> Result<Vec<(u128, Arc<CodeLocation>)>> {
    let hashes = next(&mut columns)?.into_hashes()?;
    let (build_ids, mappings) = (next(&mut columns)?.into_texts()?, next(&mut columns)?.into_texts()?);
    let offsets = next(&mut columns)?.into_ints()?;
    let functions = next(&mut columns)?;
    let lengths = functions.list_lengths();
    let (functions, system_names) = (functions.into_texts()?, next(&mut columns)?.into_texts()?);
    let (files, lines) = (next(&mut columns)?.into_texts()?, next(&mut columns)?.into_ints()?);
    same_length(&[functions.len(), system_names.len(), files.len(), lines.len()])?;
    same_length(&[hashes.len(), build_ids.len(), mappings.len(), offsets.len(), lengths.len()])?;
    let names = functions.into_iter().zip(system_names).zip(files.into_iter().zip(lines));
    let frames =
        names.map(|((function, system_name), (file, line))| BlockFrame { function, system_name, file, line });
    let frames = cut(&lengths, frames.collect())?;
    let places = build_ids.into_iter().zip(mappings).zip(offsets).zip(frames);
    let locations = places.map(|(((build_id, mapping), offset), frames)| {
        Arc::new(CodeLocation { build_id, mapping, offset: offset as u64, frames })
    });
    Ok(hashes.into_iter().zip(locations).collect())
}

fn series_columns(series: &[(u128, Series)]) -> Vec<Column> {
    let texts = |text: fn(&Series) -> &String| Column::texts(series.iter().map(|(_, one)| &**text(one)));
    let labels = |of: fn(&(String, String)) -> &String| {
        let items = series.iter().flat_map(|(_, one)| one.labels.iter().map(of)).cloned().collect();
        Column::lists(series.iter().map(|(_, one)| one.labels.len()), Values::Text(items))
    };
    vec![
        Column::hashes(series.iter().map(|(hash, _)| *hash)),
        texts(|one| &one.service),
        texts(|one| &one.name),
        texts(|one| &one.kind),
        texts(|one| &one.unit),
        texts(|one| &one.period_kind),
        texts(|one| &one.period_unit),
        Column::ints(series.iter().map(|(_, one)| one.period)),
        labels(|(name, _)| name),
        labels(|(_, value)| value),
    ]
}

fn series_of(mut columns: impl Iterator<Item = Column>) -> Result<Vec<(u128, Series)>> {
    let hashes = next(&mut columns)?.into_hashes()?;
    let mut all: Vec<(u128, Series)> = hashes.into_iter().map(|hash| (hash, Series::default())).collect();
    let fields: [fn(&mut Series) -> &mut String; 6] = [
        |one| &mut one.service,
        |one| &mut one.name,
        |one| &mut one.kind,
        |one| &mut one.unit,
        |one| &mut one.period_kind,
        |one| &mut one.period_unit,
    ];
    for field in fields {
        let texts = next(&mut columns)?.into_texts()?;
        same_length(&[all.len(), texts.len()])?;
        all.iter_mut().zip(texts).for_each(|((_, one), text)| *field(one) = text);
    }
    let periods = next(&mut columns)?.into_ints()?;
    let names = next(&mut columns)?;
    let lengths = names.list_lengths();
    let (names, values) = (names.into_texts()?, next(&mut columns)?.into_texts()?);
    same_length(&[names.len(), values.len()])?;
    same_length(&[all.len(), periods.len(), lengths.len()])?;
    let labels = cut(&lengths, names.into_iter().zip(values).collect())?;
    for (((_, one), period), labels) in all.iter_mut().zip(periods).zip(labels) {
        (one.period, one.labels) = (period, labels);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, SampleRow};
    use flamelet_profile::{ErrorKind, Limits};

    fn example() -> BlockTables {
        let frame = |function: &str| BlockFrame {
            function: function.into(),
            file: "a.rs".into(),
            line: 7,
            ..BlockFrame::default()
        };
        let location = |offset, frames| CodeLocation {
            build_id: "ab01".into(),
            mapping: "/bin/a".into(),
            offset,
            frames,
        };
        let locations = [location(16, vec![frame("inlined"), frame("main")]), location(u64::MAX, Vec::new())];
        let [first, second] = locations.map(|location| (location.hash(), Arc::new(location)));
        let labels = vec![("region".to_owned(), "eu".to_owned()), ("zone".to_owned(), "ü\"'".to_owned())];
        let series =
            Series { service: "shop".into(), name: "process_cpu".into(), labels, ..Series::default() };
        let plain = Series { labels: Vec::new(), ..series.clone() };
        let row = |series: &Series, stack, value, trace: Option<&str>| SampleRow {
            series: series.hash(),
            time: 1_794_706_806_000_001_000,
            duration: 10,
            profile: 0xfeed,
            stack,
            value,
            trace: trace.map(Into::into),
            span: None,
        };
        let mut tables = BlockTables {
            samples: vec![
                row(&series, 1, i64::MAX, Some("00ff")),
                row(&series, 2, -3, None),
                row(&plain, 3, 5, None),
            ],
            stacks: vec![(1, vec![first.0, second.0]), (2, Vec::new()), (3, vec![second.0])],
            locations: vec![first, second],
            series: [series, plain].map(|one| (one.hash(), one)).to_vec(),
            shared: Vec::new(),
        };
        sort(&mut tables.locations);
        sort(&mut tables.series);
        tables
    }

    /// Reads everything.
    fn read_back(files: [Vec<u8>; 4]) -> Result<BlockTables> {
        let budget = Budget::new(Limits::SERVICE);
        let mut block = Block::open(files, true, Vec::new(), &budget)?;
        let (mut loan, mut samples) = (budget.lend(0)?, Vec::new());
        loop {
            let rows = block.next(2, &|_, _| true, &budget, &mut loan)?;
            if rows.is_empty() {
                return Ok(BlockTables { samples, ..block.tables });
            }
            samples.extend(rows);
        }
    }

    #[test]
    fn tables_are_read_as_they_were_written() {
        let tables = example();
        assert_eq!(read_back(write(&tables).expect("written").files).expect("read"), tables);
        let empty = BlockTables::default();
        assert_eq!(read_back(write(&empty).expect("written").files).expect("read"), empty);
    }

    #[test]
    fn the_same_tables_give_the_same_bytes() {
        let files = || write(&example()).expect("written").files;
        assert_eq!(files(), files());
    }

    #[test]
    fn torn_and_changed_files_are_refused_without_a_panic() {
        let files = write(&example()).expect("written").files;
        for which in 0..files.len() {
            for at in 0..files[which].len() {
                if at % 8 == 0 {
                    let mut torn = files.clone();
                    torn[which].truncate(at);
                    assert!(read_back(torn).is_err(), "{} cut at {at}", NAMES[which]);
                }
                let mut changed = files.clone();
                changed[which][at] ^= [1, 0x80, 0xff][at % 3];
                // A changed value may be as good as the right one; the checksums of the manifest distinguish them.
                let _ = read_back(changed);
            }
        }
    }

    /// The reader recurses into the groups of a schema, and reserves room for the children that they claim to have.
    #[test]
    fn a_schema_that_is_deep_or_claims_very_many_columns_is_refused() {
        let file = |elements: &[u8], count: usize| {
            let count = [count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
            let footer = [&[0x15, 2, 0x19, 0xfc][..], &count, elements, &[0]].concat();
            [b"PAR1", &*footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
        };
        // A group called "a" with one child, and one with very many.
        let (deep, wide) = ([0x48, 1, b'a', 0x15, 2, 0], [0x48, 1, b'a', 0x15, 0xfe, 255, 255, 255, 15, 0]);
        for forged in [file(&deep.repeat(200_000), 200_000), file(&wide, 1)] {
            let mut files = write(&example()).expect("written").files;
            files[3] = forged;
            assert_eq!(read_back(files).expect_err("refused").kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn rows_that_refer_to_nothing_are_refused() {
        let mut tables = example();
        tables.stacks.remove(2);
        assert_eq!(
            read_back(write(&tables).expect("written").files).expect_err("refused").kind(),
            ErrorKind::Corrupt
        );
        let mut tables = example();
        tables.locations.remove(1);
        assert!(read_back(write(&tables).expect("written").files).is_err());
    }
}
