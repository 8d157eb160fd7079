//! Writes the first inputs of the targets into `corpus/`: small files of every format, programs and parts of them.
//! `cargo run --example seeds`; needs a C compiler, objcopy and xz. What was found later stays.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use flamelet_formats::{Format, FormatOptions, read, write};
use flamelet_fuzz::{DEBUG_SECTIONS, TEXT, joined, words};
use flamelet_preload_ledger::{Header, MAGIC};
use flamelet_profile::ProfileBuilder;

/// The heap profiler is asked for a ledger.
#[global_allocator]
static ALLOCATOR: flamelet_capture::heap::Alloc = flamelet_capture::heap::Alloc::system();

/// Larger ones slow the fuzzer down.
const LARGEST: usize = 32 << 10;

fn main() {
    formats();
    programs();
    ledgers();
    texts();
    history();
    received();
    generated();
    go();
    names();
}

/// Mangled names.
fn names() {
    let of_cpp = "N7rocksdb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE\nN3FooIiED0Ev\n\
        ZN3foo3barEiENKUlvE_clEv\nNSt3mapISsN3foo3BarESt4lessISsESaISt4pairIKSsS1_EEEixERS5_\n\
        N5boost3getILi0EJiRKSsEEEvRA5_KcMNS_1AEFvvE\nNSt7__cxx1112basic_stringIcSaIcEE6assignEPKc\nlsRSo3Foo\n";
    let of_rust = "NvMC0INtC8arrayvec8ArrayVecpKj7b_E3new\nNCNvCsgStHSCytQ6I_7mycrate3foo0B3_\n\
        _ZN4core3fmt5Write9write_fmt17h0123456789abcdefE\n";
    for (language, names) in [("cpp", of_cpp), ("rust", of_rust)] {
        put("names", language, names.as_bytes());
    }
}

/// What senders send: the first byte is the kind of the message.
fn received() {
    let pushed: [&[u8]; 2] = [
        b"\x0a\x17\x0a\x0c\x0a\x03job\x12\x05a b c\x12\x07\x0a\x01p\x12\x02id",
        br#"{"series":[{"labels":[{"name":"a","value":"b"}],"samples":[{"rawProfile":"aGk=","ID":"7"}]}]}"#,
    ];
    let written: [&[u8]; 2] = [
        b"\x12\x15\x0a\x0e\x0a\x0c\x0a\x03job\x12\x05a b c\x12\x03\x0a\x01p",
        br#"{"series":[{"labels":{"labels":[{"name":"job","value":"b"}]},"samples":[{"rawProfile":"aGk="}]}]}"#,
    ];
    for (name, kind) in [("read-otlp", 4), ("read-otlp-json", 5)] {
        let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name).join("seed-written");
        put("receive", name, &[&[kind], &*std::fs::read(seed).expect("a seed")].concat());
    }
    let others: [(&str, &[u8]); 4] = [
        ("grpc", b"\x06\0\0\0\0\x02hi\x80\0\0\0\x10grpc-status: 0\r\n"),
        ("ingest", b"\x08name=shop.cpu{region=eu}&from=1700000000&until=now&format=folded&sampleRate=99"),
        ("grpc-answer", b"\x0a\xc8\0\x80\0\0\0\x0egrpc-status: 3"),
        ("partial", b"\x0a\xc8\0\x0a\x07\x08\x01\x12\x03bad"),
    ];
    for (name, kind, bodies) in [("push", 0, pushed), ("write", 2, written)] {
        for (codec, body) in bodies.iter().enumerate() {
            put("receive", &format!("{name}-{codec}"), &[&[kind + codec as u8], *body].concat());
        }
    }
    others.iter().for_each(|(name, bytes)| put("receive", name, bytes));
}

/// The lists of code that runtimes generate.
fn generated() {
    put("generated", "perf-map", b"1000 20 first\n0x2000 10 a b c\nnonsense\n3000 zz f\n");
    let record = |kind: u32, body: &[u8]| {
        let size = 16 + body.len() as u32;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &[0; 8], body].concat()
    };
    let numbers =
        |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut list = [0x4A69_5444u32, 1, 40].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    list.resize(40, 0);
    list.extend(record(0, &[&numbers(&[0, 0x1000, 0x1000, 4, 1])[..], b"first\0\xc3\xc3\xc3\xc3"].concat()));
    list.extend(record(2, &[0xff; 20]));
    list.extend(record(1, &numbers(&[0, 0x9000, 0x1000, 0x9000, 4, 1])));
    put("generated", "jitdump", &list);
}

