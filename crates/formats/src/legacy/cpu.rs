//! gperftools' binary CPU profile: machine words of either size and byte order, then the modules as text.

use flamelet_profile::{Budget, ErrorKind, Profile, Result};

use super::java;
use crate::Error;
use crate::addresses::{AddressSamples, parse_module};
use crate::assembly::Assembly;

/// The size and byte order of a file's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WordLayout {
    wide: bool,
    big: bool,
}

const LAYOUTS: [WordLayout; 4] = [
    WordLayout { wide: true, big: false },
    WordLayout { wide: false, big: false },
    WordLayout { wide: true, big: true },
    WordLayout { wide: false, big: true },
];

impl WordLayout {
    const fn size(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    fn read(self, bytes: &[u8], at: usize) -> Option<u64> {
        let start = at.checked_mul(self.size())?;
        let word = bytes.get(start..start.checked_add(self.size())?)?;
        let order = |a: u64, byte: &u8| a << 8 | u64::from(*byte);
        Some(if self.big { word.iter().fold(0, order) } else { word.iter().rev().fold(0, order) })
    }
}

fn layout(bytes: &[u8]) -> Option<WordLayout> {
    LAYOUTS.into_iter().find(|words| {
        let header: Option<Vec<u64>> = (0..5).map(|at| words.read(bytes, at)).collect();
        header.is_some_and(|header| {
            header[0] == 0 && header[1] == 3 && header[2] <= 1 && header[3] > 0 && header[4] == 0
        })
    })
}

/// Returns whether `head` starts like a binary CPU profile.
pub(super) fn recognise(head: &[u8]) -> bool {
    layout(head).is_some()
}

/// Reads a binary CPU profile.
pub(super) fn read(bytes: &[u8], budget: &Budget) -> Result<Profile> {
    let damaged = |what: &str| {
        Error::new(ErrorKind::Truncated, format!("the CPU profile ends in the middle of {what}"))
    };
    let words = layout(bytes).ok_or_else(|| damaged("its header"))?;
    // Java agents write where frames are, not return addresses, and name them below the samples.
    let is_java = words.read(bytes, 2) == Some(1);
    let period = words.read(bytes, 3).ok_or_else(|| damaged("its header"))?;
    let period_nanos = i64::try_from(period).unwrap_or(i64::MAX).saturating_mul(1000);
    let mut assembly = Assembly::new(false, budget);
    assembly.column("samples", "count");
    assembly.column("cpu", "nanoseconds");
    let mut samples = AddressSamples::new(budget);
    let mut at = 5;
    loop {
        let count = words.read(bytes, at).ok_or_else(|| damaged("a sample"))?;
        let depth = words.read(bytes, at + 1).ok_or_else(|| damaged("a sample"))?;
        let depth = usize::try_from(depth).ok().filter(|&depth| depth <= bytes.len() / words.size());
        let depth = depth.ok_or_else(|| damaged("a stack"))?;
        let _frames = budget.lend(depth * size_of::<u64>())?;
        let frames: Option<Vec<u64>> = (0..depth).map(|frame| words.read(bytes, at + 2 + frame)).collect();
        let frames = frames.ok_or_else(|| damaged("a stack"))?;
        at += 2 + depth;
        if count == 0 && frames == [0] {
            break;
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        // The leaf is the program counter; the others are return addresses.
        let is_return = |row: usize| u64::from(row > 0 && !is_java);
        let frames = frames.iter().enumerate().map(|(row, &frame)| frame.saturating_sub(is_return(row)));
        samples.push(frames, Vec::new(), vec![count, count.saturating_mul(period_nanos)]);
    }
    for line in bytes[(at * words.size()).min(bytes.len())..].split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if is_java && line.starts_with(b"0x") {
            // A line without a name is skipped.
            let _ = java::symbol(line, &mut samples);
        } else if let Some(module) = parse_module(line) {
            samples.module(module);
        }
    }
    let cpu = assembly.builder.value_type("cpu", "nanoseconds");
    let header = assembly.builder.header_mut();
    header.period_type = Some(cpu);
    header.period = period_nanos;
    samples.finish(&mut assembly);
    assembly.finish()
}
