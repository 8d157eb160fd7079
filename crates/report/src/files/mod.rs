//! Answers as files that other programs read.

pub mod callgrind;
pub mod dot;
pub mod graph_svg;
pub mod raw;
