//! What the example publishes for profilers outside the process, read as such a profiler does: by the protocols of OTEP 4719 and
//! OTEP 4947.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "stops threads of another process and reads their registers")]

mod example;

use std::os::unix::fs::FileExt;
use std::time::Instant;

use example::{DEADLINE, Example};
use object::elf::{FileHeader64, PT_TLS, STT_TLS};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// The memory of another process.
struct Memory(std::fs::File);

impl Memory {
    fn of(process: u32) -> Self {
        Self(std::fs::File::open(format!("/proc/{process}/mem")).expect("our own child"))
    }

    fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, address).expect("mapped");
        bytes
    }

    fn word(&self, address: u64) -> u64 {
        u64::from_ne_bytes(self.read(address, 8).try_into().expect("eight bytes"))
    }
}

/// Returns where the mapping of the process context is.
fn mapping(process: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("our own child");
    let names = ["[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"];
    let line = maps.lines().find(|line| names.iter().any(|name| line.contains(name)))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// Returns the payload of the process context.
fn payload(process: u32, memory: &Memory) -> Vec<u8> {
    let header = mapping(process).expect("a mapping");
    assert_eq!(memory.read(header, 8), b"OTEL_CTX");
    let numbers = memory.read(header + 8, 8);
    let number = |at: usize| u32::from_ne_bytes(numbers[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(number(0), 2, "the version");
    let published = memory.word(header + 16);
    assert_ne!(published, 0, "it is not being changed");
    let payload = memory.read(memory.word(header + 24), number(4) as usize);
    assert_eq!(memory.word(header + 16), published);
    payload
}

/// Returns the fields of a message whose fields are all messages or texts.
fn fields(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [tag, rest @ ..] = bytes {
        assert_eq!(tag & 7, 2, "all fields have a length");
        let (mut length, mut rest, mut shift) = (0usize, rest, 0);
        while let [byte, after @ ..] = rest {
            length |= usize::from(byte & 0x7f) << shift;
            (rest, shift) = (after, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
        }
        found.push((tag >> 3, &rest[..length]));
        bytes = &rest[length..];
    }
    found
}

/// Returns the attributes of a list of `KeyValue`s, their values still encoded.
fn attributes<'b>(all: impl Iterator<Item = &'b [u8]>) -> Vec<(String, &'b [u8])> {
    let pair = |bytes: &'b [u8]| match fields(bytes)[..] {
        [(1, key), (2, value)] => (String::from_utf8(key.to_vec()).expect("text"), value),
        _ => panic!("{bytes:02x?}"),
    };
    all.map(pair).collect()
}

fn text(value: &[u8]) -> String {
    match fields(value)[..] {
        [(1, text)] => String::from_utf8(text.to_vec()).expect("text"),
        _ => panic!("{value:02x?}"),
    }
}

/// Returns how far the variable is from the thread pointer, as the files of the process say.
fn offset_of_variable(process: u32) -> u64 {
    let bytes = std::fs::read(format!("/proc/{process}/exe")).expect("our own child");
    let data = &bytes[..];
    let header = FileHeader64::<object::Endianness>::parse(data).expect("ELF");
    let endian = header.endian().expect("ELF");
    let sections = header.sections(endian, data).expect("sections");
    let symbols = sections.symbols(endian, data, object::elf::SHT_DYNSYM).expect("symbols");
    let is_it = |symbol: &&object::elf::Sym64<object::Endianness>| {
        symbol.name(endian, symbols.strings()).is_ok_and(|name| name == b"otel_thread_ctx_v1")
    };
    let symbol = symbols.iter().find(is_it).expect("it is exported");
    assert_eq!(symbol.st_type(), STT_TLS);
    let segments = header.program_headers(endian, data).expect("segments");
    let segment =
        segments.iter().find(|segment| segment.p_type(endian) == PT_TLS).expect("thread-local memory");
    // The block of the program ends at the thread pointer.
    let size = segment.p_memsz(endian).next_multiple_of(segment.p_align(endian).max(1));
    symbol.st_value(endian).wrapping_sub(size)
}

/// A thread that is stopped until this is dropped.
struct Stopped(i32);

impl Stopped {
    /// Returns `None` if it ends meanwhile, and an error if this user may not do that.
    fn new(thread: i32) -> std::io::Result<Option<Self>> {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: seizes a thread of our own child, and waits until it is stopped.
        unsafe {
            if libc::ptrace(libc::PTRACE_SEIZE, thread, null, null) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            libc::ptrace(libc::PTRACE_INTERRUPT, thread, null, null);
            let mut status = 0;
            let waited = libc::waitpid(thread, &raw mut status, libc::__WALL);
            Ok((waited == thread && libc::WIFSTOPPED(status)).then_some(Self(thread)))
        }
    }

    fn thread_pointer(&self) -> u64 {
        // SAFETY: a structure of numbers, for which 0 is a value, and which the kernel fills.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let null = std::ptr::null_mut::<libc::c_void>();
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, self.0, null, &raw mut registers), 0);
            registers.fs_base
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: lets go of the thread.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, null, null) };
    }
}

