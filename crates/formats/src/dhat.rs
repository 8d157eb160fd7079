//! DHAT's JSON, version 2, from valgrind and from dhat-rs.
//!
//! In addition to Go's four values there are those at the global maximum (`peak_…`), and how much was read and
//! written. In dhat-rs' ad-hoc mode the values are `units` and `events`.

use flamelet_profile::{ErrorKind, LabelSetId, LocationId, Profile, Result};
use serde::Deserialize;

use crate::assembly::Assembly;
use crate::heap::add_go_columns;
use crate::input::Input;
use crate::{Error, FormatOptions, Notes, json, valgrind};

#[derive(Deserialize)]
struct DhatFile {
    #[serde(rename = "dhatFileVersion")]
    version: u64,
    #[serde(default)]
    mode: String,
    /// Whether block lifetimes were recorded.
    #[serde(default)]
    bklt: bool,
    #[serde(default)]
    tu: String,
    #[serde(default)]
    te: u64,
    #[serde(default)]
    cmd: String,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A program point: one stack.
#[derive(Deserialize)]
struct Point {
    #[serde(default)]
    tb: i64,
    #[serde(default)]
    tbk: i64,
    #[serde(default)]
    gb: i64,
    #[serde(default)]
    gbk: i64,
    #[serde(default)]
    eb: i64,
    #[serde(default)]
    ebk: i64,
    #[serde(default)]
    rb: Option<i64>,
    #[serde(default)]
    wb: Option<i64>,
    fs: Vec<usize>,
}

/// Returns whether a file with these keys is DHAT's.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("dhatFileVersion")
}

/// Reads DHAT's JSON.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let file: DhatFile = json::parse(&input.slurp()?, "DHAT", budget)?;
    if file.version != 2 {
        let message = format!("unsupported DHAT version {}; only version 2 can be read", file.version);
        return Err(Error::new(ErrorKind::WrongFormat, message));
    }
    let mut assembly = Assembly::new(false, budget);
    let has_access = add_columns(&file, &mut assembly);
    if !file.cmd.is_empty() {
        assembly.builder.comment(&format!("dhat: cmd {}", file.cmd));
    }
    assembly.builder.comment(&format!("dhat: mode {}, end at {} {}", file.mode, file.te, file.tu));
    let frames: Vec<LocationId> =
        file.ftbl.iter().map(|text| valgrind::location(text, &mut assembly)).collect();
    let mut stack = Vec::new();
    for point in &file.pps {
        stack.clear();
        for &frame in &point.fs {
            let location = frames.get(frame).ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("the DHAT file has no frame {frame}"))
            })?;
            stack.push(*location);
        }
        let row = assembly.row(&stack, LabelSetId::EMPTY);
        let values = if file.bklt {
            vec![point.tbk, point.tb, point.ebk, point.eb, point.gbk, point.gb]
        } else {
            vec![point.tbk, point.tb]
        };
        let access = [point.rb.unwrap_or(0), point.wb.unwrap_or(0)];
        let values = values.into_iter().chain(access.into_iter().filter(|_| has_access));
        values.enumerate().for_each(|(column, value)| assembly.add(row, column, value));
    }
    notes.push("lifetimes and access counts of DHAT are dropped".into());
    assembly.finish()
}

/// Adds the columns and returns whether there are any for reads and writes.
fn add_columns(file: &DhatFile, assembly: &mut Assembly) -> bool {
    if file.bklt {
        add_go_columns(assembly);
        assembly.column("peak_objects", "count");
        assembly.column("peak_space", "bytes");
        let peak = assembly.builder.string("peak_space");
        assembly.builder.header_mut().default_sample_type = peak;
    } else if file.mode.contains("ad-hoc") {
        assembly.column("events", "count");
        assembly.column("units", "count");
    } else {
        assembly.column("copied_objects", "count");
        assembly.column("copied_space", "bytes");
    }
    let has_access = file.pps.iter().any(|point| point.rb.is_some() || point.wb.is_some());
    if has_access {
        assembly.column("read_space", "bytes");
        assembly.column("written_space", "bytes");
    }
    has_access
}
