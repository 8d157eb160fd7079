//! Determines the owner of a source file from its path.

use super::Package;

/// The owner of a source file, by its path alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathOwner {
    /// A package that a package manager installed.
    Package(Package),
    /// A file that a build script generated for a package.
    Generated(String),
    /// The standard library of a language.
    Std,
    /// Any other path: the workspace in which the program was built.
    Workspace,
}

/// Folders of standard libraries: Rust's (as recorded by the compiler, as in an installed toolchain, and std's own
/// dependencies), Go's, Python's, Node's, and the headers of C and C++.
const STD: &[&str] = &[
    "/rustc/",
    "/rustlib/src/rust/library/",
    "/rust/deps/",
    "/usr/local/go/src/",
    "/usr/lib/go/src/",
    "/go/src/runtime/",
    "/libexec/src/runtime/",
    "/usr/include/",
    "/usr/local/include/",
    "/usr/lib/gcc/",
    "node:",
    "<frozen ",
];

/// Folders of headers for all users. Libraries have folders in them, and so do the systems' own headers.
const HEADERS: &[&str] = &["/usr/include/", "/usr/local/include/"];
const SYSTEM_HEADERS: &[&str] =
    &["c++", "bits", "sys", "gnu", "linux", "asm", "asm-generic", "net", "netinet", "arpa", "rpc"];

/// Returns the owner of `file`; `None` if there is no path.
pub(super) fn owner(file: &str) -> Option<PathOwner> {
    let file = file.replace('\\', "/");
    if file.is_empty() {
        return None;
    }
    let is_in =
        |folder: &&str| file.starts_with(*folder) || folder.starts_with('/') && file.contains(*folder);
    if let Some(library) = header_package(&file) {
        return Some(PathOwner::Package(library));
    }
    if STD.iter().any(is_in) {
        return Some(PathOwner::Std);
    }
    let package = cargo_package(&file).or_else(|| go_module(&file)).or_else(|| script_package(&file));
    Some(match (package, generated(&file)) {
        (Some(package), _) => PathOwner::Package(package),
        (None, Some(name)) => PathOwner::Generated(name),
        (None, None) if is_python_std(&file) || is_go_std(&file) => PathOwner::Std,
        (None, None) => PathOwner::Workspace,
    })
}

/// Returns a cargo package: in the registry, a git checkout, a vendor folder, or below a remapped path.
fn cargo_package(file: &str) -> Option<Package> {
    if let Some((_, inside)) = file.split_once("/registry/src/") {
        // The folder of the index, then the folder of the package.
        return inside.split_once('/').and_then(|(_, inside)| versioned(first_part(inside)));
    }
    if let Some((_, inside)) = file.split_once("/git/checkouts/") {
        let mut parts = inside.splitn(3, '/');
        let (repository, commit, inside) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
        // A repository may hold several packages, each in its folder.
        let folder =
            inside.split_once("/src/").map(|(folder, _)| folder.rsplit('/').next().unwrap_or(folder));
        let repository = repository.rsplit_once('-').map_or(repository, |(name, _)| name);
        return Some(package(folder.unwrap_or(repository), commit));
    }
    if let Some((_, inside)) = file.split_once("/vendor/") {
        let folder = first_part(inside);
        // Go vendors by host: `vendor/github.com/…`.
        if !folder.contains('.') || versioned(folder).is_some() {
            return Some(versioned(folder).unwrap_or_else(|| package(folder, "")));
        }
    }
    // A registry under another name, which is what `--remap-path-prefix` and `trim-paths` leave.
    let (folder, _) = file.split_once("/src/")?;
    versioned(folder.rsplit('/').next()?)
}

/// Parses `serde_json-1.0.149` as a package; `None` if the name does not end in a version.
fn versioned(folder: &str) -> Option<Package> {
    let dashes = folder.match_indices('-').map(|(at, _)| at);
    let at = dashes.into_iter().find(|&at| at > 0 && is_version(&folder[at + 1..]))?;
    Some(package(&folder[..at], &folder[at + 1..]))
}