/// The tables of a Go program with three functions, by 1.16 and by 1.20.
fn go() {
    let names = &b"\0_rt0_amd64_linux\0main.f\0main.g\0"[..];
    let units = &[0, 0, 0, 0, 10, 0, 0, 0][..];
    let files = &b"/src/a.go\0/src/b.go\0"[..];
    let values = &[0, 16, 8, 2, 8, 164, 1, 16, 0, 2, 16, 2, 16, 0, 42, 16, 0, 2, 16, 0][..];
    let records = [(1u32, 17u32, 17u32, 1u32), (18, 9, 1, 5), (25, 17, 14, 19)];
    let entries = [0u64, 0x10, 0x30, 0x40];
    for (version, magic, field) in [("116", 0xffff_fffau32, 8), ("120", 0xffff_fff1, 4)] {
        let address = |entry: u64| match field {
            8 => (TEXT.start + entry).to_le_bytes().to_vec(),
            _ => (entry as u32).to_le_bytes().to_vec(),
        };
        let mut table = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        table.extend([3u64, 2].iter().flat_map(|number| number.to_le_bytes()));
        if field == 4 {
            table.extend(TEXT.start.to_le_bytes());
        }
        let mut offset = table.len() + 5 * 8;
        for part in [names, units, files, values, &[]] {
            table.extend((offset as u64).to_le_bytes());
            offset += part.len();
        }
        table.extend([names, units, files, values].concat());
        for (at, &entry) in entries.iter().enumerate() {
            table.extend(address(entry));
            if at < records.len() {
                let offset = ((2 * records.len() + 1) * field + at * (field + 40)) as u64;
                table.extend(&offset.to_le_bytes()[..field]);
            }
        }
        for (&(name, files, lines, start_line), &entry) in records.iter().zip(&entries) {
            table.extend(address(entry));
            let fields = [name, 0, 0, 0, files, lines, 0, 0, start_line, 0];
            fields.iter().for_each(|field| table.extend(field.to_le_bytes()));
        }
        put("go", version, &table);
    }
}

/// The bodies of the records of a history.
fn history() {
    let bodies: Vec<Vec<u8>> = flamelet_store::example_bodies();
    put("history", "windows", &joined(&bodies.iter().map(Vec::as_slice).collect::<Vec<_>>()));
}

fn put(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder).expect("a folder of the corpus");
    if bytes.len() <= LARGEST {
        std::fs::write(folder.join(format!("seed-{name}")), bytes).expect("a seed");
    } else {
        eprintln!("{target}/{name}: {} bytes are too many", bytes.len());
    }
}

/// A flight recording of one class of samples and one sample.
fn recording() -> Vec<u8> {
    let words = [
        "",
        "root",
        "metadata",
        "class",
        "id",
        "10",
        "name",
        "jdk.ExecutionSample",
        "field",
        "startTime",
        "11",
        "long",
    ];
    let mut metadata = vec![0, 0, 0, 1, words.len() as u8];
    for word in words {
        metadata.extend([3, word.len() as u8]);
        metadata.extend_from_slice(word.as_bytes());
    }
    // Of each element: its name, how many attributes, they, and how many children.
    metadata.extend([1, 0, 1, 2, 0, 2]);
    metadata.extend([3, 2, 4, 5, 6, 7, 1, 8, 2, 6, 9, 3, 10, 0]);
    metadata.extend([3, 2, 4, 10, 6, 11, 0]);
    let sized = |body: &[u8]| [&[body.len() as u8 + 1], body].concat();
    let (checkpoint, event) = (sized(&[1, 0, 0, 0, 0, 0]), sized(&[10, 9]));
    let metadata = sized(&metadata);
    let checkpoint_at = 68 + event.len();
    let metadata_at = checkpoint_at + checkpoint.len();
    let numbers = [metadata_at + metadata.len(), checkpoint_at, metadata_at, 0, 0, 0, 1_000_000_000];
    let mut file = b"FLR\0\0\x02\0\x01".to_vec();
    numbers.iter().for_each(|number| file.extend((*number as u64).to_be_bytes()));
    file.extend([0, 0, 0, 1]);
    [file, event, checkpoint, metadata].concat()
}

/// What the tests of the readers read, and a small profile in every format that can be written.
fn formats() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/formats/tests/data");
    for entry in std::fs::read_dir(data).expect("the readers' data").flatten() {
        let path = entry.path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = if name.ends_with(".xz") {
            output("xz", &["-dc", text(&path)])
        } else {
            std::fs::read(&path).expect("data")
        };
        if let Ok(read) = read(&bytes[..], &FormatOptions::default()) {
            put(&format!("read-{}", read.format), &name, &bytes);
        }
    }
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let stack = ["leaf", "main"].map(|name| {
        let function = builder.named_function(name, "main.rs");
        builder.frame(function, 7)
    });
    let (stack, labels) = (builder.stack(&stack), builder.labels(&[]));
    builder.sample(stack, labels, &[1, 10_000_000]);
    let profile = builder.finish();
    for format in Format::all().iter().filter(|format| format.can_read() && format.can_write()) {
        let mut bytes = Vec::new();
        // Some need moments, which this profile has not.
        if write(&profile, *format, &mut bytes, &FormatOptions::default()).is_err() {
            continue;
        }
        put(&format!("read-{format}"), "written", &bytes);
    }
    put("read-any", "nothing", b"");
    let recording = recording();
    read(&recording[..], &FormatOptions::default()).expect("it is whole");
    put("read-jfr", "small", &recording);
}

