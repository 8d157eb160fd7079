//! Files that are truncated, scrambled, or not profiles.

use std::path::PathBuf;

use flamelet_tests::confined::{assert_refused, with_little_memory};
use flamelet_tests::mutate::Random;
use flamelet_tests::{profiles, synthetic, wire};

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    profiles::written(name, || bytes.to_vec())
}

/// Every verb that reads a profile refuses the file in the same way.
fn refused_by_every_verb(file: &std::path::Path) {
    for verb in ["top", "tree", "traces", "tags", "raw", "info", "flame"] {
        assert_refused(&with_little_memory([verb.as_ref(), file.as_os_str()]), file);
    }
    assert_refused(&with_little_memory(["pprof".as_ref(), "-top".as_ref(), file.as_os_str()]), file);
}

#[test]
fn nothing_at_all() {
    refused_by_every_verb(&file("empty.pb.gz", b""));
}

#[test]
fn a_file_that_does_not_exist() {
    refused_by_every_verb(&profiles::scratch().join("not-there.pb.gz"));
}

#[test]
fn a_folder() {
    let folder = profiles::scratch().join("folder.pb.gz");
    std::fs::create_dir_all(&folder).expect("a folder");
    assert_refused(&with_little_memory(["top".as_ref(), folder.as_os_str()]), &folder);
}

#[test]
fn something_else() {
    let text = "This is a text, and no profile.\n".repeat(40);
    refused_by_every_verb(&file("letter.txt", text.as_bytes()));
    refused_by_every_verb(&file("packed-letter.gz", &wire::gzip(text.as_bytes())));
    let program = std::fs::read(flamelet_tests::programs::flamelet()).expect("our own program");
    refused_by_every_verb(&file("program", &program[..100_000]));
    refused_by_every_verb(&file("zeros", &[0; 4096]));
    refused_by_every_verb(&file("ones", &[0xff; 4096]));
}

#[test]
fn random_bytes() {
    let mut random = Random::new(1);
    for size in [1, 2, 16, 300, 20_000] {
        let bytes: Vec<u8> = (0..size).map(|_| random.bits() as u8).collect();
        let file = file(&format!("random-{size}"), &bytes);
        assert_refused(&with_little_memory(["top".as_ref(), file.as_os_str()]), &file);
    }
}

#[test]
fn cut_short_while_packed() {
    let whole = synthetic::wide();
    for tenths in 0..10 {
        let cut = file(&format!("cut-{tenths}.pb.gz"), &whole[..(whole.len() * tenths / 10).max(5)]);
        assert_refused(&with_little_memory(["top".as_ref(), cut.as_os_str()]), &cut);
    }
}

#[test]
fn a_flipped_bit_in_packed_data_is_noticed() {
    let whole = synthetic::wide();
    let mut random = Random::new(3);
    for n in 0..12 {
        let mut bytes = whole.clone();
        // After gzip's header, whose time and system fields have no effect.
        let at = 10 + random.below(bytes.len() - 10);
        bytes[at] ^= 1 << random.below(8);
        let flipped = file(&format!("flipped-{n}.pb.gz"), &bytes);
        assert_refused(&with_little_memory(["top".as_ref(), flipped.as_os_str()]), &flipped);
    }
}

/// A field that is cut in the middle must be detected; a cut between two fields leaves a shorter profile, whose
/// ids point nowhere.
#[test]
fn cut_short_while_plain() {
    let whole = wire::gunzip(&synthetic::corners());
    for hundredths in 1..100 {
        let cut = file(&format!("plain-cut-{hundredths}"), &whole[..whole.len() * hundredths / 100]);
        assert_refused(&with_little_memory(["top".as_ref(), cut.as_os_str()]), &cut);
    }
}

/// A few megabytes that decompress to many gigabytes of valid, useless fields.
#[test]
fn a_gzip_bomb() {
    let bomb = file("bomb.pb.gz", &bomb(6_000));
    let answer =
        with_little_memory(["top".as_ref(), "--max-memory".as_ref(), "1".as_ref(), bomb.as_os_str()]);
    assert_refused(&answer, &bomb);
    assert!(
        answer.stderr.contains("--max-memory"),
        "it does not say how to raise the cap: {}",
        answer.stderr
    );
}

/// A deflate stream whose block of `\x32\x00` (an empty string of the string table) is repeated, after a full
/// flush, as often as wanted: each repeat unpacks to 1 MiB.
fn bomb(mebibytes: usize) -> Vec<u8> {
    use flate2::{Compress, Compression, FlushCompress};
    let mut compress = Compress::new(Compression::best(), false);
    let plain = [0x32, 0x00].repeat(1 << 19);
    let mut block = Vec::with_capacity(1 << 16);
    compress.compress_vec(&plain, &mut block, FlushCompress::Full).expect("compressing into memory");
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for _ in 0..mebibytes {
        bytes.extend_from_slice(&block);
    }
    bytes
}
