//! Whose code it is, on real programs: recorded by `flamelet record`, explained by `flamelet explain`, read by Go's pprof.

mod heap_names;
mod recordings;
mod rules;
mod tree;
