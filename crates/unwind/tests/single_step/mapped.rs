//! The code that a process has mapped.

use flamelet_unwind::{Image, Modules};
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub(crate) struct Mapped {
    pub(crate) name: String,
    pub(crate) range: Range<u64>,
    pub(crate) offset: u64,
    /// The whole file, or the vdso.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn code_of(pid: u32) -> Vec<Mapped> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps can be read");
    maps.lines().filter_map(|line| mapped(pid, line)).collect()
}

fn mapped(pid: u32, line: &str) -> Option<Mapped> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [range, permissions, offset, _, _, name] = fields[..] else { return None };
    let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let (start, end) = range.split_once('-').expect("a range");
    let range = number(start)..number(end);
    let bytes = match name {
        _ if !permissions.contains('x') => return None,
        "[vdso]" => read_memory(pid, &range),
        path if path.starts_with('/') => std::fs::read(path).expect("its files can be read"),
        _ => return None,
    };
    Some(Mapped { name: name.to_owned(), range, offset: number(offset), bytes })
}

pub(crate) fn modules(code: &[Mapped]) -> Modules {
    let mut modules = Modules::new();
    for Mapped { name, range, offset, bytes } in code {
        let image = Image::parse(bytes).expect("ELF");
        modules
            .insert(image.module(range.start, range.end, *offset, name).expect("a segment is mapped there"));
    }
    modules
}

fn read_memory(pid: u32, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it is ours to trace");
    memory.read_exact_at(&mut bytes, range.start).expect("mapped");
    bytes
}
