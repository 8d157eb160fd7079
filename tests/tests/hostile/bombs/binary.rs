//! Binary formats, and files that decompress to far more than their size.

use flamelet_tests::wire::{Message, gzip};

use super::{Bomb, Maker};

pub(super) const ALL: &[Maker] = &[
    jfr_nested,
    jfr_arrays,
    jfr_strings,
    perf_data_ids,
    perf_data_forks,
    perf_data_compressed,
    otlp_empty,
    otlp_repeated_stack,
    zeros_in_gzip,
    gzip_in_gzip,
    zstd_window,
    zstd_repeated,
];

/// A flight recording: numbers are fixed, metadata and one event of constants.
struct Recording {
    strings: Vec<String>,
    /// Classes: their names, and the classes of their fields with whether they are arrays.
    classes: Vec<(String, Vec<(usize, bool)>)>,
}

impl Recording {
    fn string(&mut self, text: &str) -> u32 {
        let known = self.strings.iter().position(|known| known == text);
        known.unwrap_or_else(|| {
            self.strings.push(text.into());
            self.strings.len() - 1
        }) as u32
    }

    fn element(&mut self, name: &str, attributes: &[(&str, &str)], children: &[Vec<u8>]) -> Vec<u8> {
        let mut words = vec![self.string(name), attributes.len() as u32];
        for (key, value) in attributes {
            words.extend([self.string(key), self.string(value)]);
        }
        words.push(children.len() as u32);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        children.iter().for_each(|child| bytes.extend(child));
        bytes
    }

    fn class_elements(&mut self) -> Vec<Vec<u8>> {
        let classes = self.classes.clone();
        let elements = classes.iter().enumerate().map(|(id, (name, fields))| {
            let fields: Vec<Vec<u8>> = fields
                .iter()
                .map(|(class, is_array)| {
                    let (class, dimension) = (class.to_string(), u8::from(*is_array).to_string());
                    self.element("field", &[("name", "x"), ("class", &class), ("dimension", &dimension)], &[])
                })
                .collect();
            self.element("class", &[("id", &id.to_string()), ("name", name)], &fields)
        });
        elements.collect()
    }

    /// The file, whose constants are one object of the class 0 with these bytes.
    fn bytes(mut self, object: &[u8]) -> Vec<u8> {
        let classes = self.class_elements();
        let metadata = self.element("metadata", &[], &classes);
        let root = self.element("root", &[], &[metadata]);
        let mut event = [0u8; 32].to_vec();
        event.extend((self.strings.len() as u32).to_be_bytes());
        for text in &self.strings {
            event.push(3);
            event.extend((text.len() as u32).to_be_bytes());
            event.extend(text.as_bytes());
        }
        event.extend(root);
        let metadata = sized(&event);
        // Type, start, duration, no constants before these, why; one pool of class 0 with one object of number 0.
        let mut event = [0u8; 8 * 4 + 1].to_vec();
        event.extend(1u32.to_be_bytes());
        event.extend([0; 8]);
        event.extend(1u32.to_be_bytes());
        event.extend([0; 8]);
        event.extend(object);
        let constants = sized(&event);
        chunk(&metadata, &constants)
    }
}

/// An event with its size in front.
fn sized(event: &[u8]) -> Vec<u8> {
    [&(event.len() as u32 + 4).to_be_bytes()[..], event].concat()
}

fn chunk(metadata: &[u8], constants: &[u8]) -> Vec<u8> {
    const HEADER: usize = 68;
    let size = HEADER + metadata.len() + constants.len();
    let mut bytes = b"FLR\0\0\x02\0\0".to_vec();
    for word in [size, HEADER + metadata.len(), HEADER, 0, 0, 0, 1] {
        bytes.extend((word as u64).to_be_bytes());
    }
    bytes.extend([0; 4]);
    assert_eq!(bytes.len(), HEADER);
    [&bytes[..], metadata, constants].concat()
}

/// Nested structures without any bytes: each level has four times as many as the one below.
pub(super) fn jfr_nested() -> Bomb {
    let classes = (0..24).map(|at| (format!("c{at}"), vec![(at + 1, false); 4]));
    let classes = classes.chain([("c24".into(), Vec::new())]).collect();
    Bomb::new("nested.jfr", Recording { strings: Vec::new(), classes }.bytes(&[]))
}

/// Lists of structures without any bytes: a list of a few bytes claims to be as long as the rest of the file.
fn jfr_arrays() -> Bomb {
    let classes = vec![("c0".into(), vec![(1, true); 200]), ("c1".into(), Vec::new())];
    let object = 100_000u32.to_be_bytes().repeat(200);
    let object = [&object[..], &[0; 100_000]].concat();
    Bomb::packed("arrays.jfr", Recording { strings: Vec::new(), classes }.bytes(&object))
}

fn jfr_strings() -> Bomb {
    let strings = vec![String::new(); 4 << 20];
    Bomb::packed("strings.jfr", Recording { strings, classes: vec![("c0".into(), Vec::new())] }.bytes(&[]))
}

