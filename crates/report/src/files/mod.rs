//! Answers as files for other programs.

pub mod callgrind;
pub mod dot;
pub mod graph_svg;
pub mod raw;
pub mod timeline_svg;
