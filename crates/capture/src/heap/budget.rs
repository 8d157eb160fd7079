//! Heap budgets for tests: what a piece of code allocates, exactly.
//!
//! ```
//! use flamelet_capture::heap::{Alloc, budget::Budget};
//!
//! #[global_allocator]
//! static ALLOCATOR: Alloc = Alloc::system();
//!
//! # fn main() {
//! let text = Budget::new().allocations(1).bytes(64).assert(|| String::with_capacity(64));
//! # drop(text);
//! # }
//! ```
//!
//! Every allocation and free of the *calling thread* is counted, not sampled; other threads are not touched
//! and not counted. A reallocation counts as an allocation of the new size and a free of the old one.

use super::thread::{self, Inside};
use flamelet_unwind::live;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::fmt::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a piece of code allocated on its thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocations, reallocations included.
    pub allocations: u64,
    /// The bytes of all of them together.
    pub bytes: u64,
    /// The most that was allocated and not yet freed again at any moment.
    pub peak: u64,
    /// What was allocated and not freed at the end; negative when older memory was freed.
    pub kept: i64,
    /// Where, the most bytes first.
    pub stacks: Vec<StackUsage>,
}

/// What one stack allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackUsage {
    /// Addresses, leaf first.
    pub frames: Vec<u64>,
    /// Allocations made here.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Limits for what a piece of code may allocate.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Budget {
    allocations: Option<u64>,
    bytes: Option<u64>,
    peak: Option<u64>,
}

impl Budget {
    /// Makes a budget without limits.
    pub const fn new() -> Self {
        Self { allocations: None, bytes: None, peak: None }
    }

    /// Allows at most this many allocations.
    pub const fn allocations(mut self, most: u64) -> Self {
        self.allocations = Some(most);
        self
    }

    /// Allows at most this many bytes in all allocations together.
    pub const fn bytes(mut self, most: u64) -> Self {
        self.bytes = Some(most);
        self
    }

    /// Allows at most this many bytes at a time.
    pub const fn peak(mut self, most: u64) -> Self {
        self.peak = Some(most);
        self
    }

    /// Returns what `usage` has too much of, with the stacks responsible; `None` when it stays within the budget.
    pub fn excess(&self, usage: &Usage) -> Option<String> {
        let limits = [
            ("allocations", self.allocations, usage.allocations),
            ("bytes", self.bytes, usage.bytes),
            ("bytes at a time", self.peak, usage.peak),
        ];
        let mut text = String::new();
        for (what, most, had) in limits {
            if let Some(most) = most.filter(|&most| had > most) {
                let _ = writeln!(text, "{had} {what}, {most} allowed");
            }
        }
        (!text.is_empty()).then(|| text + &usage.describe_stacks())
    }

    /// Runs `work` and returns its result.
    ///
    /// # Panics
    /// When it allocates more than this budget allows (the message lists the stacks responsible), and when the
    /// program's allocator is not an [`Alloc`](super::Alloc).
    #[track_caller]
    pub fn assert<R>(&self, work: impl FnOnce() -> R) -> R {
        let (result, usage) = measure(work);
        if let Some(excess) = self.excess(&usage) {
            panic!("heap budget exceeded: {excess}");
        }
        result
    }
}

/// Runs `work` and counts what it allocates on this thread. Nothing of it is sampled.
///
/// # Panics
/// When the program's allocator is not an [`Alloc`](super::Alloc).
#[track_caller]
pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Usage) {
    // Without modules the stacks would be empty; the counts are right anyway.
    let _ = live::refresh();
    let mut counting = Counting::default();
    let (result, stopped) = {
        let running = RunningCount::start(&mut counting);
        drop(std::hint::black_box(Box::new(1u8)));
        assert!(
            running.allocations() > 0,
            "heap budgets need flamelet's allocator: #[global_allocator] static A: Alloc = Alloc::system();"
        );
        running.clear();
        (work(), running)
    };
    drop(stopped);
    (result, counting.usage())
}

/// Names the stacks in messages: takes addresses, returns a line for each.
pub type Resolver = fn(&[u64]) -> Vec<String>;

static RESOLVER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets how stacks are named in the message of an exceeded budget. Without it, frames are named by file and
/// offset, which `flamelet symbolize` and `addr2line` understand.
pub fn set_resolver(resolver: Resolver) {
    RESOLVER.store(resolver as *mut (), Ordering::Release);
}

fn resolve(frames: &[u64]) -> Vec<String> {
    let resolver = RESOLVER.load(Ordering::Acquire);
    if resolver.is_null() {
        return frames.iter().map(|&address| file_and_offset(address)).collect();
    }
    // SAFETY: only `set_resolver` stores here, and what it stores is a `Resolver`.
    let resolver: Resolver = unsafe { std::mem::transmute(resolver) };
    resolver(frames)
}