/// The records of all threads that have one.
fn records(process: u32, memory: &Memory) -> std::io::Result<Vec<Vec<u8>>> {
    let offset = offset_of_variable(process);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
        let thread = entry.file_name().to_string_lossy().parse().expect("a number");
        let Some(stopped) = Stopped::new(thread)? else { continue };
        let record = memory.word(stopped.thread_pointer().wrapping_add(offset));
        if record == 0 {
            continue;
        }
        assert_eq!(record % 2, 0);
        let head = memory.read(record, 28);
        let size = usize::from(u16::from_ne_bytes([head[26], head[27]]));
        found.push([head, memory.read(record + 28, size)].concat());
    }
    Ok(found)
}

#[test]
fn the_service_and_the_trace_of_a_thread_are_read_from_outside() {
    let example = Example::start(&[], &[]);
    let process = example.process.id();
    let memory = Memory::of(process);
    let payload = payload(process, &memory);
    let of =
        |number: u8| fields(&payload).into_iter().filter(move |field| field.0 == number).map(|field| field.1);
    let resource = of(1).next().expect("a resource");
    let resource = attributes(fields(resource).into_iter().map(|field| field.1));
    let value = |name: &str| resource.iter().find(|(key, _)| key == name).map(|(_, value)| text(value));
    assert_eq!(value("service.name").as_deref(), Some("axum-service"));
    assert_eq!(value("telemetry.sdk.language").as_deref(), Some("rust"));
    let more = attributes(of(2));
    assert_eq!(text(more[0].1), "tlsdesc_v1_dev", "{}", more[0].0);
    let keys = fields(more[1].1).into_iter().flat_map(|(_, array)| fields(array)).map(|(_, key)| text(key));
    assert_eq!(keys.collect::<Vec<_>>(), ["route", "method", "task", "span"], "{}", more[1].0);

    // A request that stays in its poll, so that its thread works on it until it is read.
    let stream = example.send("/blocking?ms=60000", &format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n"));
    let start = Instant::now();
    let record = loop {
        let records = match records(process, &memory) {
            Ok(records) => records,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                flamelet_test_support::skip!("this machine does not allow ptrace");
                return;
            }
            // A thread that has ended since it was listed.
            Err(_) => Vec::new(),
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if let Some(record) = records.into_iter().find(|record| hex(&record[..16]) == TRACE) {
            assert_eq!(hex(&record[16..24]), SPAN);
            break record;
        }
        assert!(start.elapsed() < DEADLINE, "no thread publishes the trace");
    };
    assert_eq!(record[24], 1, "it is valid");
    assert_eq!(record[28..], *b"\x00\x09/blocking\x01\x03GET");
    drop(stream);
}
