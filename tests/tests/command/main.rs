//! flamelet's own command line: its verbs, its options, its sources, its help.

mod compare;
mod fetch;
mod heap;
mod help;
mod history;
mod jemalloc;
mod json;
mod mcp;
mod own_options;
mod pictures;
mod pprof;
mod push;
mod readme;
mod refusals;
mod sources;
mod view;
mod yours;
