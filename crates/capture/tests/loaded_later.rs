//! Libraries that are loaded, called and unloaded while a capture runs: stacks through them reach the start of the
//! thread, and the profile assigns frames to the right library, even after it is unloaded or replaced by another at
//! the same address.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code, reason = "loads libraries")]

mod support;

use flamelet_capture::cpu::{self, Options, Session};
use flamelet_capture::labels;
use flamelet_profile::{LocationId, Profile};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Names, turn, work};

const PATIENCE: Duration = Duration::from_secs(60);
/// Samples of each part.
const ENOUGH: u64 = 20;
const ROUNDS: u64 = 200_000;

/// Builds the library under its own name; other builds have the same size.
fn build(name: &str, number: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loaded_later");
    std::fs::create_dir_all(&folder).expect("a folder");
    let library = folder.join(format!("lib{name}-{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wl,--build-id", &format!("-DNUMBER={number}"), "-o"]);
    compiler.arg(&library).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loaded_later/library.c"));
    let built = compiler.output().expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

type Spin = extern "C" fn(u64) -> u64;
type CallBack = extern "C" fn(Spin, u64) -> u64;

/// A loaded library.
struct Loaded {
    handle: *mut libc::c_void,
    spin: Spin,
    call_back: CallBack,
}

impl Loaded {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().expect("a plain path")).expect("no zero");
        // SAFETY: the library has functions of these types under these names.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
            let [spin, call_back] = [c"spin", c"call_back"].map(|name| libc::dlsym(handle, name.as_ptr()));
            assert!(!spin.is_null() && !call_back.is_null());
            let spin = std::mem::transmute::<*mut libc::c_void, Spin>(spin);
            let call_back = std::mem::transmute::<*mut libc::c_void, CallBack>(call_back);
            Self { handle, spin, call_back }
        }
    }

    fn address(&self) -> u64 {
        self.spin as *const () as u64
    }

    /// Unloads it; returns its address.
    fn close(self) -> u64 {
        // SAFETY: its functions are not called any more: they went with `self`.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
        self.address()
    }
}

/// Waits until the capture's own thread has learned that `path` is at `address`.
fn wait_until_learned(address: u64, path: &Path) {
    let end = Instant::now() + PATIENCE;
    let is_learned = || {
        let modules = flamelet_unwind::live::modules();
        modules.find(address).is_some_and(|module| path.as_os_str() == &*module.name)
    };
    while !is_learned() {
        assert!(Instant::now() < end, "{} was not noticed", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The capture learns what the unwinder knows now, at the latest.
    cpu::status();
}

/// Runs `once` again and again, labelled, until it was sampled often enough.
fn until_sampled(label: &str, mut once: impl FnMut()) {
    let _scope = labels::scope([("part", label)]);
    let (end, before) = (Instant::now() + PATIENCE, cpu::status().samples);
    while cpu::status().samples < before + ENOUGH && Instant::now() < end {
        (0..100).for_each(|_| once());
    }
}

#[inline(never)]
extern "C" fn in_the_program(rounds: u64) -> u64 {
    std::hint::black_box((0..rounds / 20_000).fold(1, |hash, _| work(std::hint::black_box(hash))))
}

/// Calls both functions, each under a label with the library's `name`.
fn call_both(library: &Loaded, name: &str) {
    until_sampled(&format!("{name} leaf"), || {
        std::hint::black_box((library.spin)(std::hint::black_box(ROUNDS)));
    });
    until_sampled(&format!("{name} middle"), || {
        std::hint::black_box((library.call_back)(in_the_program, std::hint::black_box(ROUNDS)));
    });
}

fn start() -> Session {
    let mut options = Options::with_frequency(499);
    options.overhead_budget = None;
    cpu::start(&options).expect("starts")
}

fn file(profile: &Profile, id: LocationId) -> &str {
    let mapping = profile.location(id).mapping.map(|id| profile.mapping(id).filename);
    mapping.map_or("", |name| profile.string(name))
}

/// Most samples of a part must satisfy `is_right`. (Some may be in the loop around it.)
fn assert_most(profile: &Profile, part: &str, is_right: impl Fn(&[LocationId]) -> bool) {
    let (mut right, mut all) = (0, 0);
    for sample in profile.samples() {
        let labels = profile.labels(sample.labels);
        let is_part = |label: &flamelet_profile::Label| {
            (profile.string(label.key), profile.string(label.text)) == ("part", part)
        };
        if labels.iter().any(is_part) {
            all += sample.values[0];
            right += sample.values[0] * i64::from(is_right(profile.stack(sample.stack)));
        }
    }
    println!("{part}: {right} of {all}");
    assert!(all >= ENOUGH as i64 / 2, "{part}: {all} samples");
    assert!(right * 10 >= all * 7, "{part}: {right} of {all} are right");
}

/// The parts of `name` are in the library at `path`, and reach up to this program.
fn assert_parts(profile: &Profile, names: &Names, name: &str, path: &Path) {
    let path = path.to_str().expect("a plain path");
    let reaches_the_root = |stack: &[LocationId]| {
        let is_marked = stack.last().is_none_or(|&id| !profile.lines(id).is_empty());
        !is_marked && names.stack(profile, stack).iter().any(|name| name.contains("call_both"))
    };
    assert_most(profile, &format!("{name} leaf"), |stack| {
        file(profile, stack[0]) == path && reaches_the_root(stack)
    });
    assert_most(profile, &format!("{name} middle"), |stack| {
        let is_in_the_middle = stack[1..].iter().any(|&id| file(profile, id) == path);
        is_in_the_middle && file(profile, stack[0]) != path && reaches_the_root(stack)
    });
    let mappings: Vec<_> =
        profile.mappings().iter().filter(|mapping| profile.string(mapping.filename) == path).collect();
    assert!(
        !mappings.is_empty() && mappings.iter().all(|mapping| profile.string(mapping.build_id).len() >= 16)
    );
}

#[test]
fn a_library_that_came_and_went_is_in_the_profile() {
    let _turn = turn();
    let (names, path) = (Names::new(), build("went", 1));
    let session = start();
    let library = Loaded::open(&path);
    wait_until_learned(library.address(), &path);
    call_both(&library, "went");
    let address = library.close();
    // The capture's thread has learned that too.
    let end = Instant::now() + PATIENCE;
    while flamelet_unwind::live::modules().find(address).is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_parts(&session.finish(), &names, "went", &path);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn two_libraries_at_one_address_are_distinguished() {
    const TRIES: u32 = 50;
    let _turn = turn();
    let names = Names::new();
    let (first, second) = (build("first", 2), build("second", 3));
    let session = start();
    for _ in 0..TRIES {
        let library = Loaded::open(&first);
        wait_until_learned(library.address(), &first);
        call_both(&library, "first");
        let was_at = library.close();
        // The kernel reuses the address that just became free, unless another thread took it.
        let library = Loaded::open(&second);
        let is_same_place = library.address() == was_at;
        if is_same_place {
            wait_until_learned(library.address(), &second);
            call_both(&library, "second");
        }
        library.close();
        if is_same_place {
            let profile = session.finish();
            assert_parts(&profile, &names, "first", &first);
            assert_parts(&profile, &names, "second", &second);
            [first, second].iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
            return;
        }
    }
    flamelet_test_support::skip!("the kernel never put the second library where the first had been");
}
