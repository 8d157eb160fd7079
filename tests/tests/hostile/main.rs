//! Files that are damaged, hostile or not profiles at all: one clear line, status 2, no panic, bounded memory.

mod damaged;
mod formats;
mod mutations;
mod outputs;
mod structure;
