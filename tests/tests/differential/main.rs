//! `flamelet pprof …` compared with the real `pprof …`: the same files, the same options, the same rows.

mod diff;
mod files_out;
mod filters;
mod numbers;
mod reports;
mod shell;
mod sources;
