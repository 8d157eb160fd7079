//! Names outlive the build that they belong to.

use flamelet_profile::{Budget, Limits, NamedLine, Profile};
use flamelet_store::{Options, Reader, Writer};

use crate::support::{THEN, WINDOW, read, window, window_at};

/// Gives every place in the program two functions, the inner one inlined.
fn symbolize(profile: &mut Profile) {
    profile.relabel_locations(|profile, id| {
        let location = profile.location(id);
        let mapping = location.mapping.map(|id| profile.mapping(id))?;
        let offset = location.address - mapping.start + mapping.offset;
        let line = |name: String| NamedLine {
            system_name: format!("_R{name}"),
            filename: "src/main.rs".into(),
            start_line: 7,
            line: offset as i64,
            column: 3,
            name,
        };
        Some(vec![line(format!("inner_{offset:x}")), line("service::run".into())])
    });
}

fn named(reader: &Reader, profile: &mut Profile) -> usize {
    reader.add_names(profile, &Budget::new(Limits::SERVICE)).expect("read")
}

fn names_in(profile: &Profile) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for location in profile.locations() {
        let mapping = location.mapping.map(|id| profile.mapping(id));
        let Some(mapping) = mapping.filter(|mapping| !mapping.build_id.is_empty()) else { continue };
        let lines = profile.lines_of(location).iter();
        let functions = lines.map(|line| {
            let function = profile.function(line.function.expect("named"));
            let text = |id| profile.string(id);
            let (name, system, file) = (function.name, function.system_name, function.filename);
            let place = location.address - mapping.start + mapping.offset;
            assert_eq!((line.line, line.column, function.start_line), (place as i64, 3, 7));
            format!("{} {} {}", text(name), text(system), text(file))
        });
        names.push(functions.collect::<Vec<_>>().join(" in "));
    }
    names.sort();
    names
}

#[test]
fn after_a_redeploy_the_old_windows_have_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    let mut unnamed = writer.take_unnamed().expect("new code");
    assert_eq!(unnamed.locations().len(), 6, "of the program, which has a build id");
    symbolize(&mut unnamed);
    assert_eq!(writer.keep_names(&unnamed).expect("written"), 6);
    assert!(writer.take_unnamed().is_none(), "each place once");
    writer.append("cpu", &window(1)).expect("written");
    let mut unnamed = writer.take_unnamed().expect("new code");
    assert_eq!(unnamed.locations().len(), 2);
    symbolize(&mut unnamed);
    writer.keep_names(&unnamed).expect("written");
    drop(writer);
    // The same build again, at another place: all is known.
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    writer.append("cpu", &window_at(1, THEN + 2 * WINDOW, 0x5500_0000_0000)).expect("written");
    assert!(writer.take_unnamed().is_none());
    let reader = Reader::open(folder.path()).expect("opened");
    let mut profile = read(folder.path(), THEN, i64::MAX).expect("there");
    assert_eq!(named(&reader, &mut profile), 8);
    let expected = names_in(&profile);
    assert_eq!(expected.len(), 8);
    assert!(expected[0].starts_with("inner_"), "{expected:?}");
    assert!(expected[0].ends_with("src/main.rs in service::run _Rservice::run src/main.rs"), "{expected:?}");
    assert!(profile.mappings()[0].symbols.functions && !profile.mappings()[1].symbols.functions);
    // A second time there is nothing to do.
    assert_eq!(named(&reader, &mut profile), 0);
}

#[test]
fn names_go_with_the_last_window_of_their_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    (options.bytes, options.segment_bytes) = (64 << 10, 4 << 10);
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    let has_names = |build: &str| {
        let entries = std::fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("listed"));
        entries
            .into_iter()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("names-{build}-")))
    };
    for number in 0..2000 {
        let mut window = window(number);
        if number >= 100 {
            let build_id = window.intern("cd02");
            window.mappings_mut()[0].build_id = build_id;
        }
        writer.append("cpu", &window).expect("written");
        if let Some(mut unnamed) = writer.take_unnamed().filter(|_| number % 100 == 0) {
            symbolize(&mut unnamed);
            writer.keep_names(&unnamed).expect("written");
        }
        let is_there = crate::support::read_window(folder.path(), 0).is_some();
        assert!(!is_there || has_names("ab01"), "{number}");
    }
    assert!(has_names("cd02") && !has_names("ab01"));
}

#[test]
fn damaged_names_are_missing_and_not_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    let mut unnamed = writer.take_unnamed().expect("new code");
    symbolize(&mut unnamed);
    writer.keep_names(&unnamed).expect("written");
    let entries =
        std::fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("listed").path());
    let path =
        entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "names")).expect("one");
    let bytes = std::fs::read(&path).expect("read");
    let reader = Reader::open(folder.path()).expect("opened");
    let whole = read(folder.path(), THEN, i64::MAX).expect("there");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).expect("written");
        let mut profile = whole.clone();
        assert_eq!(named(&reader, &mut profile), 0, "byte {at}");
    }
}

#[test]
fn a_names_file_whose_first_write_failed_is_used_again() {
    for left in [&b""[..], b"flamelet na"] {
        let folder = tempfile::tempdir().expect("a folder");
        // What a process leaves that is killed before it has written the header.
        std::fs::write(folder.path().join("names-ab01-0000000001.names"), left).expect("written");
        let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
        for number in 0..2 {
            writer.append("cpu", &window(number)).expect("written");
            let mut unnamed = writer.take_unnamed().expect("new code");
            symbolize(&mut unnamed);
            writer.keep_names(&unnamed).expect("written");
        }
        let reader = Reader::open(folder.path()).expect("opened");
        let mut profile = read(folder.path(), THEN, i64::MAX).expect("there");
        assert_eq!(named(&reader, &mut profile), 8, "{left:?}");
    }
}

#[test]
fn names_that_could_not_be_kept_are_asked_for_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    let mut unnamed = writer.take_unnamed().expect("new code");
    symbolize(&mut unnamed);
    // Something else has the name of the file.
    let taken = folder.path().join("names-ab01-0000000001.names");
    std::fs::create_dir(&taken).expect("created");
    writer.keep_names(&unnamed).expect_err("taken");
    std::fs::remove_dir(&taken).expect("removed");
    let mut again = writer.take_unnamed().expect("the same code");
    assert_eq!(again.locations().len(), unnamed.locations().len());
    symbolize(&mut again);
    assert_eq!(writer.keep_names(&again).expect("written"), 6);
    assert!(writer.take_unnamed().is_none());
}
