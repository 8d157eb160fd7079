//! The inner allocator gets every block back with the layout it gave it out with, whatever happens around it.

#![allow(unsafe_code, reason = "is an allocator, and calls one with layouts of every kind")]

use flamelet_capture::heap::{self, Alloc, Options};
use flamelet_test_support::Random;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes the layout in front of every block, and compares when it comes back.
struct Strict;

static WRONG: AtomicU64 = AtomicU64::new(0);
static ALIVE: AtomicU64 = AtomicU64::new(0);

fn outer(layout: Layout) -> (Layout, usize) {
    let front = layout.align().max(32);
    (Layout::from_size_align(layout.size() + front, layout.align().max(32)).expect("a layout"), front)
}

thread_local! {
    static IS_REENTERED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Some allocators allocate during an allocation.
fn reenter(count: u64) {
    if count.is_multiple_of(5) && !IS_REENTERED.replace(true) {
        drop(std::hint::black_box(vec![count; 50]));
        IS_REENTERED.set(false);
    }
}

// SAFETY: blocks are inside larger blocks of the system's allocator, after a header of their own.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (whole, front) = outer(layout);
        // SAFETY: the layout is not empty; the header fits in front of the block.
        unsafe {
            let start = System.alloc(whole);
            if start.is_null() {
                return start;
            }
            reenter(ALIVE.fetch_add(1, Ordering::Relaxed));
            let block = start.add(front);
            block.cast::<[usize; 2]>().sub(1).write([layout.size(), layout.align()]);
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (whole, front) = outer(layout);
        // SAFETY: `alloc` wrote the header there.
        unsafe {
            let header = block.cast::<[usize; 2]>().sub(1);
            if header.read() != [layout.size(), layout.align()] {
                WRONG.fetch_add(1, Ordering::Relaxed);
                return;
            }
            header.write([0, 0]);
            ALIVE.fetch_sub(1, Ordering::Relaxed);
            System.dealloc(block.sub(front), whole);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Alloc<Strict> = Alloc::new(Strict);

struct Held {
    block: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: a block may be freed on any thread.
unsafe impl Send for Held {}

impl Held {
    fn new(random: &mut Random) -> Self {
        let sizes = [1, 8, 24, 100, 1000, 4095, 4096, 4097, 70_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1];
        let choices = if random.below(20) == 0 { sizes.len() } else { 9 };
        let size = sizes[random.below(choices)];
        let layout = Layout::from_size_align(size, 1 << random.below(15)).expect("a layout");
        let is_zeroed = random.below(3) == 0;
        // SAFETY: the size is not zero; the block has the requested size.
        let block = unsafe {
            let block = if is_zeroed { ALLOCATOR.alloc_zeroed(layout) } else { ALLOCATOR.alloc(layout) };
            assert!(!block.is_null() && (block as usize).is_multiple_of(layout.align()));
            if is_zeroed {
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0));
            }
            block
        };
        let mut held = Self { block, layout, mark: 0 };
        held.fill(random);
        held
    }

    fn fill(&mut self, random: &mut Random) {
        self.mark = random.below(255) as u8 + 1;
        // SAFETY: the block has that size and is ours.
        unsafe { self.block.write_bytes(self.mark, self.layout.size()) };
    }

    fn check(&self, length: usize) {
        // SAFETY: the block has at least that size and was filled.
        let bytes = unsafe { std::slice::from_raw_parts(self.block, length) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "the contents changed");
    }

    fn resize(&mut self, random: &mut Random) {
        self.check(self.layout.size());
        let size = 1 + match random.below(4) {
            0 => random.below(64),
            1 => random.below(9_000),
            2 => self.layout.size() * 2,
            _ if random.below(10) == 0 => random.below(3 << 20),
            _ => self.layout.size() / 2,
        };
        let size = size.min(4 << 20);
        // SAFETY: the block has this layout, and the new size is not zero.
        let block = unsafe { ALLOCATOR.realloc(self.block, self.layout, size) };
        assert!(!block.is_null() && (block as usize).is_multiple_of(self.layout.align()));
        let common = size.min(self.layout.size());
        self.block = block;
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        self.check(common);
        self.fill(random);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.check(self.layout.size());
        // SAFETY: the block has this layout and is given back once.
        unsafe { ALLOCATOR.dealloc(self.block, self.layout) };
    }
}

fn churn(
    seed: u64,
    give: &std::sync::mpsc::SyncSender<Held>,
    take: &std::sync::Mutex<std::sync::mpsc::Receiver<Held>>,
) {
    let mut random = Random::new(seed);
    let mut held: Vec<Held> = Vec::new();
    for _ in 0..12_000 {
        match random.below(8) {
            0..3 => held.push(Held::new(&mut random)),
            3..5 if !held.is_empty() => {
                let at = random.below(held.len());
                held[at].resize(&mut random);
            }
            5 if !held.is_empty() => {
                let at = random.below(held.len());
                let _ = give.try_send(held.swap_remove(at));
            }
            6 => drop(take.lock().expect("no panic").try_recv()),
            _ if held.len() > 40 => drop(held.swap_remove(random.below(held.len()))),
            _ => {}
        }
    }
}

#[test]
fn every_layout_comes_back_as_it_went_out() {
    // A mean that is small enough to sample many, and tables that are small enough to lose some.
    Options::new().mean(2_000).live_blocks(64).start().expect("starts");
    let (give, take) = std::sync::mpsc::sync_channel(64);
    let take = std::sync::Mutex::new(take);
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let (give, take) = (give.clone(), &take);
            scope.spawn(move || churn(seed * 0x9e37_79b9, &give, take));
        }
        // Settings change under them.
        let mut random = Random::new(99);
        for _ in 0..200 {
            match random.below(4) {
                0 => heap::stop(),
                1 => heap::reset(),
                _ => Options::new()
                    .mean(1 + random.below(5_000) as u64)
                    .keep_free_stacks(random.below(2) == 0)
                    .start()
                    .expect("starts"),
            }
            heap::snapshot().expect("a profile");
            std::thread::yield_now();
        }
    });
    drop(take);
    assert_eq!(WRONG.load(Ordering::Relaxed), 0, "blocks that came back with another layout");
    let snapshot = heap::Snapshot::take().expect("a snapshot");
    let profile = snapshot.heap();
    assert!(profile.samples().all(|sample| sample.values.iter().all(|&value| value >= 0)));
    assert!(ALIVE.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_zero_sized_request_does_no_harm() {
    // Not allowed by the trait's contract, but it happens in practice.
    let layout = Layout::from_size_align(0, 8).expect("a layout");
    // SAFETY: the inner allocator here adds a header, so that nothing empty is asked of the system.
    unsafe {
        let block = ALLOCATOR.alloc(layout);
        assert!(!block.is_null());
        ALLOCATOR.dealloc(block, layout);
    }
}
