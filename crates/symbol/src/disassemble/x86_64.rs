//! Disassembles x86-64 with iced-x86.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, IntelFormatter, OpKind};

use crate::disassemble::{Instruction, TargetNames, with_name};

/// The syntax of x86-64 instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// `mov %rsp,%rbp`, as objdump and `go tool pprof` print it.
    #[default]
    Att,
    /// `mov rbp,rsp`.
    Intel,
}

/// Decodes all of `code`. Bytes that are not an instruction become one `(bad)` each.
pub(super) fn decode(code: &[u8], address: u64, syntax: Syntax, names: &TargetNames) -> Vec<Instruction> {
    let mut formatter = formatter(syntax);
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    let mut decoded = iced_x86::Instruction::default();
    while decoder.can_decode() {
        let start = decoder.position();
        decoder.decode_out(&mut decoded);
        let at = address.wrapping_add(start as u64);
        if decoded.is_invalid() {
            // Like objdump: one byte is bad, the next may begin an instruction.
            if decoder.set_position(start + 1).is_err() {
                break;
            }
            decoder.set_ip(at.wrapping_add(1));
            instructions.push(Instruction { address: at, length: 1, text: "(bad)".to_owned(), target: None });
            continue;
        }
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        let target = target(&decoded);
        with_name(&mut text, target, names);
        instructions.push(Instruction { address: at, length: decoded.len(), text, target });
    }
    instructions
}

fn formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_rip_relative_addresses(true);
    options.set_space_after_operand_separator(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_show_branch_size(false);
    formatter
}

/// Returns the operand of a call or jump; no other instruction has an operand of these kinds.
fn target(instruction: &iced_x86::Instruction) -> Option<u64> {
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    is_near.then(|| instruction.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instructions() {
        // push %rbp; mov %rsp,%rbp; call .+5+0x10; (bad); ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0x10, 0, 0, 0, 0x06, 0xc3];
        let decoded = decode(&code, 0x1000, Syntax::Att, &TargetNames::default());
        let rows: Vec<(u64, usize, &str)> =
            decoded.iter().map(|row| (row.address, row.length, row.text.as_str())).collect();
        let expected = [
            (0x1000, 1, "push %rbp"),
            (0x1001, 3, "mov %rsp,%rbp"),
            (0x1004, 5, "call 0x1019"),
            (0x1009, 1, "(bad)"),
            (0x100a, 1, "ret"),
        ];
        assert_eq!(rows, expected);
        assert_eq!(decoded[2].target, Some(0x1019));
        assert_eq!(decode(&code, 0, Syntax::Intel, &TargetNames::default())[1].text, "mov rbp,rsp");
    }
}