/// Returns whether the text begins with three numbers: `1.0.149`, `0.9.0-rc.1`.
fn is_version(text: &str) -> bool {
    let mut parts = text.splitn(3, '.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_number(parts.next())
        && is_number(parts.next())
        && parts.next().is_some_and(|patch| patch.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns a Go module: `…/pkg/mod/github.com/gorilla/mux@v1.8.1/mux.go`, or the same without the prefix.
fn go_module(file: &str) -> Option<Package> {
    let inside = file.split_once("/pkg/mod/").map_or(file, |(_, inside)| inside);
    if let Some((name, rest)) = inside.split_once('@') {
        let version = first_part(rest);
        let is_module = version.starts_with('v') && first_part(name).contains('.');
        return is_module.then(|| Package { name: name.into(), version: version.into() });
    }
    let (_, inside) = file.split_once("/vendor/")?;
    let parts: Vec<&str> = inside.split('/').collect();
    let length = if first_part(inside) == "github.com" { 3 } else { 2 };
    (parts.len() > length).then(|| Package { name: parts[..length].join("/"), version: String::new() })
}

/// Returns the library of a C or C++ header: `/usr/include/boost/asio/io_context.hpp`.
fn header_package(file: &str) -> Option<Package> {
    let inside = HEADERS.iter().find_map(|folder| Some(file.split_once(*folder)?.1))?;
    let (first, rest) = inside.split_once('/')?;
    // Debian has headers that depend on the machine below its name: `x86_64-linux-gnu`.
    let folder = if first.contains("-linux-") { rest.split_once('/')?.0 } else { first };
    (!SYSTEM_HEADERS.contains(&folder)).then(|| package(folder, ""))
}

/// Returns a Python or Node package.
fn script_package(file: &str) -> Option<Package> {
    for folder in ["/site-packages/", "/dist-packages/", "/node_modules/"] {
        let Some((_, inside)) = file.rsplit_once(folder) else { continue };
        let scope = if inside.starts_with('@') { inside.find('/').map_or(0, |at| at + 1) } else { 0 };
        let name = format!("{}{}", &inside[..scope], first_part(&inside[scope..]));
        return Some(Package { name: name.trim_end_matches(".py").into(), version: String::new() });
    }
    None
}

fn is_python_std(file: &str) -> bool {
    let Some((_, inside)) = file.split_once("/lib/python3") else { return false };
    file.ends_with(".py") && inside.contains('/')
}

/// Returns whether this is a file of Go's standard library as `-trimpath` leaves it: `net/http/server.go`.
fn is_go_std(file: &str) -> bool {
    const PACKAGES: &[&str] = &[
        "bufio", "bytes", "compress", "context", "crypto", "database", "encoding", "errors", "fmt", "hash",
        "html", "internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "reflect",
        "regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text",
        "time", "unicode",
    ];
    let is_go = file.ends_with(".go") || file.ends_with(".s");
    is_go && file.contains('/') && PACKAGES.contains(&first_part(file))
}

/// Returns the package whose build script wrote the file: `…/build/NAME-0123456789abcdef/out/bindings.rs`.
fn generated(file: &str) -> Option<String> {
    let (before, _) = file.split_once("/out/")?;
    let (before, folder) = before.rsplit_once('/')?;
    let (name, hash) = folder.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && before.ends_with("/build")).then(|| name.replace('-', "_"))
}

fn first_part(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// Returns a cargo package, named like its crate in code.
fn package(name: &str, version: &str) -> Package {
    Package { name: name.replace('-', "_"), version: version.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(file: &str) -> String {
        match owner(file) {
            Some(PathOwner::Package(package)) => format!("{} {}", package.name, package.version),
            Some(PathOwner::Generated(name)) => format!("generated {name}"),
            Some(PathOwner::Std) => "std".into(),
            Some(PathOwner::Workspace) => "workspace".into(),
            None => "nothing".into(),
        }
    }

    #[test]
    fn paths_of_every_kind() {
        for (file, expected) in [
            (
                "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde_json-1.0.149/src/de.rs",
                "serde_json 1.0.149",
            ),
            (
                "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/md-5-0.10.6/src/lib.rs",
                "md_5 0.10.6",
            ),
            (
                "C:\\Users\\a\\.cargo\\registry\\src\\index.crates.io-1949cf8c6b5b557f\\h2-0.4.5\\src\\lib.rs",
                "h2 0.4.5",
            ),
            ("/home/a/.cargo/registry/src/index-1/ring-0.17.0-alpha.11/crypto/x.c", "ring 0.17.0-alpha.11"),
            (
                "/home/a/.cargo/git/checkouts/tower-http-0123456789abcdef/1a2b3c4/tower-http/src/lib.rs",
                "tower_http 1a2b3c4",
            ),
            ("/home/a/.cargo/git/checkouts/tally-0123456789abcdef/1a2b3c4/src/lib.rs", "tally 1a2b3c4"),
            ("/home/me/shop/vendor/itoa/src/lib.rs", "itoa "),
            ("/home/me/shop/vendor/itoa-1.0.11/src/lib.rs", "itoa 1.0.11"),
            ("/cargo/tokio-1.47.1/src/runtime/park.rs", "tokio 1.47.1"),
            ("tokio-1.47.1/src/runtime/park.rs", "tokio 1.47.1"),
            ("/rustc/5980761f/library/core/src/ops/function.rs", "std"),
            ("/rust/deps/hashbrown-0.15.2/src/raw/mod.rs", "std"),
            ("/home/a/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/rt.rs", "std"),
            (
                "/home/me/shop/target/release/build/shop-proto-0123456789abcdef/out/proto.rs",
                "generated shop_proto",
            ),
            ("/home/me/shop/src/main.rs", "workspace"),
            ("crates/core/main.rs", "workspace"),
            ("src/main.rs", "workspace"),
            ("/root/go/pkg/mod/github.com/gorilla/mux@v1.8.1/mux.go", "github.com/gorilla/mux v1.8.1"),
            ("github.com/gorilla/mux@v1.8.1/mux.go", "github.com/gorilla/mux v1.8.1"),
            ("/home/me/shop/vendor/github.com/gorilla/mux/mux.go", "github.com/gorilla/mux "),
            ("/usr/local/go/src/runtime/proc.go", "std"),
            ("net/http/server.go", "std"),
            ("shop/main.go", "workspace"),
            ("/usr/include/c++/12/bits/stl_vector.h", "std"),
            ("/usr/lib/python3.12/json/decoder.py", "std"),
            ("/venv/lib/python3.12/site-packages/requests/api.py", "requests "),
            ("/app/node_modules/@scope/thing/index.js", "@scope/thing "),
            ("node:internal/process/task_queues", "std"),
            ("/app/server.js", "workspace"),
            ("", "nothing"),
        ] {
            assert_eq!(named(file), expected, "{file}");
        }
    }
}
