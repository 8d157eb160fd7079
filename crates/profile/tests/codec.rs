//! The codec: a written profile is read back unchanged, and no input makes it panic.

use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{
    Budget, ErrorKind, Event, Function, Line, Mapping, MappingSymbols, Profile, ProfileBuilder, Quality,
    Thread, ThreadId, Timeline,
};
use flamelet_test_support::Random;

/// A profile that uses every field.
fn full_profile() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let (filename, build_id) = (builder.string("/usr/bin/service"), builder.string("c0ffee"));
    let mapping = builder.mapping(Mapping {
        start: 0x1000,
        limit: 0x9000,
        offset: 0x200,
        filename,
        build_id,
        symbols: MappingSymbols::ALL,
    });
    let (name, system_name) = (builder.string("service::work<T>"), builder.string("_RNvC7service4work"));
    let source = builder.string("src/work.rs");
    let work = builder.function(Function { name, system_name, filename: source, start_line: 12 });
    let main = builder.named_function("main", "src/main.rs");
    let inlined = [
        Line { function: Some(work), line: 14, column: 9 },
        Line { function: Some(main), line: 3, column: 0 },
    ];
    let leaf = builder.location(Some(mapping), 0x1234, &inlined);
    let raw = builder.address(Some(mapping), 0x2222);
    let stack = builder.stack(&[leaf, raw]);
    let shallow = builder.stack(&[raw]);
    let route = builder.text_label("route", "/checkout");
    let bytes = builder.number_label("bytes", 4096, "bytes");
    let labels = builder.labels(&[route, bytes]);
    builder.merge_sample(stack, labels, &[2, 20_000_000]);
    builder.merge_sample(stack, labels, &[1, 10_000_000]);
    builder.sample(shallow, Default::default(), &[1, -10_000_000]);
    builder.comment("a comment");
    let period_type = builder.value_type("cpu", "nanoseconds");
    let (cpu, drop, keep, url) =
        (builder.string("cpu"), builder.string("drop.*"), builder.string("keep"), builder.string("doc"));
    let header = builder.header_mut();
    header.time_nanos = 1_700_000_000_000_000_000;
    header.duration_nanos = 30_000_000_000;
    header.period_type = Some(period_type);
    header.period = 10_000_000;
    header.default_sample_type = cpu;
    (header.drop_frames, header.keep_frames, header.doc_url) = (drop, keep, url);
    let (worker, process, engine) =
        (builder.string("worker-1"), builder.string("service"), builder.string("timer"));
    let event = |time, sample, value| Event { time, sample, thread: ThreadId::from_index(0), value };
    let timeline = Timeline {
        start_nanos: 1_700_000_000_000_000_000,
        threads: vec![Thread { pid: 7, tid: 8, name: worker, process }],
        events: vec![event(5, 0, 2), event(9, 1, -1), event(9, 0, 1)],
        value_type: 0,
    };
    let quality = Quality {
        engine,
        asked_millihertz: 99_000,
        achieved_millihertz: 98_500,
        samples: 4,
        lost: 1,
        truncated: 2,
        unresolved: 3,
        own_cpu_nanos: 1_234_567,
    };
    builder.finish_with(Some(timeline), Some(quality))
}

