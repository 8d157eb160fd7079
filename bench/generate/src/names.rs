//! Names of the length and the shape that Rust services have.

const CRATES: [&str; 12] = [
    "checkout",
    "inventory",
    "hyper",
    "tokio",
    "tower",
    "axum",
    "serde_json",
    "sqlx_core",
    "rustls",
    "core",
    "alloc",
    "hashbrown",
];
const MODULES: [&str; 10] = [
    "runtime::task",
    "proto::h1",
    "codec",
    "pool::inner",
    "handler",
    "de",
    "ser",
    "stream",
    "raw",
    "session",
];
const TYPES: [&str; 9] =
    ["Harness", "Dispatcher", "Connection", "RawTable", "Deserializer", "Framed", "Slab", "Order", "Query"];
const VERBS: [&str; 11] = [
    "poll",
    "call",
    "next",
    "decode",
    "encode",
    "insert",
    "reserve",
    "flush",
    "parse",
    "visit_map",
    "drop_slow",
];

/// The demangled name of the n-th function.
pub fn function(n: usize) -> String {
    let (krate, module) = (CRATES[n % 12], MODULES[n / 12 % 10]);
    let (kind, verb) = (TYPES[n / 7 % 9], VERBS[n / 3 % 11]);
    match n % 3 {
        0 => format!("<{krate}::{module}::{kind}<T> as core::future::future::Future>::{verb}_{n}"),
        1 => format!("{krate}::{module}::{kind}::{verb}_{n}"),
        _ => format!("{krate}::{module}::{verb}_{n}::{{{{closure}}}}"),
    }
}

/// Something of the length of its mangled name.
pub fn mangled(n: usize) -> String {
    format!("_RNvXs{n}_NtNtCs9Dq4XhPzKq2_{}_{}", CRATES[n % 12], TYPES[n / 7 % 9])
}

/// The source file of the n-th function.
pub fn file(n: usize) -> String {
    format!("/build/{}/src/{}.rs", CRATES[n % 12], MODULES[n / 12 % 10].replace("::", "/"))
}

/// The name of what is inlined into it.
pub fn inlined(n: usize) -> String {
    format!("core::iter::traits::{}_{}", VERBS[n % 11], n % 97)
}
