//! What this process and its threads work on, where OpenTelemetry's eBPF profiler and other readers outside the process look
//! for it: OTEP 4719 (the process: a mapping called `OTEL_CTX`) and OTEP 4947 (its threads: the thread-local variable
//! `otel_thread_ctx_v1`).
//!
//! ```text
//!  publish ─► payload (protobuf) ─► mapping `OTEL_CTX` ◄─ readers find it in /proc/PID/maps
//!  a thread enters a set of labels ─► its record ─► `otel_thread_ctx_v1` of the thread ◄─ readers find it in `.dynsym`
//! ```
//!
//! A record is made once for a set of labels, and entering the set stores a pointer. The ids come from the labels `trace_id` and
//! `span_id`; the labels of [`ATTRIBUTES`] follow. The flags of the trace are unknown here, and always 0.

mod mapping;
mod payload;

use crate::labels::thread_context;
pub use crate::labels::thread_context::ATTRIBUTES;
use crate::{Error, ErrorKind, Result};

/// The version of the records.
const SCHEMA: &str = "tlsdesc_v1_dev";

/// Publishes what describes the process: attributes of its resource by name, which replace those that were published before.
/// From then on threads publish their labels.
///
/// Fails if the mapping cannot be made; and if the program does not export the thread-local variable, so that readers would not
/// find it. In that case the process is described, and its threads are not.
pub fn publish(resource: &[(&str, &str)]) -> Result<()> {
    let is_exported = thread_context::is_exported();
    let key_map = if is_exported { &ATTRIBUTES[..] } else { &[] };
    let payload = payload::encode(resource, SCHEMA, key_map);
    mapping::publish(payload).map_err(|error| {
        Error::new(ErrorKind::Denied, format!("cannot publish the context of this process: {error}"))
    })?;
    thread_context::set_enabled(is_exported);
    let reason = if has_dynamic_linker() { NOT_EXPORTED } else { LINKED_STATICALLY };
    if is_exported { Ok(()) } else { Err(Error::new(ErrorKind::NotEnabled, reason)) }
}

/// Returns whether the kernel has loaded a dynamic linker with the program.
#[allow(unsafe_code, reason = "asks the C library for a number")]
fn has_dynamic_linker() -> bool {
    // SAFETY: reads a value that the kernel has left.
    unsafe { libc::getauxval(libc::AT_BASE) != 0 }
}

const LINKED_STATICALLY: &str = "the context of the process is published, but not that of its threads: readers look for a variable \
                                 among the symbols for the dynamic linker, and a program that is linked statically has none";

const NOT_EXPORTED: &str = "the context of the process is published, but not that of its threads: the program must export the \
                            variable of threads; put `println!(\"cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=\
                            otel_thread_ctx_v1\");` into its build.rs";
