//! The mapped files, as words for the ledger: so that a ledger can be read when the process is gone.

use super::ledger::Ledger;
use super::ledger::image::ImageModule;
use flamelet_unwind::{Module, live};
use std::sync::atomic::{AtomicBool, Ordering};

/// Readers find the end of the modules by a gap, so that two must not be written at a time, and none while
/// the process forks: the child would have the gap for ever. (A `Mutex` could not be left by the child.)
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// Waits until nobody writes modules, and keeps others from it.
pub(super) fn lock() {
    while IS_BUSY.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// See [`lock`].
pub(super) fn unlock() {
    IS_BUSY.store(false, Ordering::Release);
}

/// Learns what is loaded now, for the unwinder, and writes what is new to the ledger.
pub(super) fn refresh(ledger: &Ledger) -> flamelet_unwind::Result<()> {
    lock();
    let refreshed = live::refresh();
    if refreshed.is_ok() {
        for module in live::modules().iter() {
            ledger.module(&words(module));
        }
    }
    unlock();
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
