//! What the names say that runtimes give to the code they generate: a recording knows nothing else about it.

/// How V8 begins the names of functions that it has compiled, or that it interprets.
const V8_FUNCTIONS: &[&str] = &["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];

/// How V8 begins the names of its own parts.
const V8_PARTS: &[&str] = &["Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"];

/// Java's names for the parts of itself that it generates; those with a space are followed by more.
const JAVA_PARTS: &[&str] = &[
    "Interpreter",
    "StubRoutines",
    "StubRoutines ",
    "vtable stub",
    "itable stub",
    "vtable chunks",
    "itable chunks",
    "I2C/C2I adapters",
    "MethodHandlesAdapterBlob",
    "DeoptimizationBlob",
    "UncommonTrapBlob",
    "ExceptionBlob",
    "SafepointBlob",
    "RuntimeStub",
    "RuntimeStub ",
    "Signature handlers",
];

/// Returns the source file in a name: `py::handle:/srv/app.py` (Python), `JS:*handle /srv/app.js:12:3` (V8).
pub(super) fn source_file(name: &str) -> Option<&str> {
    if let Some(python) = name.strip_prefix("py::") {
        return python.split_once(':').map(|(_, file)| file);
    }
    let function = after(name, V8_FUNCTIONS)?;
    let starts = [" /", " node:", " file:"].into_iter().filter_map(|start| function.find(start));
    let file = &function[starts.min()? + 1..];
    Some(file.trim_end_matches(|letter: char| letter == ':' || letter.is_ascii_digit()))
}

/// Returns whether this is a part of the runtime itself.
pub(super) fn is_of_runtime(name: &str) -> bool {
    let is_of_java = |part: &&str| if part.ends_with(' ') { name.starts_with(*part) } else { name == *part };
    after(name, V8_PARTS).is_some() || JAVA_PARTS.iter().any(is_of_java)
}

/// Returns what follows one of the beginnings; `Script::run` is a C++ name and begins with none of them.
fn after<'n>(name: &'n str, starts: &[&str]) -> Option<&'n str> {
    starts.iter().find_map(|start| name.strip_prefix(*start)).filter(|rest| !rest.starts_with(':'))
}
