//! `flamelet list`: annotated source.

use std::io::Write;

use flamelet_profile::filter;
use flamelet_report::{Report, list};

use super::write_json;
use crate::error::{Failure, Result};

pub(super) fn write(report: &Report, expression: &str, json: bool, mut out: &mut dyn Write) -> Result<()> {
    let wanted = filter::regex("the expression", expression)?;
    let answer = list::list(report, wanted.as_ref());
    if answer.functions.is_empty() {
        return Err(Failure::new(format!("no sampled function matches '{expression}'")));
    }
    if json {
        return write_json(&answer, out);
    }
    Ok(answer.write_text(report, &mut out)?)
}