#[test]
fn every_field_survives_a_round_trip() {
    let profile = full_profile();
    let bytes = pprof::encode(&profile);
    let read = pprof::decode(&bytes, &Limits::default()).unwrap();
    assert_eq!(pprof::encode(&read), bytes, "equal profiles give equal bytes");
    assert_eq!(read.sample_count(), 2);
    let sample = read.sample(0);
    assert_eq!(sample.values, [3, 30_000_000]);
    let stack = read.stack(sample.stack);
    let lines = read.lines(stack[0]);
    assert_eq!((lines.len(), lines[0].line, lines[0].column), (2, 14, 9));
    let function = read.function(lines[0].function.unwrap());
    assert_eq!(read.string(function.name), "service::work<T>");
    assert_eq!(read.string(function.system_name), "_RNvC7service4work");
    assert_eq!((read.string(function.filename), function.start_line), ("src/work.rs", 12));
    let location = read.location(stack[1]);
    assert_eq!((location.address, location.mapping.is_some()), (0x2222, true));
    let mapping = read.mappings()[0];
    assert_eq!((mapping.start, mapping.limit, mapping.offset), (0x1000, 0x9000, 0x200));
    assert_eq!(mapping.symbols, MappingSymbols::ALL);
    assert_eq!(read.string(mapping.build_id), "c0ffee");
    let labels = read.labels(sample.labels);
    assert_eq!(read.string(labels[0].text), "/checkout");
    assert_eq!((labels[1].number, read.string(labels[1].unit)), (4096, "bytes"));
    assert_eq!(read.header.time_nanos, profile.header.time_nanos);
    assert_eq!(read.header.duration_nanos, 30_000_000_000);
    assert_eq!(read.string(read.header.drop_frames), "drop.*");
    assert_eq!(read.string(read.header.keep_frames), "keep");
    assert_eq!(read.string(read.header.doc_url), "doc");
    assert_eq!(read.comments().collect::<Vec<_>>(), ["a comment"]);
    assert_eq!(read.default_sample_index(), 1);
    let timeline = read.timeline.as_ref().unwrap();
    assert_eq!(timeline.events, profile.timeline.as_ref().unwrap().events);
    assert_eq!(read.string(timeline.threads[0].name), "worker-1");
    assert_eq!(read.quality.unwrap().achieved_millihertz, 98_500);
    assert_eq!(read.string(read.quality.unwrap().engine), "timer");
}

