//! `.gopclntab`: the functions and stack sizes that every Go program has for its own stack traces, even when it is stripped
//! of everything else. (`flamelet-symbol` reads names, files and lines from it.)
//!
//! ```text
//! header ─► functions: (entry, offset) … ─► record: entry, name, …, stack sizes, …, flags
//!                                                            │           │
//!                                                          names       values
//! ```
//!
//! Go's compiler writes no other unwind information. For each place the table has how far the stack pointer is below the
//! return address, and it marks the functions that a stack begins with, and those that change to another stack.

use crate::arch::Architecture;
use crate::rule::{Base, MAX_OFFSET, Rule};
use crate::table::TableBuilder;
use crate::text;
use std::ops::Range;

/// What a file has of its table.
pub(crate) struct GoSections<'s> {
    /// One of [`GoSections::NAMES`].
    pub(crate) table: &'s [u8],
    /// `.go.module`; empty if there is none.
    pub(crate) module: &'s [u8],
    /// Where `.text` begins.
    pub(crate) text: u64,
    /// Where the program begins.
    pub(crate) entry: u64,
}

impl GoSections<'_> {
    /// The names that the table's section may have.
    pub(crate) const NAMES: [&'static str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
}

/// Adds the rules of the functions in `text`.
pub(crate) fn add_rules(sections: &GoSections<'_>, text: &[Range<u64>], builder: &mut TableBuilder) {
    // On other machines, the return address is elsewhere.
    if builder.architecture() != Architecture::X86_64 {
        return;
    }
    let Some(table) = GoTable::new(sections) else { return };
    // Functions may share their lists, and a damaged table may have the same one for all. Real ones have 40 bytes a step.
    let mut steps_left = table.bytes.len() / 8;
    for number in 0..table.functions {
        let Some((function, end)) = table.function(number).zip(table.entry(number + 1)) else { return };
        if function.entry < end && text::contains(text, function.entry) {
            builder.function(function.entry, end);
            table.add_function(function, end, &mut steps_left, builder);
        }
    }
}

/// The least that a function takes in the table: its place in the list, and its record.
const FUNCTION_SIZE: usize = 48;

/// A table of Go 1.18 or later; older ones have no marks.
struct GoTable<'t> {
    bytes: &'t [u8],
    /// The size of a record before its flags.
    flags: usize,
    functions: usize,
    names: usize,
    values: usize,
    list: usize,
    /// Where its code begins.
    text: u64,
}

/// A function, and where its record is.
#[derive(Clone, Copy)]
struct GoFunction {
    entry: u64,
    record: usize,
}

impl<'t> GoTable<'t> {
    fn new(sections: &GoSections<'t>) -> Option<Self> {
        const TEXT_IN_HEADER: usize = 24;
        const TEXT_IN_MODULE: usize = 22 * 8;
        let bytes = sections.table;
        let flags = match number(bytes, 0)? {
            0xffff_fff0 => 37,
            // From 1.20 on a record has the line of its function, too.
            0xffff_fff1 => 41,
            _ => return None,
        };
        // On this machine instructions begin everywhere, and words have eight bytes.
        let [0, 0, 1, 8] = *bytes.get(4..8)? else { return None };
        let part = |at: usize| usize::try_from(word(bytes, at)?).ok();
        let [functions, names, values, list] = [8, 32, 56, 64].map(part);
        let (functions, names, values, list) = (functions?, names?, values?, list?);
        // Each costs several times its place in the list, which is all that it takes if a damaged table has one record for all.
        if functions > bytes.len() / FUNCTION_SIZE {
            return None;
        }
        let stated = [word(bytes, TEXT_IN_HEADER), word(sections.module, TEXT_IN_MODULE)];
        let stated = stated.into_iter().flatten().find(|&start| start != 0);
        let text = stated.unwrap_or(sections.text);
        let table = Self { bytes, flags, functions, names, values, list, text };
        // From 1.26 on the header does not have it. With C code linked in, `.text` begins with that.
        (stated.is_some() || table.begins_at(sections.entry)).then_some(table)
    }

    /// Returns whether the function at `entry` is the one that Go programs begin with.
    fn begins_at(&self, entry: u64) -> bool {
        let mut functions = (0..self.functions).map_while(|number| self.function(number));
        let first = functions.find(|function| function.entry == entry);
        first.is_some_and(|function| self.has_prefix(function, b"_rt0_"))
    }

    fn function(&self, number: usize) -> Option<GoFunction> {
        let offset = self::number(self.bytes, self.place(number)?.checked_add(4)?)?;
        Some(GoFunction { entry: self.entry(number)?, record: self.list.checked_add(offset as usize)? })
    }

