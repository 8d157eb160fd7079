//! The mapped files, as words for the ledger: so that a ledger can be read when the process is gone.

use super::ledger::Ledger;
use super::ledger::image::ImageModule;
use flamelet_unwind::fork::{Guard, HeldThroughFork, Lock};
use flamelet_unwind::{Module, live};

/// Readers find the end of the modules by a gap, so that two must not be written at a time, and none while
/// the process forks: the child would have the gap for ever.
static WRITING: Lock<()> = Lock::new(());
static HELD: HeldThroughFork<Guard<'static, ()>> = HeldThroughFork::new();

/// Before a fork: waits until nobody writes modules, and keeps others from it. Not for ever: the writer may wait for a
/// lock of the loader's that the forking thread has, or be the forking thread, in a signal handler.
pub(super) fn hold_for_fork() {
    HELD.hold(|| WRITING.try_lock());
}

/// Afterwards, in the parent.
pub(super) fn release_after_fork() {
    HELD.release();
}

/// Afterwards, in the child, which has no thread that writes.
pub(super) fn release_in_child() {
    HELD.release_in_child();
    WRITING.reset_in_child();
}

/// Learns what is loaded now, for the unwinder, and writes what is new to the ledger.
pub(super) fn refresh(ledger: &Ledger) -> flamelet_unwind::Result<()> {
    let _writing = WRITING.lock();
    let refreshed = live::refresh();
    if refreshed.is_ok() {
        for module in live::modules().iter() {
            ledger.module(&words(module));
        }
    }
    refreshed.map(drop)
}

fn words(module: &Module) -> Vec<u64> {
    let (name, build_id) = (module.name.as_bytes(), &*module.build_id);
    let lengths = (name.len() as u64) << 32 | build_id.len() as u64;
    let mut words = vec![module.start, module.end, module.file_offset, lengths];
    let bytes: Vec<u8> = [name, build_id].concat();
    words.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    words
}

/// Reads what [`refresh`] wrote.
pub(super) fn parse(words: &[u64]) -> Option<ImageModule> {
    let (&[start, end, file_offset, lengths], rest) = words.split_first_chunk::<4>()?;
    let bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (name, build_id) = ((lengths >> 32) as usize, lengths as u32 as usize);
    let name_and_id = bytes.get(..name.checked_add(build_id)?)?;
    let build_id = name_and_id[name..].iter().map(|byte| format!("{byte:02x}")).collect();
    let name = String::from_utf8_lossy(&name_and_id[..name]).into_owned();
    (start < end).then_some(ImageModule { start, end, file_offset, name, build_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let module = Module {
            start: 0x1000,
            end: 0x3000,
            file_offset: 0x200,
            bias: 0,
            name: "/usr/lib/libx.so".into(),
            build_id: [0xab, 1, 2].into(),
            table: None,
        };
        let read = parse(&words(&module)).expect("a module");
        assert_eq!((read.start, read.end, read.file_offset), (0x1000, 0x3000, 0x200));
        assert_eq!((&*read.name, &*read.build_id), ("/usr/lib/libx.so", "ab0102"));
        let mut cut = words(&module);
        cut.pop();
        assert_eq!(parse(&cut), None);
        assert_eq!(parse(&[1, 2, 3]), None);
    }
}
