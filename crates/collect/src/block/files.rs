//! The files of a block: their columns, which are what other engines see, and docs/fleet.md describes.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flamelet_profile::budget::Loan;
use flamelet_profile::{Result, budget};

use super::columns::{self, Column, Values, cut};
use super::damaged::damaged;
use super::tables::{Frame, Location, Row, Tables};
use crate::series::Series;

/// The files of a block, in the order in which they are read.
pub(crate) const NAMES: [&str; 4] =
    ["samples.parquet", "stacks.parquet", "locations.parquet", "series.parquet"];

/// Times are stored in microseconds, which every engine reads.
const MICROSECOND: i64 = 1000;

const SAMPLES: &str = "message samples {
    required fixed_len_byte_array(16) series;
    required int64 time (TIMESTAMP(MICROS,true));
    required int64 duration;
    required fixed_len_byte_array(16) stack;
    required int64 value;
    optional binary trace (STRING);
    optional binary span (STRING);
    required fixed_len_byte_array(16) profile;
}";

/// The column that samples of the first format do not have.
const PROFILE: &str = "    required fixed_len_byte_array(16) profile;\n";

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

/// Returns the bytes of the files, in the order of [`NAMES`].
pub(crate) fn write(tables: &Tables) -> Result<[Vec<u8>; 4]> {
    Ok([
        columns::write(SAMPLES, &sample_columns(&tables.samples))?,
        columns::write(STACKS, &stack_columns(&tables.stacks))?,
        columns::write(LOCATIONS, &location_columns(&tables.locations))?,
        columns::write(SERIES, &series_columns(&tables.series))?,
    ])
}

/// Reads the files, given in the order of [`NAMES`]; samples of the first format have no profiles. The memory that the
/// tables take is added to the loan.
pub(crate) fn read(files: [Vec<u8>; 4], has_profiles: bool, loan: &mut Loan) -> Result<Tables> {
    // The checks before it are meant to leave nothing on which the Parquet reader panics; a file that still makes it
    // panic must not end a collector.
    catch_unwind(AssertUnwindSafe(|| read_files(files, has_profiles, loan)))
        .unwrap_or_else(|_| Err(damaged("it cannot be read as Parquet")))
}

fn read_files(files: [Vec<u8>; 4], has_profiles: bool, loan: &mut Loan) -> Result<Tables> {
    let [samples, stacks, locations, series] = files;
    let mut read = |schema: &str, bytes: Vec<u8>| columns::read(schema, bytes, loan).map(Vec::into_iter);
    let tables = Tables {
        samples: match has_profiles {
            true => samples_of(read(SAMPLES, samples)?, true)?,
            false => samples_of(read(&SAMPLES.replace(PROFILE, ""), samples)?, false)?,
        },
        stacks: stacks_of(read(STACKS, stacks)?)?,
        locations: locations_of(read(LOCATIONS, locations)?)?,
        series: series_of(read(SERIES, series)?)?,
    };
    check(&tables, loan)?;
    Ok(tables)
}

/// Refuses tables whose rows refer to rows that are not there.
fn check(tables: &Tables, loan: &mut Loan) -> Result<()> {
    let entries = tables.series.len() + tables.stacks.len() + tables.locations.len();
    loan.add(entries * budget::hash_entry(16))?;
    let keys = |hashes: &mut dyn Iterator<Item = u128>| -> HashMap<u128, (), rustc_hash::FxBuildHasher> {
        hashes.map(|hash| (hash, ())).collect()
    };
    let series = keys(&mut tables.series.iter().map(|(hash, _)| *hash));
    let stacks = keys(&mut tables.stacks.iter().map(|(hash, _)| *hash));
    let locations = keys(&mut tables.locations.iter().map(|(hash, _)| *hash));
    let is_whole = tables
        .samples
        .iter()
        .all(|row| series.contains_key(&row.series) && stacks.contains_key(&row.stack))
        && tables.stacks.iter().all(|(_, list)| list.iter().all(|location| locations.contains_key(location)));
    if is_whole { Ok(()) } else { Err(damaged("its tables do not fit together")) }
}

