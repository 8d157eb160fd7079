//! A history on disk, and its push to a Pyroscope.

use flamelet::{History, Profiler, Push};

pub(crate) fn start(folder: Option<&str>, url: Option<&str>) -> Profiler {
    let history = History::new(folder.expect("a folder")).frequency(crate::HERTZ).window(crate::WINDOW);
    let mut builder = Profiler::builder().name("live").history(history);
    if let Some(url) = url {
        builder = builder.push(Push::pyroscope(url));
    }
    builder.start().expect("a profiler")
}

pub(crate) fn stop(profiler: Profiler) {
    profiler.shutdown();
}