/// The header of perf.data whose events and records are these.
fn perf_data(attrs: &[u8], attr_size: usize, records: &[u8]) -> Vec<u8> {
    const HEADER: usize = 104;
    let data_at = HEADER + attrs.len();
    let mut bytes = b"PERFILE2".to_vec();
    let words = [HEADER, attr_size, HEADER, attrs.len(), data_at, records.len(), 0, 0, 0, 0, 0, 0];
    words.iter().for_each(|&word| bytes.extend((word as u64).to_le_bytes()));
    assert_eq!(bytes.len(), HEADER);
    [&bytes[..], attrs, records].concat()
}

/// An event that samples addresses and threads, and where the list of its ids is.
fn perf_attr(ids_at: usize, ids_size: usize) -> Vec<u8> {
    let mut attr = Vec::new();
    attr.extend([1u32, 64].iter().flat_map(|word| word.to_le_bytes()));
    attr.extend([0u64, 99, 3, 0, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    attr.extend([ids_at, ids_size].iter().flat_map(|&word| (word as u64).to_le_bytes()));
    attr
}

/// Thousands of events that share one list of ids: everything before the records.
fn perf_data_ids() -> Bomb {
    let one = perf_attr(104, 4000 * 80);
    Bomb::packed("ids.perf.data", perf_data(&one.repeat(4000), one.len(), &[]))
}

fn perf_record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (body.len() + 8) as u16;
    [&kind.to_le_bytes()[..], &0u16.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// A process with many mappings, and many children each of which has them too.
fn perf_data_forks() -> Bomb {
    let mut records = Vec::new();
    for at in 0..5000u64 {
        let mut body: Vec<u8> = [1u32, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend([at * 4096, 4096, 0].iter().flat_map(|word| word.to_le_bytes()));
        body.extend(b"m\0\0\0\0\0\0\0");
        records.extend(perf_record(1, &body));
    }
    for pid in 2..8000u32 {
        let body: Vec<u8> = [pid, 1, pid, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        records.extend(perf_record(7, &body));
    }
    let attr = perf_attr(0, 0);
    Bomb::packed("forks.perf.data", perf_data(&attr, attr.len(), &records))
}

/// A frame of zstd with a window of 2^(10 + `exponent`) bytes, and blocks that repeat a byte.
fn zstd_frame(exponent: u8, blocks: usize) -> Vec<u8> {
    const SIZE: usize = 128 << 10;
    const TEXT: &[u8] = b"main;leaf 1\n";
    let block = |size: usize, kind: u32, is_last: u32| {
        ((size as u32) << 3 | kind << 1 | is_last).to_le_bytes()[..3].to_vec()
    };
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3];
    frame.extend(block(TEXT.len(), 0, 0));
    frame.extend(TEXT);
    for at in 0..blocks {
        frame.extend(block(SIZE, 1, u32::from(at + 1 == blocks)));
        frame.push(b'\n');
    }
    frame
}

/// A compressed record that unpacks to gigabytes.
fn perf_data_compressed() -> Bomb {
    let attr = perf_attr(0, 0);
    let record = perf_record(81, &zstd_frame(7, 10_000));
    Bomb::packed("compressed.perf.data", perf_data(&attr, attr.len(), &record))
}

/// A dictionary of empty mappings, locations, functions and stacks.
fn otlp_empty() -> Bomb {
    let mut dictionary = Message::default();
    for field in [1, 2, 3, 6, 7] {
        (0..1 << 20).for_each(|_| _ = dictionary.bytes(field, &[]));
    }
    let mut data = Message::default();
    data.message(2, &dictionary);
    Bomb::packed("empty.otlp", data.into_bytes())
}

/// A long stack, and samples with that stack and always new attributes.
fn otlp_repeated_stack() -> Bomb {
    let mut dictionary = Message::default();
    dictionary.bytes(2, &[]).bytes(5, &[]);
    let mut stack = Message::default();
    stack.packed(1, std::iter::repeat_n(0, 1 << 20));
    dictionary.message(7, &stack);
    let mut profile = Message::default();
    let mut sample = Message::default();
    sample.packed(4, [1]);
    (0..400_000).for_each(|_| _ = profile.message(2, &sample));
    let mut scope = Message::default();
    scope.message(2, &profile);
    let mut resource = Message::default();
    resource.message(2, &scope);
    let mut data = Message::default();
    data.message(2, &dictionary).message(1, &resource);
    Bomb::packed("repeated.otlp", data.into_bytes())
}

fn zeros_in_gzip() -> Bomb {
    Bomb::packed_units("zeros.pb.gz", &[], &[0x0a, 0], 256 << 20)
}

/// Endless text that collapses to nothing, compressed twice.
fn gzip_in_gzip() -> Bomb {
    let once = gzip(&b"main;leaf 1\n".repeat(1 << 20));
    Bomb::packed("twice.folded", once.repeat(40))
}

/// A window of 128 MiB, and little to put into it.
fn zstd_window() -> Bomb {
    Bomb::new("window.zst", zstd_frame(17, 2000))
}

/// 4 GiB in 128 KiB.
fn zstd_repeated() -> Bomb {
    Bomb::new("repeated.zst", zstd_frame(7, 32 << 10))
}
