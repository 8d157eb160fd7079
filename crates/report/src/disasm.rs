//! `disasm`: the instructions of functions, with the cost of each.

use flamelet_symbol::disassemble::{self, Style, Syntax};
use flamelet_symbol::symbolize::Symbolizer;
use regex::Regex;
use serde::Serialize;

use crate::names::base_name;
use crate::report::{Measure, Report};

/// An instruction with its cost.
#[derive(Clone, Debug, Serialize)]
pub struct ListedInstruction {
    /// Its address in the file.
    pub address: u64,
    /// Its own cost.
    pub flat: i64,
    /// Its cost, including everything it called.
    pub cum: i64,
    /// The instruction.
    pub text: String,
    /// The function and line it was compiled from, if known.
    pub source: Option<String>,
}

/// A function with the cost of each of its instructions.
#[derive(Clone, Debug, Serialize)]
pub struct ListedCode {
    /// The function.
    pub name: String,
    /// The binary.
    pub file: String,
    /// The own cost of its instructions.
    pub flat: i64,
    /// The cost of its instructions, including everything they called.
    pub cum: i64,
    /// Its instructions.
    pub instructions: Vec<ListedInstruction>,
}

/// The answer of `disasm`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Disassembly {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The functions, costliest first.
    pub functions: Vec<ListedCode>,
    /// What could not be read, one line each.
    pub warnings: Vec<String>,
}

/// Disassembles the functions that match `wanted`; `symbolizer` finds the binaries.
pub fn disasm(report: &Report, wanted: Option<&Regex>, symbolizer: &mut Symbolizer) -> Disassembly {
    let syntax = if report.options.intel_syntax { Syntax::Intel } else { Syntax::default() };
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.is_match(name));
    let (functions, warnings) =
        disassemble::annotate(&report.profile, report.value_index, is_wanted, symbolizer, Style { syntax });
    let functions = functions
        .into_iter()
        .map(|function| ListedCode {
            name: function.name,
            file: function.file.display().to_string(),
            flat: function.flat,
            cum: function.cumulative,
            instructions: function
                .instructions
                .into_iter()
                .map(|at| ListedInstruction {
                    address: at.instruction.address,
                    flat: at.flat,
                    cum: at.cumulative,
                    text: at.instruction.text,
                    source: at
                        .frames
                        .first()
                        .map(|frame| format!("{} {}:{}", frame.name, base_name(&frame.file), frame.line)),
                })
                .collect(),
        })
        .collect();
    Disassembly { measure: report.measure(), functions, warnings }
}
