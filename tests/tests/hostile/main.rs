//! Files that are damaged, hostile or not profiles at all: one clear line, status 2, no panic, bounded memory.

mod bombs;
mod bounded;
mod damaged;
mod formats;
mod mutations;
mod named_files;
mod outputs;
mod structure;
mod terminal;
