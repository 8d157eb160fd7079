//! flamelet's own command line: its verbs, its options, its sources, its help.

mod bucket;
mod collect;
mod compare;
mod fetch;
mod fleet;
mod heap;
mod help;
mod history;
mod jemalloc;
mod json;
mod mcp;
mod own_options;
mod partitions;
mod pictures;
mod pprof;
mod push;
mod readme;
mod receive;
mod refusals;
mod sources;
mod symbols;
mod tenants;
mod tls;
mod view;
mod yours;
