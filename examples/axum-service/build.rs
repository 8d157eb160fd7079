//! Lets profilers outside the process find what its threads work on, see `Profiler::publish_context`.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