    /// Returns where function `number` begins; after the last, where that ends.
    fn entry(&self, number: usize) -> Option<u64> {
        self.text.checked_add(self::number(self.bytes, self.place(number)?)?.into())
    }

    /// Returns where the entry of a function is in the table.
    fn place(&self, number: usize) -> Option<usize> {
        self.list.checked_add(number.checked_mul(8)?)
    }

    /// Returns whether the name of a function begins like this.
    fn has_prefix(&self, function: GoFunction, prefix: &[u8]) -> bool {
        let name = function.record.checked_add(4).and_then(|at| number(self.bytes, at));
        let name = name.and_then(|name| self.bytes.get(self.names.checked_add(name as usize)?..));
        name.is_some_and(|name| name.starts_with(prefix))
    }

    /// Returns the rule for all of a function if its stack sizes do not say it.
    fn special_rule(&self, function: GoFunction) -> Option<Rule> {
        const BEGINS_STACK: u8 = 1;
        const SETS_STACK_POINTER: u8 = 2;
        let flags = function.record.checked_add(self.flags).and_then(|at| self.bytes.get(at));
        match flags {
            None => Some(Rule::Unknown),
            Some(flags) if flags & BEGINS_STACK != 0 => Some(Rule::Root),
            Some(flags) if flags & SETS_STACK_POINTER == 0 => None,
            // Those of the runtime change to another stack, others align theirs.
            Some(_) if self.has_prefix(function, b"runtime.") => Some(Rule::OtherStack),
            Some(_) => Some(Rule::Unknown),
        }
    }

    fn add_function(
        &self,
        function: GoFunction,
        end: u64,
        steps_left: &mut usize,
        builder: &mut TableBuilder,
    ) {
        if let Some(rule) = self.special_rule(function) {
            return builder.rule(0, rule);
        }
        let mut start = function.entry;
        for (next, size) in self.stack_sizes(function).take(*steps_left) {
            *steps_left -= 1;
            builder.rule((start - function.entry) as u32, frame(size));
            if next <= start || next >= end {
                return;
            }
            start = next;
        }
        builder.rule((start - function.entry) as u32, Rule::Unknown);
    }

    /// Returns how far the stack pointer is below the return address, each with the address that it holds up to: pairs of
    /// a change and the length of the code.
    fn stack_sizes(&self, function: GoFunction) -> impl Iterator<Item = (u64, i64)> {
        let list = function.record.checked_add(16).and_then(|at| number(self.bytes, at));
        let list = list.and_then(|list| self.bytes.get(self.values.checked_add(list as usize)?..));
        let (mut rest, mut size, mut end) = (list.unwrap_or_default(), -1i64, function.entry);
        let mut is_first = true;
        std::iter::from_fn(move || {
            let change = variable(&mut rest).filter(|&change| change != 0 || is_first)?;
            is_first = false;
            // The lowest bit is the sign.
            size = size.wrapping_add((change >> 1) as i64 ^ -((change & 1) as i64));
            end = end.saturating_add(variable(&mut rest)?);
            Some((end, size))
        })
    }
}

/// Returns the rule where the stack pointer is `size` bytes below the return address. What a function pushes first is the
/// frame pointer.
fn frame(size: i64) -> Rule {
    match u32::try_from(size) {
        Ok(0) => Rule::Frame { base: Base::StackPointer, offset: 8, saved: 0 },
        Ok(size) if size < MAX_OFFSET && size.is_multiple_of(8) => {
            Rule::Frame { base: Base::StackPointer, offset: size + 8, saved: 2 }
        }
        _ => Rule::Unknown,
    }
}

