//! Tables for code that programs generate without unwind information, by its instructions.
//!
//! Python with `-X perf` calls each function through its own copy of a few instructions, so that profilers see a frame
//! with that function's name. The copies keep no frame pointer, but they are always the same.

use crate::Architecture;
use crate::rule::{Base, Rule};
use crate::table::{Table, TableBuilder};

/// Code that is copied as it is, and how far the stack pointer is from the CFA at each place in it.
struct Pattern {
    code: &'static [u8],
    /// From this offset on, `CFA = sp + distance`.
    distances: &'static [(u32, u32)],
}

/// Python 3.12 and later.
const PATTERNS: [Pattern; 2] = [
    // sub rsp, 8; call rcx; add rsp, 8; ret
    Pattern {
        code: &[0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3],
        distances: &[(0, 8), (4, 16), (10, 8)],
    },
    // push rbp; mov rbp, rsp; call rcx; pop rbp; ret
    Pattern {
        code: &[0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3],
        distances: &[(0, 8), (1, 16), (7, 8)],
    },
];

/// The first copy is at the very start of the memory, after a marker for indirect branches at most.
const FIRST: usize = 16;

impl Table {
    /// Returns a table for generated `code` that is made of copies of known instructions. Its addresses count from the
    /// start of the code.
    pub fn of_trampolines(code: &[u8]) -> Option<Self> {
        let pattern = PATTERNS.iter().find(|pattern| {
            let first = code.get(..FIRST + pattern.code.len());
            first.is_some_and(|first| first.windows(pattern.code.len()).any(|here| here == pattern.code))
        })?;
        let mut builder = TableBuilder::new(Architecture::X86_64);
        let mut at = 0;
        while let Some(rest) = code.get(at..) {
            if !rest.starts_with(pattern.code) {
                at += 1;
                continue;
            }
            let start = at as u64;
            at += pattern.code.len();
            builder.function(start, at as u64);
            for &(offset, distance) in pattern.distances {
                let saved = if pattern.code[0] == 0x55 && distance == 16 { 2 } else { 0 };
                builder.rule(offset, Rule::Frame { base: Base::StackPointer, offset: distance, saved });
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(offset: u32, saved: u8) -> Rule {
        Rule::Frame { base: Base::StackPointer, offset, saved }
    }

    /// Copies of a pattern, each padded to `size` bytes.
    fn arena(pattern: &Pattern, size: usize) -> Vec<u8> {
        let mut copy = pattern.code.to_vec();
        copy.resize(size, 0);
        copy.repeat(10)
    }

    #[test]
    fn every_copy_has_its_rules() {
        let table = Table::of_trampolines(&arena(&PATTERNS[0], 16)).expect("known code");
        for start in (0..160).step_by(16) {
            // Before the stack pointer moves, after the call, and at the return.
            assert_eq!(
                [0, 4, 6, 10].map(|offset| table.lookup(start + offset)),
                [frame(8, 0), frame(16, 0), frame(16, 0), frame(8, 0)]
            );
        }
        let table = Table::of_trampolines(&arena(&PATTERNS[1], 32)).expect("known code");
        assert_eq!(
            [32, 33, 38, 39].map(|address| table.lookup(address)),
            [frame(8, 0), frame(16, 2), frame(16, 2), frame(8, 0)]
        );
        assert_eq!(table.lookup(32 * 9 + 31), Rule::Unknown, "after the last copy");
    }

    #[test]
    fn other_code_has_no_table() {
        for code in [&[][..], &[0x90; 4096], &PATTERNS[0].code[..10]] {
            assert!(Table::of_trampolines(code).is_none());
        }
        let late = [&[0x90; 64][..], &arena(&PATTERNS[0], 16)].concat();
        assert!(Table::of_trampolines(&late).is_none(), "foreign code, which may contain anything");
    }
}
