//! The published agent of Pyroscope.

use pyroscope::PyroscopeAgent;
use pyroscope::backend::{BackendConfig, PprofConfig, pprof_backend};
use pyroscope::pyroscope::{PyroscopeAgentBuilder, PyroscopeAgentRunning};

pub(crate) fn start(_folder: Option<&str>, url: Option<&str>) -> PyroscopeAgent<PyroscopeAgentRunning> {
    let backend = pprof_backend(PprofConfig { sample_rate: crate::HERTZ }, BackendConfig::default());
    let url = url.expect("the address of a Pyroscope");
    let agent = PyroscopeAgentBuilder::new(url, "live", crate::HERTZ, "pyroscope-rs", "2.1.5", backend);
    agent.upload_interval(crate::WINDOW).build().expect("an agent").start().expect("it starts")
}

pub(crate) fn stop(agent: PyroscopeAgent<PyroscopeAgentRunning>) {
    agent.stop().expect("it stops").shutdown();
}
