//! Well-formed protobuf that is not a possible profile.

use flamelet_tests::confined::{assert_refused, with_little_memory};
use flamelet_tests::profiles;
use flamelet_tests::wire::{Message, ProfileFile};

/// A profile with one sample over one location, and room for one mistake.
fn profile() -> (ProfileFile, u64) {
    let mut file = ProfileFile::new(&[("cpu", "nanoseconds")]);
    let mapping = file.mapping(0x1000, 0x2000, 0, "/bin/x", "");
    let function = file.function("f", "f", "f.c", 1);
    let location = file.location(mapping, 0x1234, &[(function, 1, 0)]);
    (file, location)
}

fn refused(name: &str, bytes: Vec<u8>) {
    let path = profiles::written(name, || bytes);
    assert_refused(&with_little_memory(["top".as_ref(), path.as_os_str()]), &path);
}

/// The profile's bytes with one more top-level field after them.
fn with_field(file: ProfileFile, field: u64, message: &Message) -> Vec<u8> {
    let mut extra = Message::default();
    extra.message(field, message);
    [file.into_bytes(), extra.into_bytes()].concat()
}

#[test]
fn the_model_itself_is_fine() {
    let (mut file, location) = profile();
    file.sample(&[location], &[1], &[]);
    let path = profiles::written("fine.pb", || file.into_bytes());
    assert_eq!(with_little_memory(["top".as_ref(), path.as_os_str()]).status, Some(0));
}

#[test]
fn ids_that_point_nowhere() {
    let (mut file, _) = profile();
    file.sample(&[77], &[1], &[]);
    refused("no-such-location", file.into_bytes());

    let (mut file, _) = profile();
    let location = file.location(1, 0x1300, &[(99, 1, 0)]);
    file.sample(&[location], &[1], &[]);
    refused("no-such-function", file.into_bytes());

    let (mut file, _) = profile();
    let location = file.location(55, 0x1300, &[]);
    file.sample(&[location], &[1], &[]);
    refused("no-such-mapping", file.into_bytes());

    let (file, _) = profile();
    let mut function = Message::default();
    function.varint(1, 9).varint(2, 12_345);
    refused("no-such-string", with_field(file, 5, &function));

    let (file, _) = profile();
    let mut huge = Message::default();
    huge.varint(1, u64::MAX).varint(2, u64::MAX);
    refused("huge-string-index", with_field(file, 5, &huge));
}

#[test]
fn ids_that_are_taken_or_zero() {
    for (name, field) in [("mapping", 3), ("location", 4), ("function", 5)] {
        let (file, _) = profile();
        let mut again = Message::default();
        again.varint(1, 1);
        refused(&format!("{name}-twice"), with_field(file, field, &again));
        let (file, _) = profile();
        refused(&format!("{name}-zero"), with_field(file, field, &Message::default()));
    }
}

#[test]
fn values_that_do_not_fit_the_types() {
    for values in [&[][..], &[1, 2], &[1, 2, 3]] {
        let (mut file, location) = profile();
        file.sample(&[location], values, &[]);
        refused(&format!("values-{}", values.len()), file.into_bytes());
    }
}

#[test]
fn lengths_that_reach_beyond_the_file() {
    let (mut file, location) = profile();
    file.sample(&[location], &[1], &[]);
    let plain = file.into_bytes();
    for (name, length) in [("a-little", 100), ("four-gib", 1 << 32), ("everything", u64::MAX)] {
        let mut head = Message::default();
        head.raw_varint(2 << 3 | 2);
        head.raw_varint(length);
        let bytes = [plain.clone(), head.into_bytes(), vec![1, 2, 3]].concat();
        refused(&format!("length-{name}"), bytes);
    }
}

#[test]
fn varints_without_an_end() {
    let (file, _) = profile();
    let bytes = [file.into_bytes(), vec![0x48], vec![0x80; 40]].concat();
    refused("endless-varint", bytes);
}

/// Unknown fields are for later versions to use: they are skipped, whatever their type.
#[test]
fn unknown_fields_are_skipped() {
    let (mut file, location) = profile();
    file.sample(&[location], &[1], &[]);
    let mut extra = Message::default();
    extra.varint(900, 5).bytes(901, b"later");
    let fixed = [0x89, 0x39, 1, 2, 3, 4, 5, 6, 7, 8, 0x8d, 0x39, 1, 2, 3, 4];
    let bytes = [file.into_bytes(), extra.into_bytes(), fixed.to_vec()].concat();
    let path = profiles::written("later-fields", || bytes);
    let answer = with_little_memory(["top".as_ref(), path.as_os_str()]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
}

/// A table of a million strings, all the same tiny one, and deep nesting of nothing.
#[test]
fn tables_of_nothing_cost_little() {
    let (mut file, location) = profile();
    file.sample(&[location], &[1], &[]);
    let bytes = [file.into_bytes(), [0x32, 0x00].repeat(1 << 20)].concat();
    let path = profiles::written("empty-strings", || bytes);
    assert_eq!(with_little_memory(["top".as_ref(), path.as_os_str()]).status, Some(0));
}

/// A stack of a hundred thousand frames, and one function that calls itself all the way.
#[test]
fn very_deep_stacks() {
    let (mut file, location) = profile();
    file.sample(&vec![location; 100_000], &[5], &[]);
    let path = profiles::written("deep.pb", || file.into_bytes());
    for verb in ["top", "tree", "traces", "flame"] {
        let answer = with_little_memory([verb.as_ref(), path.as_os_str()]);
        assert_eq!(answer.status, Some(0), "{verb}: {:.500}", answer.stderr);
    }
}
