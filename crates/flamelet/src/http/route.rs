//! Which endpoint a path names.

use flamelet_capture::profile::HeapView;

use super::empty::Kind;

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Index,
    /// The index without its slash, from which its links would not work.
    BareIndex,
    /// The viewer without its slash; where there is no viewer, nothing.
    BareViewer,
    Cmdline,
    Symbol,
    Trace,
    Cpu,
    Heap(HeapView),
    /// A profile of Go's that has no capture here.
    Empty(Kind),
    /// `/pprof/profile/…`.
    CpuFamily(Form),
    /// `/pprof/heap/…`.
    HeapFamily(Form),
}

/// The two forms of the `/pprof/…` family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Report,
    Flamegraph,
}

/// The endpoint at `path`, as the service is mounted at the root.
pub(super) fn endpoint(path: &str) -> Option<Endpoint> {
    if let Some(name) = path.strip_prefix("/debug/pprof/") {
        return debug_endpoint(name);
    }
    Some(match path {
        "/debug/pprof" => Endpoint::BareIndex,
        "/pprof/profile/report" => Endpoint::CpuFamily(Form::Report),
        "/pprof/profile/flamegraph" => Endpoint::CpuFamily(Form::Flamegraph),
        "/pprof/heap/report" => Endpoint::HeapFamily(Form::Report),
        "/pprof/heap/flamegraph" => Endpoint::HeapFamily(Form::Flamegraph),
        _ => return None,
    })
}

fn debug_endpoint(name: &str) -> Option<Endpoint> {
    Some(match name {
        "" => Endpoint::Index,
        "view" => Endpoint::BareViewer,
        "cmdline" => Endpoint::Cmdline,
        "symbol" => Endpoint::Symbol,
        "trace" => Endpoint::Trace,
        "profile" => Endpoint::Cpu,
        "wall" => Endpoint::Empty(Kind::Wall),
        "block" => Endpoint::Empty(Kind::Block),
        "mutex" => Endpoint::Empty(Kind::Mutex),
        "goroutine" => Endpoint::Empty(Kind::Goroutine),
        "threadcreate" => Endpoint::Empty(Kind::Threadcreate),
        name => Endpoint::Heap(HeapView::of_endpoint(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_and_nothing_else() {
        assert_eq!(endpoint("/debug/pprof/profile"), Some(Endpoint::Cpu));
        assert_eq!(endpoint("/debug/pprof/"), Some(Endpoint::Index));
        assert_eq!(endpoint("/debug/pprof"), Some(Endpoint::BareIndex));
        assert_eq!(endpoint("/pprof/heap/flamegraph"), Some(Endpoint::HeapFamily(Form::Flamegraph)));
        for unknown in ["/", "/debug/pprof/profile/", "/debug/pprof/nonsense", "/pprof/profile", "/pprof"] {
            assert_eq!(endpoint(unknown), None, "{unknown}");
        }
    }
}
