//! Hand-made recordings of things that this machine cannot record.

use crate::{FormatOptions, read};

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const BRANCH_STACK: u64 = 1 << 11;
const CONTEXT_USER: u64 = -512i64 as u64;
const USER: u16 = 2;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len()).unwrap();
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// Returns a mapping of `name` at `start..start + 0x1000`.
fn mmap(pid: u32, start: u64, name: &str) -> Vec<u8> {
    let mut name = name.as_bytes().to_vec();
    name.resize(name.len().next_multiple_of(8) + 8, 0);
    let ids = u64::from(pid) | u64::from(pid) << 32;
    record(1, USER, &[words(&[ids, start, 0x1000, 0]), name].concat())
}

/// Returns a file with one event of this sample type and these kinds of branches.
fn file(sample_type: u64, branch_type: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let data: Vec<u8> = records.concat();
    // The kind and size, config, period, sample type, read format, flags, three words, branches, registers.
    let attr = words(&[1 | 128 << 32, 0, 1, sample_type, 0, 0, 0, 0, 0, branch_type, 0, 0, 0, 0, 0, 0]);
    let entry = [attr, words(&[0, 0])].concat();
    let data_at = 104 + entry.len() as u64;
    let magic = u64::from_le_bytes(*b"PERFILE2");
    let mut header = words(&[magic, 104, entry.len() as u64, 104, entry.len() as u64]);
    header.extend(words(&[data_at, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    [header, entry, data].concat()
}

fn stacks(bytes: &[u8]) -> Vec<Vec<u64>> {
    let profile = read(bytes, &FormatOptions::default()).unwrap().profile;
    let addresses = |stack| profile.stack(stack).iter().map(|&at| profile.location(at).address).collect();
    profile.samples().map(|sample| addresses(sample.stack)).collect()
}

#[test]
fn the_processors_own_call_stack_replaces_the_callers() {
    let pid = 7 | 7 << 32;
    // A kernel frame, the leaf and a caller found by a frame pointer; then two open calls.
    let chain = [5, -128i64 as u64, 0xffff_0000, CONTEXT_USER, 0x1010, 0x6666];
    let branches = [2, 0x1900, 0x1000, 0, 0x1a00, 0x1900, 0];
    let body = words(&[&[0x1010, pid, 50][..], &chain[..1], &chain[1..], &branches].concat());
    let sample_type = IP | TID | TIME | CALLCHAIN | BRANCH_STACK;
    let records = [mmap(7, 0x1000, "/bin/program"), record(9, USER, &body)];
    let with_calls = file(sample_type, 1 << 11, &records);
    assert_eq!(stacks(&with_calls), [[0xffff_0000, 0x1010, 0x1900, 0x1a00]]);
    // Recently taken branches are not callers.
    let with_branches = file(sample_type, 1 << 3, &records);
    assert_eq!(stacks(&with_branches), [[0xffff_0000, 0x1010, 0x6665]]);
}

#[test]
fn generated_code_is_pointed_out() {
    let body = words(&[0x1010, 7 | 7 << 32, 50]);
    let records = [mmap(7, 0x1000, "/tmp/jit-7.dump"), record(9, USER, &body)];
    let notes = read(&file(IP | TID | TIME, 0, &records)[..], &FormatOptions::default()).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("perf inject --jit")), "{notes:?}");
}

/// A recording with stack dumps names what is no file; nothing of that is opened, let alone waited for.
#[test]
#[cfg(target_os = "linux")]
fn pipes_and_devices_named_in_a_recording_are_not_opened() {
    use std::sync::atomic::{AtomicBool, Ordering};

    const REGS_USER: u64 = 1 << 12;
    const STACK_USER: u64 = 1 << 13;
    let folder = std::env::temp_dir().join(format!("flamelet-perf-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let names = [pipe.to_str().unwrap(), "/dev/zero", "/dev/ptmx", "/proc/kmsg", "/dev"];
    // Without registers and without a stack.
    let sample = words(&[0x1010, 7 | 7 << 32, 50, 0, 0]);
    let mut records: Vec<Vec<u8>> = (1..).zip(names).map(|(at, name)| mmap(7, at * 0x1000, name)).collect();
    records.push(record(9, USER, &sample));
    let recording = file(IP | TID | TIME | REGS_USER | STACK_USER, 0, &records);
    let is_over = AtomicBool::new(false);
    let notes = std::thread::scope(|scope| {
        // Opening a pipe for writing returns once it is opened for reading.
        let is_opened_early = scope.spawn(|| {
            let _writer = std::fs::File::options().write(true).open(&pipe).unwrap();
            !is_over.load(Ordering::SeqCst)
        });
        let notes = read(&recording[..], &FormatOptions::default()).unwrap().notes;
        is_over.store(true, Ordering::SeqCst);
        let _reader = std::fs::File::open(&pipe).unwrap();
        assert!(!is_opened_early.join().unwrap(), "the pipe was opened");
        notes
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = notes.iter().find(|note| note.starts_with("missing files")).expect("they are not binaries");
    assert!(names.iter().all(|name| missing.contains(name)), "{missing}");
}
