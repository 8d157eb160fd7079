//! `flamelet disasm`: annotated instructions.

use std::io::Write;

use flamelet_profile::filter;
use flamelet_report::{Report, disasm};
use flamelet_symbol::symbolize::Symbolizer;

use super::write_json;
use crate::error::{Failure, Result};
use crate::profiles::SymbolOptions;

pub(super) fn write(
    report: &Report,
    expression: &str,
    symbols: &SymbolOptions,
    json: bool,
    mut out: &mut dyn Write,
) -> Result<()> {
    let wanted = filter::regex("the expression", expression)?;
    let mut symbolizer = Symbolizer::new(symbols.symbolizer_options());
    let answer = disasm::disasm(report, wanted.as_ref(), &mut symbolizer);
    answer.warnings.iter().for_each(|warning| note!("{warning}"));
    if answer.functions.is_empty() {
        return Err(Failure::new(format!(
            "no sampled code matches '{expression}'; if the binary is elsewhere, give it with --binary FILE"
        )));
    }
    if json {
        return write_json(&answer, out);
    }
    Ok(answer.write_text(report, &mut out)?)
}
