//! What the targets share: small ELF files around parts that the fuzzer makes.

/// Where the code of a file of [`elf`] lies, in it and in memory.
pub const TEXT: std::ops::Range<u64> = 0x1000..0x2000;

/// Where `.eh_frame` of such a file is loaded: its addresses are relative to its own.
pub const EH_FRAME: u64 = 0x3000;

/// The sections of debug information that the target `dwarf` takes, in the order of its input.
pub const DEBUG_SECTIONS: [&str; 10] = [
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_rnglists",
    ".debug_ranges",
    ".debug_aranges",
    ".debug_line",
    ".debug_info",
];

/// Splits the input into `N` parts: each is its length in two bytes and itself; the last has what is left.
pub fn parts<const N: usize>(mut input: &[u8]) -> [&[u8]; N] {
    std::array::from_fn(|at| {
        if at + 1 == N {
            return std::mem::take(&mut input);
        }
        let Some((length, rest)) = input.split_first_chunk() else { return std::mem::take(&mut input) };
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, rest) = rest.split_at(length);
        input = rest;
        part
    })
}

/// The input that [`parts`] splits so.
pub fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let (last, others) = parts.split_last().expect("a part");
    let mut input = Vec::new();
    for part in others {
        input.extend(u16::try_from(part.len()).expect("a small part").to_le_bytes());
        input.extend_from_slice(part);
    }
    input.extend_from_slice(last);
    input
}

/// What fits into a file that [`sparse`] makes.
const MOST_WORDS: u32 = 1 << 18;

/// A file that is mostly zero: of every twelve bytes, four say which word it is and eight what it holds.
pub fn sparse(input: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for entry in input.chunks_exact(12) {
        let index = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let at = (index % MOST_WORDS) as usize * 8;
        if file.len() < at + 8 {
            file.resize(at + 8, 0);
        }
        file[at..at + 8].copy_from_slice(&entry[4..]);
    }
    file
}

/// The input that [`sparse`] makes this file of.
pub fn words(file: &[u8]) -> Vec<u8> {
    let words = file.chunks_exact(8).enumerate().filter(|(_, word)| word.iter().any(|byte| *byte != 0));
    words.flat_map(|(at, word)| [&(at as u32).to_le_bytes(), word].concat()).collect()
}

const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// A library for `machine` with a segment of code at [`TEXT`] and these sections, all right but for what is in them.
pub fn elf(machine: u16, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = vec![0; HEADER + SEGMENT];
    let mut names = vec![0];
    let mut table = vec![0; 64];
    for (name, bytes) in sections {
        push_section(&mut table, names.len(), 1, file.len(), bytes.len());
        file.extend_from_slice(bytes);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    push_section(&mut table, names.len(), 3, file.len(), names.len() + b".shstrtab\0".len());
    names.extend_from_slice(b".shstrtab\0");
    file.extend_from_slice(&names);
    let count = (table.len() / 64) as u16;
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &3u16.to_le_bytes());
    put(18, &machine.to_le_bytes());
    put(20, &1u32.to_le_bytes());
    put(32, &(HEADER as u64).to_le_bytes());
    put(52, &(HEADER as u16).to_le_bytes());
    put(54, &(SEGMENT as u16).to_le_bytes());
    put(56, &1u16.to_le_bytes());
    put(58, &64u16.to_le_bytes());
    put(60, &count.to_le_bytes());
    put(62, &(count - 1).to_le_bytes());
    put(HEADER, &1u32.to_le_bytes());
    put(HEADER + 4, &5u32.to_le_bytes());
    for at in [8, 16, 24] {
        put(HEADER + at, &TEXT.start.to_le_bytes());
    }
    for at in [32, 40] {
        put(HEADER + at, &(TEXT.end - TEXT.start).to_le_bytes());
    }
    let table_at = file.len() as u64;
    file[40..48].copy_from_slice(&table_at.to_le_bytes());
    file.extend(table);
    file
}

fn push_section(table: &mut Vec<u8>, name: usize, kind: u32, offset: usize, size: usize) {
    let mut section = [0; 64];
    section[0..4].copy_from_slice(&(name as u32).to_le_bytes());
    section[4..8].copy_from_slice(&kind.to_le_bytes());
    section[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
    section[32..40].copy_from_slice(&(size as u64).to_le_bytes());
    section[48] = 1;
    section[16..24].copy_from_slice(&EH_FRAME.to_le_bytes());
    table.extend(section);
}