const SOURCE: &str = "static inline int inner(int x) { return x * 3 + 1; }\n\
    int middle(int x) { int s = 0; for (int i = 0; i < x; i++) s += inner(i); return s; }\n\
    int outer(int x) { return middle(x) + inner(x); }\n";

/// A tiny library, its debug information and its unwind information.
fn programs() {
    let folder = std::env::temp_dir().join(format!("flamelet-seeds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let source = folder.join("tiny.c");
    std::fs::write(&source, SOURCE).expect("a source");
    for (name, options) in [
        ("dwarf5", ["-gdwarf-5", "-gz=none"]),
        ("dwarf4", ["-gdwarf-4", "-gz=none"]),
        ("zlib", ["-g", "-gz=zlib"]),
    ] {
        let library = folder.join(name);
        let mut arguments = vec![
            "-O2",
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-Wl,-Ttext=0x1000",
            "-Wl,--section-start=.eh_frame=0x3000",
            "-Wl,-z,max-page-size=64",
        ];
        arguments.extend(options);
        arguments.extend(["-o", text(&library), text(&source)]);
        output("cc", &arguments);
        put("elf", name, &std::fs::read(&library).expect("a library"));
        let section = |section: &str| contents(&library, section);
        if name != "zlib" {
            let sections: Vec<Vec<u8>> = DEBUG_SECTIONS.iter().map(|name| section(name)).collect();
            put("dwarf", name, &joined(&sections.iter().map(Vec::as_slice).collect::<Vec<_>>()));
        }
        let stack: Vec<u8> = (0..32u64).flat_map(|word| (0x1000 + word * 8).to_le_bytes()).collect();
        for machine in [0, 1] {
            let start = [machine, 0x10, 0, 0x40, 0x20];
            put("eh-frame", &format!("{name}-{machine}"), &joined(&[&start, &stack, &section(".eh_frame")]));
        }
    }
    std::fs::remove_dir_all(folder).expect("our own folder");
}

/// The bytes of a section; none where there is no such section.
fn contents(library: &Path, section: &str) -> Vec<u8> {
    let out = library.with_extension("section");
    let _ = std::fs::remove_file(&out);
    let dump = format!("--dump-section={section}={}", out.display());
    let _ = Command::new("objcopy").arg(dump).arg(library).arg("/dev/null").output();
    std::fs::read(out).unwrap_or_default()
}

fn ledgers() {
    let mut counts = vec![0; 128 + 64 * 6];
    let mut word = |at: usize, value: u64| counts[at..at + 8].copy_from_slice(&value.to_le_bytes());
    word(offset_of!(Header, magic), MAGIC);
    word(offset_of!(Header, nodes), 6);
    (3..6).for_each(|node| word(128 + 64 * node as usize + 8, node - 1));
    put("ledger-preload", "counts", &counts);
    put(
        "ledger-preload",
        "modules",
        b"program /bin/true\narguments x\nmodule 1 1000 2000 0 abcd /lib/a.so\n",
    );
    let file = std::env::temp_dir().join(format!("flamelet-seed-{}", std::process::id()));
    let options = flamelet_capture::heap::Options::new().sites(64).stack_bytes(65536).live_blocks(64).mean(1);
    options.file(&file).start().expect("the heap profiler starts");
    drop(std::hint::black_box(vec![1u8; 100]));
    let bytes = std::fs::read(&file).expect("a ledger");
    put("ledger-heap", "small", &words(&bytes));
    std::fs::remove_file(file).expect("our own file");
}

fn texts() {
    let requests = [
        "GET /debug/pprof/profile?seconds=5&frequency=99\nhost: a\naccept: text/html\n\n",
        "POST /debug/pprof/symbol\n\n0x4010+0x4020",
        "GET /debug/pprof/growth?seconds=5&windows=8\nreferer: http://a/\nhost: a\n\n",
        "GET /pprof/profile/flamegraph?image_width=700\n\n",
        "GET /debug/pprof/profile?last=60\norigin: null\n\n",
        "GET /debug/pprof/heap?debug=1&gc=1\nhost: localhost:80\nsec-fetch-site: cross-site\n\n",
    ];
    for (at, request) in requests.iter().enumerate() {
        put("http-query", &at.to_string(), request.as_bytes());
    }
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\n\r\n\x1b]0;title\x07no\nway\r\n",
        "HTTP/1.0 200 OK\r\n\r\nwithout a length",
    ];
    for (at, answer) in answers.iter().enumerate() {
        put("remote", &at.to_string(), &joined(&[b"", answer.as_bytes()]));
    }
    // Some, of several kinds; and more than the client follows.
    let redirects = [b"\x00ath?seconds=1\n\x0belsewhere\n\x14\xff".to_vec(), b"\x01loop\n".repeat(16)];
    for (at, lines) in redirects.iter().enumerate() {
        put("remote", &format!("redirects-{at}"), &joined(&[lines, answers[3].as_bytes()]));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
