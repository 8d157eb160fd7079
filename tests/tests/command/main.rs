//! flamelet's own command line: its verbs, its options, its sources, its help.

mod fetch;
mod heap;
mod jemalloc;
mod help;
mod json;
mod own_options;
mod readme;
mod sources;
mod view;
