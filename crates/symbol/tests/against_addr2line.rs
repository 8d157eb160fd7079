//! The addr2line crate reads the same debug information another way; both must see the same.

mod support;

use flamelet_symbol::MappedAt;
use flamelet_symbol::symbolize::{Frame, ModuleName, SymbolizeOptions, Symbolizer};
use object::{Object, ObjectSection};
use support::Program;

/// (linkage name, file, line, column) of each frame, innermost first.
type Frames = Vec<(String, String, u32, u32)>;

fn theirs(loader: &addr2line::Loader, address: u64) -> Frames {
    let mut frames = Vec::new();
    let mut iterator = loader.find_frames(address).expect("readable");
    while let Some(frame) = iterator.next().expect("readable") {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let place = frame.location;
        let file = place.as_ref().and_then(|place| place.file).unwrap_or_default().to_owned();
        let line = place.as_ref().and_then(|place| place.line).unwrap_or(0);
        let column = place.as_ref().and_then(|place| place.column).unwrap_or(0);
        frames.push((name.unwrap_or_default().into_owned(), file, line, column));
    }
    frames
}

fn ours(frames: &[Frame]) -> Frames {
    let row = |frame: &Frame| {
        // A name that is not mangled but has angle brackets is stored without a system name.
        let name = if frame.system_name.is_empty() { &frame.name } else { &frame.system_name };
        (name.to_string(), frame.file.to_string(), frame.line, frame.column)
    };
    frames.iter().map(row).collect()
}

/// Looks up `count` addresses, spread over the code of the file, with both.
fn compare(path: &str, count: u64) {
    let bytes = std::fs::read(path).expect("readable");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let text = file.section_by_name(".text").expect("code");
    let addresses: Vec<u64> = (0..count).map(|step| text.address() + text.size() * step / count).collect();
    let module = ModuleName { path: path.to_owned(), build_id: String::new() };
    let answers =
        Symbolizer::new(SymbolizeOptions::default()).frames(&module, MappedAt::default(), &addresses);
    let loader = addr2line::Loader::new(path).expect("readable");
    let (mut compared, mut differences) = (0, Vec::new());
    for (&address, answer) in addresses.iter().zip(&answers) {
        let theirs = theirs(&loader, address);
        // Where the debug information has nothing, we use symbol tables.
        if theirs.is_empty() {
            continue;
        }
        compared += 1;
        let mut ours = ours(answer);
        // Where it has lines but no function, or one without a linkage name, we use the symbol's name.
        if let (Some(own), Some(other)) = (ours.last_mut(), theirs.last())
            && !other.0.starts_with("_R")
            && !other.0.starts_with("_Z")
        {
            own.0.clone_from(&other.0);
        }
        if ours != theirs {
            differences.push(format!("{address:#x}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    assert!(compared * 2 > count, "{compared} of {count} addresses have debug information");
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {compared} differ:\n{shown}", differences.len());
}

/// This test itself: many units, most of the code not optimized.
#[test]
fn this_program() {
    compare(&std::env::current_exe().expect("known").display().to_string(), 3000);
}

#[test]
fn an_optimized_program() {
    let program = Program::rust(&["-Copt-level=3", "-g", "-Clto=fat"]);
    compare(&program.path.display().to_string(), 3000);
}
