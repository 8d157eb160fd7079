//! What the names say that runtimes give to the code they generate: a recording knows nothing else about it.

/// How V8 begins the names of functions that it has compiled, or that it interprets.
const V8_FUNCTIONS: &[&str] = &["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];

/// How V8 begins the names of its own parts.
const V8_PARTS: &[&str] = &["Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"];

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
    after(name, V8_PARTS).is_some()
}

/// Returns what follows one of the beginnings; `Script::run` is a C++ name and begins with none of them.
fn after<'n>(name: &'n str, starts: &[&str]) -> Option<&'n str> {
    starts.iter().find_map(|start| name.strip_prefix(*start)).filter(|rest| !rest.starts_with(':'))
}
