//! A loaded module, as words for the ledger.

use flamelet_profile::hex;
use flamelet_unwind::Module;

/// A mapped file of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct ImageModule {
    pub(in super::super) start: u64,
    pub(in super::super) end: u64,
    pub(in super::super) file_offset: u64,
    pub(in super::super) name: String,
    pub(in super::super) build_id: String,
}

pub(super) fn words(module: &Module) -> Vec<u64> {
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

/// Reads what [`words`] wrote.
pub(super) fn parse(words: &[u64]) -> Option<ImageModule> {
    let (&[start, end, file_offset, lengths], rest) = words.split_first_chunk::<4>()?;
    let bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (name, build_id) = ((lengths >> 32) as usize, lengths as u32 as usize);
    let name_and_id = bytes.get(..name.checked_add(build_id)?)?;
    let build_id = hex::encode(&name_and_id[name..]);
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
