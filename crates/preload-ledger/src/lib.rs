//! The files that the preloaded libraries of `flamelet record` keep while a program runs, for both sides: a library
//! writes them, the recorder reads them, at any moment and however the program ended.
//!
//! With `--heap`, each process image (a program from its start or `exec` on, or a forked child) has two files in the folder
//! that [`env::FOLDER`] names:
//!
//! | file | what it holds |
//! |---|---|
//! | `PID-N.counts` | a [`Header`], then [`Node`]s: a tree of return addresses, each node with the counts of the stack that ends in it |
//! | `PID-N.modules` | lines of text: the program, its arguments, and each module when it was loaded ([`modules`]) |
//!
//! The counts are mapped shared and updated in place, so the kernel keeps them whatever happens to the process. Their
//! size depends on how many distinct stacks the program has, not on how long it runs.
//!
//! # A stack
//!
//! A stack is the node of its leaf; its caller is the node's parent, and so on to a parent of [`ROOT`] (whole) or
//! [`TRUNCATED`]. An address carries the number of its era in its upper bits ([`address_parts`]). Where allocations
//! are sampled, one more node below the leaf gives the size ([`SIZE_NODE`]).
//!
//! # Lanes
//!
//! Threads that count in the same words slow each other down, so the first threads have lanes of their own: nodes that
//! no other thread counts allocations in, without atomic additions. A stack of two threads then has two nodes, which the
//! reader adds up. Other threads share lane 0. What a thread frees of another lane is counted in a node of its own, to
//! which [`Node::elsewhere`] points.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

pub mod modules;
#[cfg(unix)]
pub mod place;
mod read;

pub use read::{AllocationCounts, DamagedError, ReadNode, read};

/// The environment variables by which the recorder tells the library what to do.
pub mod env {
    /// The folder for the files. Without it, the library does nothing.
    pub const FOLDER: &str = "FLAMELET_RECORD_FOLDER";
    /// Bytes between samples; absent or 0 for every allocation.
    pub const MEAN: &str = "FLAMELET_HEAP_MEAN";
    /// Samples per second of CPU time, for the library that samples.
    pub const FREQUENCY: &str = "FLAMELET_CPU_FREQUENCY";
    /// The loader's own list of libraries to load first.
    pub const PRELOAD: &str = "LD_PRELOAD";
}

/// The extension of files with counts.
pub const COUNTS_ENDING: &str = "counts";
/// The extension of files with samples of CPU time.
pub const PROFILE_ENDING: &str = "profile";
/// The extension of files with modules.
pub const MODULES_ENDING: &str = "modules";
/// The extension of files that say why nothing is sampled.
pub const REFUSED_ENDING: &str = "refused";

/// The first word of a file with counts.
pub const MAGIC: u64 = u64::from_le_bytes(*b"flheap01");
/// Where the nodes begin.
pub const NODES_AT: usize = 4096;

/// The parent of a thread's first frame.
pub const ROOT: u32 = 0;
/// The node of all allocations for whose stacks there was no room.
pub const NO_ROOM: u32 = 1;
/// The parent of the outermost frame of stacks that do not reach the thread's first frame.
pub const TRUNCATED: u32 = 2;
/// The first node that stands for a frame.
pub const FIRST_FRAME: u32 = 3;

/// Set in the address of a node that gives the size of sampled blocks, in the bits below.
pub const SIZE_NODE: u64 = 1 << 63;
/// Addresses have this many bits; above them is the number of an era: a time in which no two modules were at one
/// place.
pub const ADDRESS_BITS: u32 = 48;

/// The bits of a node's number; in [`Node::parent`] the number of the lane is above them.
pub const NUMBER_BITS: u32 = 27;
/// The number of lanes.
pub const LANES: usize = 1 << (u32::BITS - NUMBER_BITS);

/// Returns the address of a frame, and the number of the era in which to look it up.
pub fn address_parts(address: u64) -> (u64, u32) {
    (address & ((1 << ADDRESS_BITS) - 1), ((address & !SIZE_NODE) >> ADDRESS_BITS) as u32)
}

/// The start of a file with counts. All numbers are in the machine's own byte order.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Header {
    /// [`MAGIC`]; written last.
    pub magic: AtomicU64,
    /// The process.
    pub pid: AtomicU64,
    /// When it started, in nanoseconds since 1970.
    pub started_nanos: AtomicU64,
    /// Bytes between samples; 0 for every allocation.
    pub mean: AtomicU64,
    /// Nodes in use, including the reserved ones.
    pub nodes: AtomicU64,
    /// Allocations that were not recorded: made by a signal handler inside the library, or before recording could
    /// start.
    pub missed: AtomicU64,
    /// The highest that the bytes alive were, of all lanes together.
    pub peak: AtomicI64,
    /// Changes whenever there is a new peak.
    pub peak_turn: AtomicU32,
    /// Fills the word.
    pub unused: AtomicU32,
    /// The bytes alive.
    pub lanes: [Lane; LANES],
}

/// What the threads of a lane have allocated and not freed; negative in lanes that free what others allocate. One
/// cache line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Lane {
    /// Bytes. Where allocations are sampled, a block counts for at least the mean.
    pub live: AtomicI64,
    /// The same when the peak was last looked at.
    pub looked_at: AtomicI64,
}

/// A frame, and what was allocated by the stack that ends in it. One cache line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Node {
    /// See [`address_parts`].
    pub address: AtomicU64,
    /// The caller, and the lane: see [`NUMBER_BITS`].
    pub parent: AtomicU32,
    /// The number of the node that counts what other lanes freed of this one; 0 for none.
    pub elsewhere: AtomicU32,
    /// Calls of allocation functions.
    pub allocations: AtomicU64,
    /// The bytes that they requested.
    pub allocated: AtomicU64,
    /// How many of them were freed …
    pub frees: AtomicU64,
    /// … and their bytes.
    pub freed: AtomicU64,
    /// Freed by the thread that allocated them, as the next thing it did with the heap.
    pub temporary: AtomicU64,
    /// Bytes alive at the peak, with the turn for which they were put aside: see [`PutAside`].
    pub peak: AtomicU64,
}

/// What a node had at the peak, put aside when it first changed afterwards. If its turn is not the header's, it is
/// out of date, and the node still has what it had at the peak. One word, so that it is replaced as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutAside(pub u64);

impl PutAside {
    const BYTES_BITS: u32 = 40;

    /// Packs the `bytes` at the peak of this turn. More than a terabyte counts as one terabyte.
    pub fn new(turn: u32, bytes: u64) -> Self {
        Self(u64::from(turn) << Self::BYTES_BITS | bytes.min((1 << Self::BYTES_BITS) - 1))
    }

    /// Returns whether it belongs to this turn.
    pub fn is_of(self, turn: u32) -> bool {
        self.0 >> Self::BYTES_BITS == u64::from(turn) & ((1 << (64 - Self::BYTES_BITS)) - 1)
    }

    /// Returns the bytes.
    pub fn bytes(self) -> u64 {
        self.0 & ((1 << Self::BYTES_BITS) - 1)
    }
}

const _: () = assert!(size_of::<Node>() == 64 && size_of::<Header>() <= NODES_AT);
