//! Any bytes as `.eh_frame` of a module, and any bytes as the stack that is walked by it.

#![no_main]

use flamelet_fuzz::{TEXT, elf, parts};
use flamelet_unwind::{Dump, End, Image, Modules, Reason, Registers, walk};
use libfuzzer_sys::fuzz_target;

const X86_64: u16 = 62;
const AARCH64: u16 = 183;
const STACK: u64 = 0x7000_0000;

fuzz_target!(|bytes: &[u8]| {
    let [start, stack, eh_frame] = parts(bytes);
    let byte = |at: usize| u64::from(start.get(at).copied().unwrap_or(0));
    let machine = if byte(0) & 1 == 0 { X86_64 } else { AARCH64 };
    let image = Image::parse(&elf(machine, &[(".eh_frame", eh_frame)])).expect("the file around it is right");
    let module = image.module(TEXT.start, TEXT.end, TEXT.start, "fuzz").expect("its code is mapped");
    let mut modules = Modules::new();
    modules.remember_rules(byte(0) & 2 != 0);
    modules.insert(module);
    let registers = Registers {
        pc: TEXT.start + byte(1) + 256 * byte(2),
        sp: STACK,
        fp: STACK + byte(3),
        lr: TEXT.start + byte(4),
    };
    let mut frames = [0; 64];
    let unwound = walk(&modules, &registers, &mut Dump::new(STACK, stack), &mut frames);
    assert!((1..=frames.len()).contains(&unwound.depth), "{unwound:?}");
    if unwound.end == End::Truncated(Reason::Full) {
        assert_eq!(unwound.depth, frames.len());
    }
});