/// Reads a number of variable length: seven bits a byte, the lowest first.
fn variable(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    const TEXT: u64 = 0x40_1000;
    const NAMES: &[u8] = b"\0_rt0_amd64_linux\0main.f\0runtime.systemstack\0sha256.block\0";
    // Where each begins in NAMES.
    const START: u32 = 1;
    const PLAIN: u32 = 18;
    const SWITCH: u32 = 25;
    const ALIGN: u32 = 45;

    /// Functions of 0x20 bytes each: their name and flags. All push one word after 4 bytes, have 0x40 bytes more after 8,
    /// and nothing from 0x1c on.
    fn table(magic: u32, functions: &[(u32, u8)]) -> Vec<u8> {
        // Sizes 0, 8, 0x48, 0 up to 4, 8, 0x1c, 0x20.
        let values = [2, 4, 16, 4, 0x80, 1, 0x14, 0x8f, 1, 4, 0];
        table_of(magic, functions, 0x20, &values)
    }

    /// Functions of this many bytes, with the same stack sizes.
    fn table_of(magic: u32, functions: &[(u32, u8)], length: u32, values: &[u8]) -> Vec<u8> {
        let (names, after_names) = (72, 72 + NAMES.len());
        let list = after_names + values.len();
        let mut table = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        let words = [functions.len(), 1, 0, names, 0, 0, after_names, list];
        words.iter().for_each(|word| table.extend((*word as u64).to_le_bytes()));
        table.extend([NAMES, values].concat());
        let size = if magic == 0xffff_fff1 { 44 } else { 40 };
        for at in 0..=functions.len() {
            table.extend((length * at as u32).to_le_bytes());
            table.extend(((8 * functions.len() + 4 + size * at) as u32).to_le_bytes());
        }
        table.truncate(table.len() - 4);
        for (at, &(name, flags)) in functions.iter().enumerate() {
            let mut record = vec![0; size];
            record[..4].copy_from_slice(&(length * at as u32).to_le_bytes());
            record[4..8].copy_from_slice(&name.to_le_bytes());
            record[size - 3] = flags;
            table.extend(record);
        }
        table
    }

    fn rules(table: &[u8], entry: u64) -> Option<Table> {
        let sections = GoSections { table, module: &[], text: TEXT, entry };
        let mut builder = TableBuilder::new(Architecture::X86_64);
        add_rules(&sections, std::slice::from_ref(&(TEXT..TEXT + 0x1000)), &mut builder);
        builder.finish()
    }

    fn frame_of(offset: u32, saved: u8) -> Rule {
        Rule::Frame { base: Base::StackPointer, offset, saved }
    }

    #[test]
    fn every_place_of_a_function_has_its_rule() {
        for magic in [0xffff_fff0, 0xffff_fff1] {
            let bytes = table(magic, &[(START, 1), (PLAIN, 0), (SWITCH, 2), (ALIGN, 2)]);
            let rules = rules(&bytes, TEXT).expect("functions");
            let at = |offset: u64| rules.lookup(TEXT + offset);
            let plain = [0x20, 0x23, 0x24, 0x28, 0x3b, 0x3c].map(at);
            let expected = [
                frame_of(8, 0),
                frame_of(8, 0),
                frame_of(16, 2),
                frame_of(80, 2),
                frame_of(80, 2),
                frame_of(8, 0),
            ];
            assert_eq!(plain, expected, "{magic:x}");
            assert_eq!([at(0x10), at(0x50), at(0x70)], [Rule::Root, Rule::OtherStack, Rule::Unknown]);
            assert_eq!([at(0x80), rules.lookup(TEXT - 1)], [Rule::Unknown; 2]);
        }
    }

    #[test]
    fn a_start_that_does_not_fit_is_not_used() {
        let bytes = table(0xffff_fff1, &[(START, 1), (PLAIN, 0)]);
        assert!(rules(&bytes, TEXT).is_some());
        assert!(rules(&bytes, TEXT + 0x20).is_none(), "C code comes first, and the rules would be wrong");
        assert!(rules(&table(0xffff_fffa, &[(START, 1)]), TEXT).is_none(), "1.16");
    }

    #[test]
    fn functions_that_share_a_long_list_take_no_more_than_the_file() {
        // One byte of code after the other with 8 bytes more, and less.
        let values = [&[2, 1][..], &[16, 1, 15, 1].repeat(500), &[0]].concat();
        let mut functions = [(PLAIN, 0); 1000];
        functions[0].0 = START;
        let bytes = table_of(0xffff_fff1, &functions, 0x1000, &values);
        let sections = GoSections { table: &bytes, module: &[], text: TEXT, entry: TEXT };
        let mut builder = TableBuilder::new(Architecture::X86_64);
        add_rules(&sections, std::slice::from_ref(&(TEXT..u64::MAX)), &mut builder);
        let rows = builder.finish().expect("functions").row_count();
        assert!(rows > 1000 && rows * 4 <= bytes.len(), "{rows} rows of {} bytes", bytes.len());
    }

    #[test]
    fn a_table_with_more_functions_than_records_is_not_used() {
        let functions = |count: usize| (0..count).map(|at| (if at == 0 { START } else { PLAIN }, 0));
        let mut bytes = table(0xffff_fff1, &functions(1000).collect::<Vec<_>>());
        assert!(rules(&bytes, TEXT).is_some());
        // The records become places in the list, of functions that have no record.
        let more = bytes.len() / FUNCTION_SIZE + 1;
        bytes[8..16].copy_from_slice(&(more as u64).to_le_bytes());
        assert!(rules(&bytes, TEXT).is_none());
    }

    #[test]
    fn damage_is_survived() {
        let good = table(0xffff_fff1, &[(START, 1), (PLAIN, 0), (SWITCH, 2)]);
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut damaged = good.clone();
                damaged[at] = byte;
                drop(rules(&damaged, TEXT));
                damaged.truncate(at);
                drop(rules(&damaged, TEXT));
            }
        }
    }
}
