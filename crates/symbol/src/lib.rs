//! Maps addresses to functions, files, lines and inlined frames, and to source code and instructions.
//!
//! | to … | use |
//! |---|---|
//! | give a profile its names | [`symbolize`] |
//! | find binaries and debug files by path and build id | [`locate`], [`buildid`] |
//! | see what a process has mapped | [`process`] |
//! | see what a binary offers a profiler | [`inspect`] |
//! | show the cost of source lines | [`source`] |
//! | show the cost of instructions | `disassemble` (feature `disasm`) |
//! | read a mangled name | [`demangle`](mod@demangle) |
//! | know whose code a function is | [`owner`] |
//!
//! # What happens to an address
//!
//! ```text
//!  address in a process ─► address in the file ─► DWARF: functions, inlined calls, lines
//!    (mapping)               (program headers)      └─► else: symbol tables
//! ```
//!
//! The binary is found at its path or by build id ([`locate`]). Debug information is read from it, or from its debug
//! file, including split DWARF (`.dwo`, `.dwp`), dwz supplements, and sections compressed with zlib or zstd. Without
//! debug information, Go's own table and the symbol tables are used (`.symtab`, `.dynsym`, MiniDebugInfo). Kernel addresses are looked
//! up in `/proc/kallsyms`, those of the vdso in the vdso of this process.
//!
//! # As a user of this crate
//!
//! - Store the address of the *call*, not of the return (one less), for every frame but the innermost, as
//!   pprof expects: addresses are looked up as they are.
//! - Files are read, not mapped: if one is truncated meanwhile, names are lost, but the process survives. They stay
//!   open while a symbolizer remembers them. Anything but a regular file (a pipe, a device) is not opened, no matter
//!   what names it.
//! - In a service, use `default-features = false`, one [`symbolize::Symbolizer`] behind a lock, and
//!   [`Limits::SERVICE`].
//!
//! # Why gimli and object, and neither addr2line nor blazesym
//!
//! A profile contains thousands of addresses. The addr2line crate looks up one at a time and keeps what it parsed
//! (every line row and function of every unit it touched) in structures that borrow from the file, so keeping it
//! between requests means self-references or leaks, and memory that cannot be bounded. blazesym keeps much the same
//! behind a cache of its own, and takes longer for such a batch. This crate takes the sorted batch through each unit
//! once, on gimli: entries and line rows that contain none of the addresses are skipped, not stored; it keeps only
//! answers and a plain index of units. In one run, 5,000 random addresses of a 20 MB binary with 20,374 frames took
//! 75 ms of CPU and 12 MB with this crate, names demangled; 102 ms and 33 MB with the addr2line crate; 137 ms and 30
//! MB with blazesym (`examples/against_addr2line.rs` repeats the first two).
//!
//! # Features
//!
//! `cpp` (default) demangles C++ names with their arguments; `disasm`, `foreign`, `zstd` and `xz` (all default) read more kinds
//! of files; `debuginfod` asks servers for debug files. All are additive.

mod address;
pub mod buildid;
pub mod demangle;
#[cfg(feature = "disasm")]
pub mod disassemble;
mod dwarf;
mod elf;
mod error;
mod frame;
mod go;
pub mod inspect;
pub mod kernel;
mod limits;
pub mod locate;
mod names;
pub mod owner;
pub mod process;
pub mod rust_name;
pub mod source;
pub mod symbolize;

pub use address::MappedAt;
pub use error::{Error, ErrorKind, Result};
pub use limits::Limits;
