//! Disassembles AArch64 with yaxpeax-arm. All instructions are four bytes long.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Operand};

use crate::disassemble::{Instruction, TargetNames, with_name};

/// Decodes all of `code`. Words that are not an instruction become `.word`.
pub(super) fn decode(code: &[u8], address: u64, names: &TargetNames) -> Vec<Instruction> {
    let decoder = InstDecoder::default();
    let words = code.chunks_exact(4).enumerate();
    words
        .map(|(row, word)| {
            let at = address.wrapping_add(4 * row as u64);
            let (mut text, target) = match decoder.decode(&mut U8Reader::new(word)) {
                Ok(instruction) => {
                    let offset = instruction.operands.iter().find_map(|operand| match operand {
                        Operand::PCOffset(offset) => Some(*offset),
                        _ => None,
                    });
                    (instruction.to_string(), offset.map(|offset| at.wrapping_add_signed(offset)))
                }
                Err(_) => {
                    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    (format!(".word {word:#010x}"), None)
                }
            };
            with_name(&mut text, target, names);
            Instruction { address: at, length: 4, text, target }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instructions() {
        // stp x29, x30, [sp, #-32]!; bl .+0x100; ret; an undefined word
        let words = [0xa9be_7bfdu32, 0x9400_0040, 0xd65f_03c0, 0x0000_0000];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let decoded = decode(&code, 0x1000, &TargetNames::default());
        assert!(decoded[0].text.starts_with("stp x29, x30"), "{}", decoded[0].text);
        assert_eq!((decoded[1].address, decoded[1].target), (0x1004, Some(0x1104)));
        assert!(decoded[2].text.starts_with("ret"), "{}", decoded[2].text);
        assert_eq!(decoded.len(), 4);
    }
}