#[test]
fn gzip_is_read_and_written() {
    let profile = full_profile();
    let mut packed = Vec::new();
    pprof::write_gzip(&profile, &mut packed).unwrap();
    assert_eq!(pprof::packing(&packed), pprof::Packing::Gzip);
    let read = pprof::read(&packed, &Limits::default()).unwrap();
    assert_eq!(pprof::encode(&read), pprof::encode(&profile));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_gzip_bomb_stops_at_the_cap() {
    let limits = Limits::of_memory(1 << 20);
    let error = |content: &[u8]| pprof::read(&gzip(content), &limits).unwrap_err().kind();
    let sample_types = [0x0a, 0].repeat(2 << 20);
    assert_eq!(error(&sample_types), ErrorKind::OutOfMemory);
    let samples = [0x12, 0].repeat(2 << 20);
    assert_eq!(error(&samples), ErrorKind::OutOfMemory);
    // Samples of 1 KiB in an unknown field: nothing of it is kept.
    let padded = [&[0x12, 0x83, 0x08, 0x7a, 0x80, 0x08][..], &[0; 1 << 10]].concat();
    assert_eq!(error(&padded.repeat(4 << 10)), ErrorKind::OutOfWork);
    assert_eq!(error(&[0; 4 << 20]), ErrorKind::WrongFormat);
}

#[test]
fn pieces_of_any_size_give_the_same_profile() {
    let bytes = pprof::encode(&full_profile());
    for size in 1..bytes.len() {
        let mut decoder = pprof::StreamDecoder::new(&Budget::new(Limits::default())).unwrap();
        bytes.chunks(size).for_each(|piece| decoder.add(piece).unwrap());
        assert_eq!(pprof::encode(&decoder.finish().unwrap()), bytes, "pieces of {size} bytes");
    }
}

/// Ids need not count from 1 or fit 32 bits, tables may come in any order, and a string may be there twice.
#[test]
fn samples_may_use_any_numbers() {
    let far = u64::MAX;
    let mut message = MessageWriter::default();
    for (locations, text) in [(&[far, 1 << 31, 7][..], 2), (&[5, 1 << 31, 7], 3), (&[7], 2)] {
        message.message(2, |sample| {
            sample.packed(1, locations.iter().copied());
            sample.packed(2, [1].into_iter());
            sample.message(3, |label| {
                label.uint(1, 1);
                label.uint(2, text);
            });
        });
    }
    for (id, address) in [(7, 70), (far, 71), (1 << 31, 72), (5, 73)] {
        message.message(4, |location| {
            location.uint(1, id);
            location.uint(3, address);
        });
    }
    ["", "route", "/", "/"].iter().for_each(|text| message.bytes(6, text.as_bytes()));
    message.message(1, |_| {});
    let read = pprof::decode(message.as_bytes(), &Limits::default()).unwrap();
    let addresses = |sample: usize| -> Vec<u64> {
        let stack = read.stack(read.sample(sample).stack);
        stack.iter().map(|&id| read.location(id).address).collect()
    };
    assert_eq!([0, 1, 2].map(addresses), [vec![71, 72, 70], vec![73, 72, 70], vec![70]]);
    assert_eq!(read.sample(0).labels, read.sample(1).labels, "equal labels are one set");
    assert_eq!(read.string(read.labels(read.sample(1).labels)[0].text), "/");
    assert_eq!(read.label_set_count(), 2);
}

#[test]
fn contradictions_are_named() {
    let message = |bytes: &[u8]| pprof::decode(bytes, &Limits::default()).unwrap_err();
    assert_eq!(message(b"").kind(), ErrorKind::Truncated);
    // A sample without sample types.
    assert!(message(&[0x12, 0x00]).to_string().contains("no sample types"));
    // One sample type, a sample without values.
    assert!(message(&[0x0a, 0x00, 0x12, 0x00]).to_string().contains("0 values for 1 sample types"));
    // Samples with one value and with two.
    let widths = message(&[0x0a, 0x00, 0x12, 0x03, 0x12, 0x01, 1, 0x12, 0x04, 0x12, 0x02, 1, 1]);
    assert!(widths.to_string().contains("a sample has 2 values and another 1"), "{widths}");
    // A label whose key is string 5 of 0, and one beyond any table.
    let label = message(&[0x0a, 0x00, 0x12, 0x07, 0x12, 0x01, 1, 0x1a, 0x02, 0x08, 5]);
    assert!(label.to_string().contains("refers to string 5 of 0"), "{label}");
    let far = message(&[0x0a, 0, 0x12, 11, 0x12, 1, 1, 0x1a, 6, 0x08, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert!(far.to_string().contains("refers to string 34359738367"), "{far}");
    // A sample at location 7, which is missing.
    let missing = message(&[0x0a, 0x00, 0x12, 0x06, 0x0a, 0x01, 0x07, 0x12, 0x01, 0x01]);
    assert!(missing.to_string().contains("refers to location 7, which is missing"), "{missing}");
    // Two locations with the id 3.
    let twice = message(&[0x22, 0x02, 0x08, 0x03, 0x22, 0x02, 0x08, 0x03, 0x32, 0x00]);
    assert!(twice.to_string().contains("two locations have the id 3"), "{twice}");
    // A sample type whose name is string 9 of 1.
    let string = message(&[0x0a, 0x02, 0x08, 0x09, 0x32, 0x00]);
    assert!(string.to_string().contains("string 9 of 1"), "{string}");
}

#[test]
fn no_mutation_panics() {
    let original = pprof::encode(&full_profile());
    let limits = Limits::of_memory(16 << 20);
    for cut in 0..original.len() {
        let _ = pprof::decode(&original[..cut], &limits);
    }
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for _ in 0..5_000 {
        let mut bytes = original.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.below(256) as u8),
            }
        }
        if let Ok(profile) = pprof::decode(&bytes, &limits) {
            accepted += 1;
            let again = pprof::decode(&pprof::encode(&profile), &limits).expect("what is written is read");
            assert_eq!(again.sample_count(), profile.sample_count());
        }
    }
    assert!(accepted > 0, "some mutations leave a readable profile");
}

#[test]
fn zstd_of_several_frames_is_read_to_its_end() {
    let bytes = pprof::encode(&full_profile());
    let pack =
        |part: &[u8]| ruzstd::encoding::compress_to_vec(part, ruzstd::encoding::CompressionLevel::Fastest);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let packed = [pack(first), pack(second)].concat();
    let read = pprof::read(&packed, &Limits::default()).expect("readable");
    assert_eq!(read.sample_count(), full_profile().sample_count());
    let tight = Limits::of_memory(bytes.len() as u64 - 1);
    assert_eq!(pprof::read(&packed, &tight).expect_err("too much").kind(), ErrorKind::OutOfMemory);
}
