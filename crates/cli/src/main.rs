//! The `flamelet` command.

fn main() {}