fn sample_columns(rows: &[Row]) -> Vec<Column> {
    vec![
        Column::hashes(rows.iter().map(|row| row.series)),
        Column::ints(rows.iter().map(|row| row.time.div_euclid(MICROSECOND))),
        Column::ints(rows.iter().map(|row| row.duration)),
        Column::hashes(rows.iter().map(|row| row.stack)),
        Column::ints(rows.iter().map(|row| row.value)),
        Column::optional_texts(rows.iter().map(|row| row.trace.as_deref())),
        Column::optional_texts(rows.iter().map(|row| row.span.as_deref())),
        Column::hashes(rows.iter().map(|row| row.profile)),
    ]
}

fn samples_of(mut columns: impl Iterator<Item = Column>, has_profiles: bool) -> Result<Vec<Row>> {
    let series = next(&mut columns)?.into_hashes()?;
    let (times, durations) = (next(&mut columns)?.into_ints()?, next(&mut columns)?.into_ints()?);
    let stacks = next(&mut columns)?.into_hashes()?;
    let values = next(&mut columns)?.into_ints()?;
    let traces = next(&mut columns)?.into_optional_texts()?;
    let spans = next(&mut columns)?.into_optional_texts()?;
    let profiles = match has_profiles {
        true => next(&mut columns)?.into_hashes()?,
        false => vec![0; series.len()],
    };
    same_length(&[
        series.len(),
        times.len(),
        durations.len(),
        stacks.len(),
        values.len(),
        traces.len(),
        spans.len(),
        profiles.len(),
    ])?;
    let ids = traces.into_iter().zip(spans).zip(profiles);
    let numbers = times.into_iter().zip(durations).zip(values);
    let rows = series.into_iter().zip(stacks).zip(numbers).zip(ids).map(
        |(((series, stack), ((time, duration), value)), ((trace, span), profile))| Row {
            series,
            time: time.saturating_mul(MICROSECOND),
            duration,
            profile,
            stack,
            value,
            trace,
            span,
        },
    );
    Ok(rows.collect())
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

fn location_columns(locations: &[(u128, Location)]) -> Vec<Column> {
    let frames = || locations.iter().flat_map(|(_, location)| &location.frames);
    let lists =
        |values: Values| Column::lists(locations.iter().map(|(_, location)| location.frames.len()), values);
    let texts = |text: fn(&Frame) -> &String| {
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

fn locations_of(mut columns: impl Iterator<Item = Column>) -> Result<Vec<(u128, Location)>> {
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
        names.map(|((function, system_name), (file, line))| Frame { function, system_name, file, line });
    let frames = cut(&lengths, frames.collect())?;
    let places = build_ids.into_iter().zip(mappings).zip(offsets).zip(frames);
    let locations = places.map(|(((build_id, mapping), offset), frames)| Location {
        build_id,
        mapping,
        offset: offset as u64,
        frames,
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

fn next(columns: &mut impl Iterator<Item = Column>) -> Result<Column> {
    columns.next().ok_or_else(|| damaged("a column is missing"))
}

fn same_length(lengths: &[usize]) -> Result<()> {
    let is_same = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    if is_same { Ok(()) } else { Err(damaged("the columns of a table differ in length")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{Budget, ErrorKind, Limits};

    fn example() -> Tables {
        let frame = |function: &str| Frame {
            function: function.into(),
            file: "a.rs".into(),
            line: 7,
            ..Frame::default()
        };
        let location =
            |offset, frames| Location { build_id: "ab01".into(), mapping: "/bin/a".into(), offset, frames };
        let locations = [location(16, vec![frame("inlined"), frame("main")]), location(u64::MAX, Vec::new())];
        let [first, second] = locations.map(|location| (location.hash(), location));
        let labels = vec![("region".to_owned(), "eu".to_owned()), ("zone".to_owned(), "ü\"'".to_owned())];
        let series =
            Series { service: "shop".into(), name: "process_cpu".into(), labels, ..Series::default() };
        let plain = Series { labels: Vec::new(), ..series.clone() };
        let row = |series: &Series, stack, value, trace: Option<&str>| Row {
            series: series.hash(),
            time: 1_794_706_806_000_001_000,
            duration: 10,
            profile: 0xfeed,
            stack,
            value,
            trace: trace.map(Into::into),
            span: None,
        };
        Tables {
            samples: vec![
                row(&series, 1, i64::MAX, Some("00ff")),
                row(&series, 2, -3, None),
                row(&plain, 3, 5, None),
            ],
            stacks: vec![(1, vec![first.0, second.0]), (2, Vec::new()), (3, vec![second.0])],
            locations: vec![first, second],
            series: [series, plain].map(|one| (one.hash(), one)).to_vec(),
        }
    }

    fn read_back(files: [Vec<u8>; 4]) -> Result<Tables> {
        let budget = Budget::new(Limits::SERVICE);
        let mut loan = budget.lend(0)?;
        read(files, true, &mut loan)
    }

    #[test]
    fn tables_are_read_as_they_were_written() {
        let tables = example();
        assert_eq!(read_back(write(&tables).expect("written")).expect("read"), tables);
        let empty = Tables::default();
        assert_eq!(read_back(write(&empty).expect("written")).expect("read"), empty);
    }

    #[test]
    fn samples_of_the_first_format_are_of_no_profile() {
        let mut tables = example();
        let mut files = write(&tables).expect("written");
        let columns = sample_columns(&tables.samples);
        files[0] =
            columns::write(&SAMPLES.replace(PROFILE, ""), &columns[..columns.len() - 1]).expect("written");
        let budget = Budget::new(Limits::SERVICE);
        assert!(read_back(files.clone()).is_err(), "the manifest says which format it is");
        tables.samples.iter_mut().for_each(|row| row.profile = 0);
        assert_eq!(read(files, false, &mut budget.lend(0).expect("room")).expect("read"), tables);
    }

    #[test]
    fn the_same_tables_give_the_same_bytes() {
        assert_eq!(write(&example()).expect("written"), write(&example()).expect("written"));
    }

    #[test]
    fn torn_and_changed_files_are_refused_without_a_panic() {
        let files = write(&example()).expect("written");
        for which in 0..files.len() {
            for at in 0..files[which].len() {
                if at % 8 == 0 {
                    let mut torn = files.clone();
                    torn[which].truncate(at);
                    assert!(read_back(torn).is_err(), "{} cut at {at}", NAMES[which]);
                }
                let mut changed = files.clone();
                changed[which][at] ^= [1, 0x80, 0xff][at % 3];
                // A changed value may be as good as the right one; the checksums of the manifest tell them apart.
                let _ = read_back(changed);
            }
        }
    }

    #[test]
    fn rows_that_refer_to_nothing_are_refused() {
        let mut tables = example();
        tables.stacks.remove(2);
        assert_eq!(
            read_back(write(&tables).expect("written")).expect_err("refused").kind(),
            ErrorKind::Corrupt
        );
        let mut tables = example();
        tables.locations.remove(0);
        assert!(read_back(write(&tables).expect("written")).is_err());
    }

    #[test]
    fn a_block_is_charged_to_the_budget() {
        let mut tables = example();
        tables.samples = vec![tables.samples[0].clone(); 1_000_000];
        let files = write(&tables).expect("written");
        assert!(files[0].len() < 100_000, "{} bytes for a million equal rows", files[0].len());
        let budget = Budget::new(Limits::of_memory(16 << 20));
        let mut loan = budget.lend(0).expect("room");
        assert_eq!(read(files, true, &mut loan).expect_err("too large").kind(), ErrorKind::OutOfMemory);
    }
}
