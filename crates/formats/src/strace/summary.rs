//! The table of `strace -c`.

use flamelet_profile::{ErrorKind, LabelSetId, Profile, Result};

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::{decimal, float, to_count, words};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` contains the table's heading.
pub(crate) fn recognise(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').take(50).any(is_title)
}

fn is_title(line: &[u8]) -> bool {
    line.trim_ascii().starts_with(b"% time ") && line.trim_ascii_end().ends_with(b"syscall")
}

/// Reads the table; several tables (one per process, with `-cw`) are added up.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let mut assembly = Assembly::new(false, budget);
    for (kind, unit) in [("calls", "count"), ("errors", "count"), ("time", "nanoseconds")] {
        assembly.column(kind, unit);
    }
    let mut in_table = false;
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        if is_title(line) {
            in_table = true;
            continue;
        }
        if !in_table || line.starts_with(b"---") || line.trim_ascii().is_empty() {
            continue;
        }
        let Some((name, values)) = parse_row(line) else {
            return Err(lines.corrupt("not a row of strace's table"));
        };
        if name == b"total" {
            in_table = false;
            continue;
        }
        let call = assembly.frame(&String::from_utf8_lossy(name), "", 0);
        let row = assembly.row(&[call], LabelSetId::EMPTY);
        values.iter().enumerate().for_each(|(column, &value)| assembly.add(row, column, value));
    }
    if assembly.row_count() == 0 {
        return Err(Error::new(ErrorKind::Truncated, "strace's table has no rows"));
    }
    notes.push("a summary table: there are no stacks and no times".into());
    assembly.finish()
}

/// Parses `% time seconds usecs/call calls [errors] syscall`; the errors column is empty if there are none.
fn parse_row(line: &[u8]) -> Option<(&[u8], [i64; 3])> {
    let fields: Vec<_> = words(line).collect();
    let (calls, errors, name) = match fields[..] {
        [_, _, _, calls, name] => (calls, None, name),
        [_, _, _, calls, errors, name] => (calls, Some(errors), name),
        _ => return None,
    };
    let count = |word| decimal(word).and_then(|count| i64::try_from(count).ok());
    let errors = errors.map_or(Some(0), count)?;
    Some((name, [count(calls)?, errors, to_count(float(fields[1])? * 1e9)]))
}
