//! `flamelet list`: annotated source.

use std::collections::BTreeSet;
use std::io::Write;

use flamelet_profile::filter;
use flamelet_report::{Report, list};

use super::{Ask, write_json};
use crate::error::{Failure, Result};

pub(super) fn write(report: &Report, expression: &str, ask: &Ask<'_>, mut out: &mut dyn Write) -> Result<()> {
    let wanted = filter::regex("the expression", expression)?;
    let answer = match ask.symbols.only_below {
        None => list::list(report, wanted.as_ref()),
        // Binaries are not asked either which files are sources.
        Some(_) => list::list_confined(report, wanted.as_ref(), BTreeSet::new()),
    };
    if answer.functions.is_empty() {
        return Err(Failure::new(format!("no sampled function matches '{expression}'")));
    }
    if ask.json {
        return write_json(&answer, out);
    }
    Ok(answer.write_text(report, &mut out)?)
}
