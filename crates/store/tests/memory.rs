//! What a writer takes of a service's memory, counted by the allocator. The one test of this process, so that nothing else
//! allocates meanwhile.

use flamelet_profile::{NamedLine, Profile, ProfileBuilder};
use flamelet_store::{Options, Writer};
use flamelet_test_support::{CountingAllocator, allocated, most_allocated};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_794_700_800 * SECOND;
const CODE: u64 = 0x5555_0000_0000;

/// A window with stacks that no other window has: 100 of them, 40 frames deep, of which the last 10 are new.
fn window(number: u64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let program = builder.file_mapping(CODE..CODE + (1 << 32), 0, "/bin/service", "0f3a9c");
    for stack in 0..100 {
        let own = |depth: u64| (number * 100 + stack) * 640 + depth * 64;
        let address = |depth: u64| if depth < 30 { depth * 16 } else { 4096 + own(depth - 30) };
        let frames: Vec<_> =
            (0..40).rev().map(|depth| builder.address(Some(program), CODE + address(depth))).collect();
        let stack = builder.stack(&frames);
        builder.sample(stack, flamelet_profile::LabelSetId::EMPTY, &[1]);
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (START + number as i64 * 10 * SECOND, 10 * SECOND);
    builder.finish()
}

/// Names as long as Rust's are.
fn symbolize(profile: &mut Profile) {
    profile.relabel_locations(|profile, id| {
        let place = profile.location(id).address / 64;
        Some(vec![NamedLine {
            name: format!("service::module_{}::Type<alloc::string::String>::method_{place:x}", place % 20),
            system_name: format!("_RNvMs_NtCs9e3779b9_7service_module_{}_method_{place:x}", place % 20),
            filename: format!("/home/build/.cargo/registry/src/service-1.2.3/src/module_{}.rs", place % 20),
            start_line: 7,
            line: 9,
            column: 3,
        }])
    });
}

#[test]
fn a_writer_and_its_names_stay_below_16_megabytes() {
    const MOST_BYTES: usize = 16_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.age = std::time::Duration::from_secs(u64::from(u32::MAX));
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    let before = allocated();
    let held = || allocated().saturating_sub(before);
    let (mut most, mut places) = (0, 0);
    // An hour, without a name looked up: 360,000 places, of which the writer remembers 200,000.
    for number in 0..360 {
        let held = held();
        let window = window(number);
        let (result, taken) = most_allocated(|| writer.append("cpu", &window));
        result.expect("written");
        most = most.max(held + taken);
    }
    assert!(most < MOST_BYTES, "{most} bytes for windows");
    loop {
        let held = held();
        let (kept, taken) = most_allocated(|| {
            let mut unnamed = writer.take_unnamed()?;
            symbolize(&mut unnamed);
            writer.keep_names(&unnamed).ok()
        });
        assert!(held + taken < MOST_BYTES, "{held} bytes held, and {taken} more for names");
        let Some(kept) = kept else { break };
        places += kept;
    }
    assert_eq!(places, 200_000);
    let left = held();
    assert!(left < MOST_BYTES / 2, "{left} bytes are left");
}
