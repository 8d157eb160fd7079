//! What the service and its threads work on, for profilers outside the process.

use crate::{Profiler, Result};

impl Profiler {
    /// Publishes the name and the labels of the service, and from now on the trace, the span, the route and the task of each
    /// thread, where OpenTelemetry's eBPF profiler and other readers outside the process look for them: the mapping
    /// `OTEL_CTX` of [OTEP 4719] and the thread-local variable `otel_thread_ctx_v1` of [OTEP 4947].
    ///
    /// Readers find the variable only if the program exports it, for which its `build.rs` needs the line
    ///
    /// ```
    /// println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    /// ```
    ///
    /// Without it, and in programs that are linked statically (as for musl), this publishes only what describes the service, and
    /// returns an error. The child of a fork publishes nothing until it calls this itself. On systems other
    /// than Linux on x86_64 and aarch64, this fails.
    ///
    /// [OTEP 4719]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4719-process-ctx.md
    /// [OTEP 4947]: https://github.com/open-telemetry/opentelemetry-specification/blob/main/oteps/profiles/4947-thread-ctx.md
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn publish_context(&self) -> Result<()> {
        let settings = &self.shared().settings;
        let own = [
            ("service.name", settings.name.as_str()),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.name", "flamelet"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        let mut resource = own.to_vec();
        for (name, value) in &settings.labels {
            match resource.iter_mut().find(|(known, _)| known == name) {
                Some(known) => known.1 = value,
                None => resource.push((name, value)),
            }
        }
        flamelet_capture::otel::publish(&resource)
    }

    /// Fails: nothing is published on this system.
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    pub fn publish_context(&self) -> Result<()> {
        let message = "contexts are published on Linux on x86_64 and aarch64 only";
        Err(crate::Error::new(crate::ErrorKind::Unsupported, message))
    }
}
