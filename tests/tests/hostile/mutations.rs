//! The fuzz corpus and thousands of seeded mutations of real profiles, through the codec and the filters in
//! this process; and a few dozen through the command.

use flamelet_tests::confined::with_little_memory;
use flamelet_tests::mutate::{Random, mutated};
use flamelet_tests::{profiles, programs, synthetic, wire};

use flamelet_profile::filter::FilterOptions;
use flamelet_profile::pprof::{self, Limits};

/// Small enough that a profile with a false size is refused.
const LIMITS: Limits = Limits::of_memory(256 << 20);

/// Plain protobuf of every profile the tests know.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        profiles::go().iter().map(|path| wire::gunzip(&std::fs::read(path).expect("testdata"))).collect();
    seeds.push(wire::gunzip(&synthetic::corners()));
    seeds.push(wire::gunzip(&synthetic::negative()));
    seeds
}

/// Reads, filters, writes and reads again; what was written must be readable and mean the same.
fn exercise(bytes: &[u8]) {
    let Ok(mut profile) = pprof::read(bytes, &LIMITS) else { return };
    let written = pprof::encode(&profile);
    let again = pprof::read(&written, &LIMITS).expect("what was written is readable");
    assert_eq!(pprof::encode(&again), written, "writing is not stable");
    let options = FilterOptions {
        focus: "main|parse|a".into(),
        hide: "runtime|sort".into(),
        tag_focus: "GET|bytes=1kb:".into(),
        show_from: "main".into(),
        ..FilterOptions::default()
    };
    let filter = options.compile().expect("the options are fine");
    filter.apply(&mut profile);
    pprof::read(&pprof::encode(&profile), &LIMITS).expect("a filtered profile is readable");
}

#[test]
fn seeded_mutations_do_no_harm() {
    let mut random = Random::new(2026);
    for seed in seeds() {
        exercise(&seed);
        for _ in 0..1500 {
            exercise(&mutated(&seed, &mut random));
        }
    }
}

#[test]
fn the_fuzz_corpus_does_no_harm() {
    let corpus = programs::repository().join("fuzz/corpus");
    if std::env::var_os("FLAMELET_REGENERATE").is_some() {
        write_corpus(&corpus);
    }
    let mut replayed = 0;
    for target in std::fs::read_dir(&corpus).expect("fuzz/corpus") {
        for entry in std::fs::read_dir(target.expect("an entry").path()).expect("a target's corpus") {
            let bytes = std::fs::read(entry.expect("an entry").path()).expect("a corpus file");
            exercise(&bytes);
            // The filter target's input begins with a line of text.
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
            exercise(bytes.get(end + 1..).unwrap_or_default());
            replayed += 1;
        }
    }
    assert!(replayed >= 10, "only {replayed} files in the corpus");
}

/// Starting points for the fuzzer: every seed whole, and two damaged copies of each.
fn write_corpus(corpus: &std::path::Path) {
    let mut random = Random::new(5);
    for (target, head) in [("decode", ""), ("filter", "main|GET|1kb:64kb\n")] {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder).expect("fuzz/corpus");
        for (n, seed) in seeds().iter().enumerate() {
            let write = |name: String, bytes: &[u8]| {
                let content = [head.as_bytes(), bytes].concat();
                std::fs::write(folder.join(name), content).expect("a corpus file");
            };
            write(format!("seed-{n}"), seed);
            for copy in 0..2 {
                write(format!("damaged-{n}-{copy}"), &mutated(seed, &mut random));
            }
        }
    }
}

#[test]
fn the_command_answers_or_refuses() {
    let mut random = Random::new(99);
    let seed = wire::gunzip(&synthetic::corners());
    for n in 0..60 {
        let path = profiles::scratch().join(format!("mutant-{n}"));
        std::fs::write(&path, mutated(&seed, &mut random)).expect("a mutant");
        let verb = ["top", "tree", "traces", "tags", "flame"][n % 5];
        let answer = with_little_memory([verb.as_ref(), path.as_os_str()]);
        match answer.status {
            Some(0) => {}
            Some(2) => assert_eq!(answer.stderr.trim_end().lines().count(), 1, "{verb}: {}", answer.stderr),
            other => panic!("{verb} on mutant {n}: status {other:?}: {:.2000}", answer.stderr),
        }
    }
}
