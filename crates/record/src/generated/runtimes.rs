//! The runtimes that generate or interpret code, and how to make each list the names of that code.

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) name: &'static str,
    /// How to start it so that its functions have names and their callers can be found.
    pub(crate) remedy: &'static str,
    /// Whether it interprets: without the remedy, none of the program's functions is on the stacks.
    pub(crate) interprets: bool,
    /// Recognizes one of its files by its name.
    is_file: fn(&str) -> bool,
}

static RUNTIMES: [Runtime; 7] = [
    Runtime {
        name: "Java",
        remedy: "start java with -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
        interprets: false,
        is_file: |name| name == "libjvm.so",
    },
    Runtime {
        name: "node",
        remedy: "start node with --perf-basic-prof --interpreted-frames-native-stack",
        interprets: false,
        is_file: |name| name == "node" || name == "nodejs" || name.starts_with("libnode.so"),
    },
    Runtime {
        name: "Python",
        remedy: "start python with -X perf",
        interprets: true,
        is_file: |name| minor_version(name, "python3.").is_some_and(|minor| minor >= 12),
    },
    Runtime {
        name: "Python",
        remedy: "use Python 3.12 or later, and start it with -X perf",
        interprets: true,
        // Other programs have the library too, and may never run any Python.
        is_file: |name| {
            !name.starts_with("lib") && minor_version(name, "python3.").is_some_and(|minor| minor < 12)
        },
    },
    Runtime {
        name: ".NET",
        remedy: "set DOTNET_PerfMapEnabled=1 when you start it",
        interprets: false,
        is_file: |name| name == "libcoreclr.so",
    },
    Runtime {
        name: "Erlang",
        remedy: "start erl with +JPperf true",
        interprets: false,
        is_file: |name| name == "beam.smp",
    },
    Runtime {
        name: "Ruby",
        remedy: "start ruby with --yjit-perf",
        interprets: false,
        is_file: |name| name == "ruby" || name.starts_with("libruby"),
    },
];

impl Runtime {
    /// Returns the runtime that has a file of this name.
    pub(crate) fn of_file(path: &str) -> Option<&'static Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        RUNTIMES.iter().find(|runtime| (runtime.is_file)(name))
    }
}

/// Returns the number after `prefix`, which may follow `lib`.
fn minor_version(name: &str, prefix: &str) -> Option<u32> {
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix(prefix)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_files() {
        let name = |path: &str| Runtime::of_file(path).map(|runtime| runtime.name);
        assert_eq!(name("/usr/lib/jvm/java-17/lib/server/libjvm.so"), Some("Java"));
        assert_eq!(name("/usr/bin/node"), Some("node"));
        assert_eq!(name("/usr/bin/python3.12"), Some("Python"));
        assert_eq!(name("/usr/lib/libpython3.13.so.1.0"), Some("Python"));
        // Earlier ones cannot name their functions.
        let remedy = |path: &str| Runtime::of_file(path).map(|runtime| runtime.remedy);
        assert_ne!(remedy("/usr/bin/python3.11"), remedy("/usr/bin/python3.12"));
        assert_eq!(name("/usr/bin/python3.11"), Some("Python"));
        assert_eq!(name("/usr/lib/libpython3.11.so.1.0"), None);
        assert_eq!(name("/usr/bin/redis-server"), None);
    }
}