fn file_and_offset(address: u64) -> String {
    match live::modules().find(address) {
        Some(module) => format!("{}+{:#x}", module.name, address - module.start + module.file_offset),
        None => format!("{address:#x}"),
    }
}

impl Usage {
    fn describe_stacks(&self) -> String {
        let mut text = String::new();
        for stack in self.stacks.iter().take(5) {
            let _ = writeln!(text, "{} bytes in {} allocations at", stack.bytes, stack.allocations);
            for line in resolve(&stack.frames).iter().take(32) {
                let _ = writeln!(text, "    {line}");
            }
        }
        if self.stacks.len() > 5 {
            let _ = writeln!(text, "and {} more stacks", self.stacks.len() - 5);
        }
        text
    }
}

thread_local! {
    static RUNNING: Cell<*mut Counting> = const { Cell::new(ptr::null_mut()) };
}

#[derive(Default)]
struct Counting {
    allocations: u64,
    bytes: u64,
    net: i64,
    peak: i64,
    stacks: FxHashMap<Box<[u64]>, (u64, u64)>,
}

impl Counting {
    fn usage(self) -> Usage {
        let stack = |(frames, (allocations, bytes)): (Box<[u64]>, (u64, u64))| StackUsage {
            frames: frames.into(),
            allocations,
            bytes,
        };
        let mut stacks: Vec<StackUsage> = self.stacks.into_iter().map(stack).collect();
        flamelet_profile::sort_rows(&mut stacks, |a, b| {
            b.bytes.cmp(&a.bytes).then_with(|| a.frames.cmp(&b.frames))
        });
        Usage {
            allocations: self.allocations,
            bytes: self.bytes,
            peak: self.peak.max(0) as u64,
            kept: self.net,
            stacks,
        }
    }
}

/// While this lives the thread counts into `counting`. A nested one adds its counts to the outer one.
struct RunningCount {
    counting: *mut Counting,
    outer: *mut Counting,
}

impl RunningCount {
    fn start(counting: &mut Counting) -> Self {
        let counting = ptr::from_mut(counting);
        let outer = RUNNING.replace(counting);
        thread::set_counting(true);
        Self { counting, outer }
    }

    fn allocations(&self) -> u64 {
        // SAFETY: the struct outlives `self`, and only this thread uses it.
        unsafe { (*self.counting).allocations }
    }

    fn clear(&self) {
        let _inside = Inside::enter();
        // SAFETY: as above.
        unsafe { *self.counting = Counting::default() };
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        RUNNING.set(self.outer);
        thread::set_counting(!self.outer.is_null());
        if self.outer.is_null() {
            return;
        }
        let _inside = Inside::enter();
        // SAFETY: both outlive `self` (the outer one's frame is below on this stack) and are two structs.
        let (outer, inner) = unsafe { (&mut *self.outer, &*self.counting) };
        outer.allocations += inner.allocations;
        outer.bytes += inner.bytes;
        outer.peak = outer.peak.max(outer.net + inner.peak);
        outer.net += inner.net;
        for (frames, counts) in &inner.stacks {
            let sum = outer.stacks.entry(frames.clone()).or_default();
            *sum = (sum.0 + counts.0, sum.1 + counts.1);
        }
    }
}

/// Called when this thread allocates while its allocations are counted.
#[cold]
#[inline(never)]
pub(super) fn allocated(size: usize) {
    let Some(_inside) = Inside::enter_first() else { return };
    let counting = RUNNING.get();
    if counting.is_null() {
        return;
    }
    let mut frames = [0; 128];
    let unwound = live::unwind_here(&mut frames);
    let frames = &frames[2.min(unwound.depth)..unwound.depth];
    // SAFETY: the struct outlives the `RunningCount` that set the pointer; only this thread uses it, and not from
    // within itself, because `Inside` was entered first here.
    let counting = unsafe { &mut *counting };
    counting.allocations += 1;
    // A request to resize may be as large as an integer can be, and is refused afterwards.
    counting.bytes = counting.bytes.saturating_add(size as u64);
    counting.net = counting.net.saturating_add(size as i64);
    counting.peak = counting.peak.max(counting.net);
    match counting.stacks.get_mut(frames) {
        Some((allocations, bytes)) => {
            *allocations += 1;
            *bytes = bytes.saturating_add(size as u64);
        }
        None => {
            counting.stacks.insert(frames.into(), (1, size as u64));
        }
    }
}

/// Called when this thread frees while its allocations are counted.
#[cold]
#[inline(never)]
pub(super) fn freed(size: usize) {
    let Some(_inside) = Inside::enter_first() else { return };
    let counting = RUNNING.get();
    if !counting.is_null() {
        // SAFETY: as in `allocated`.
        unsafe { (*counting).net = (*counting).net.saturating_sub(size as i64) };
    }
}
