use flamelet_profile::{Line, Mapping, ProfileBuilder};

use super::*;

/// A function of a profile, and the expected label of its owner.
type Row<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Checks the owners of functions given as (binary, name, file, kind and label of the owner).
fn check(rows: &[Row<'_>], is_mine: impl Fn(&str, &str) -> bool) {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    for (binary, name, file, _) in rows {
        let filename = builder.string(binary);
        let mapping = builder.mapping(Mapping { filename, ..Mapping::default() });
        let function = builder.named_function(name, file);
        let line = Line { function: Some(function), ..Line::default() };
        let location = builder.location(Some(mapping), 0, &[line]);
        let stack = builder.stack(&[location]);
        builder.merge_sample(stack, Default::default(), &[1]);
    }
    let profile = builder.finish();
    let owners = Owners::of(&profile, is_mine);
    for (index, (_, name, file, expected)) in rows.iter().enumerate() {
        let owner = owners.of_function(FunctionId::from_index(index));
        let found = match owner.label() {
            label if label == owner.kind() => label,
            label => format!("{} {label}", owner.kind()),
        };
        assert_eq!(found, *expected, "{name} in {file}");
    }
}

const SHOP: &str = "/srv/shop";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const REGISTRY: &str = "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";

#[test]
fn a_rust_service() {
    let serde = format!("{REGISTRY}/serde_json-1.0.149/src/de.rs");
    let tokio = format!("{REGISTRY}/tokio-1.47.1/src/runtime/park.rs");
    check(
        &[
            (SHOP, "shop::main", "/home/me/shop/src/main.rs", "yours"),
            (SHOP, "std::rt::lang_start_internal", "/rustc/5980/library/std/src/rt.rs", "std"),
            (SHOP, "from_str<shop::Cart>", &serde, "dependency serde_json 1.0.149"),
            (SHOP, "tokio::runtime::park::Inner::park", &tokio, "runtime tokio 1.47.1"),
            // Without a path, other functions of the crate decide.
            (SHOP, "serde_json::ser::format_escaped_str", "", "dependency serde_json 1.0.149"),
            (SHOP, "shop::cart::total", "", "yours"),
            (SHOP, "core::ptr::drop_in_place<shop::Cart>", "", "std"),
            (SHOP, "itoa::format", "", "dependency itoa"),
            // A derived implementation is in the file of its type.
            (SHOP, "<shop::Cart as serde::ser::Serialize>::serialize", "/home/me/shop/src/cart.rs", "yours"),
            (LIBC, "__memmove_avx_unaligned_erms", "", "system libc.so.6"),
            (LIBC, "start_thread", "./nptl/pthread_start.c", "system libc.so.6"),
            ("[kernel.kallsyms]", "do_syscall_64", "", "kernel"),
            ("[vdso]", "__vdso_clock_gettime", "", "system [vdso]"),
            (SHOP, "__rust_alloc", "", "std"),
            (SHOP, "syscall", "/home/me/flamelet/crates/flamelet/src/locks.rs", "dependency flamelet"),
            (SHOP, "main", "", "std"),
            (SHOP, "_start", "", "std"),
            (SHOP, "__rustc::__rust_alloc", "/home/me/shop/src/main.rs", "std"),
            // The frame of a label, by which samples are grouped.
            ("", "cart::show", "route", "unknown"),
        ],
        |_, _| false,
    );
}

#[test]
fn interpreters_are_not_yours_whatever_their_paths_say() {
    const PYTHON: &str = "/root/.pyenv/versions/3.11.7/bin/python3.11";
    const LIBRARY: &str = "/root/.pyenv/versions/3.12.1/lib/libpython3.12.so.1.0";
    const JSON: &str =
        "/root/.pyenv/versions/3.11.7/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so";
    check(
        &[
            (
                PYTHON,
                "_PyEval_EvalFrameDefault",
                "/tmp/build/Python-3.11.7/Python/ceval.c",
                "dependency python3.11",
            ),
            (LIBRARY, "_PyEval_EvalFrameDefault", "", "dependency libpython3.12.so.1.0"),
            (
                JSON,
                "encoder_listencode_dict",
                "/tmp/build/Python-3.11.7/Modules/_json.c",
                "dependency _json.cpython-311-x86_64-linux-gnu.so",
            ),
            (
                "/usr/bin/node",
                "uv_mutex_init",
                "/home/iojs/build/ws/deps/uv/src/unix/thread.c",
                "dependency node",
            ),
            ("/opt/jdk/lib/server/libjvm.so", "JVM_Clone", "", "dependency libjvm.so"),
            // What they run is: a profiler inside the interpreter knows its files.
            (PYTHON, "handle", "/srv/shop/app.py", "yours"),
            ("//anon", "py::handle:/srv/shop/app.py", "", "yours"),
            ("//anon", "int Shop.total(int)", "", "yours"),
            ("//anon", "Interpreter", "", "std"),
            ("//anon", "StubRoutines (2)", "", "std"),
        ],
        |_, _| false,
    );
}

#[test]
fn what_go_generates_belongs_to_its_package() {
    const GO: &str = "/srv/shop/shop";
    check(
        &[
            (GO, "main.work", "/home/me/shop/main.go", "yours"),
            (GO, "main.(*Cart).Total-fm", "<autogenerated>", "yours"),
            (GO, "encoding/json.structEncoder.encode-fm", "<autogenerated>", "std"),
            (GO, "type:.eq.main.Cart", "<autogenerated>", "std"),
        ],
        |_, _| false,
    );
}

#[test]
fn a_program_that_cargo_installed_is_yours_and_its_dependencies_are_not() {
    let (rg, regex) = (
        format!("{REGISTRY}/ripgrep-14.1.1/crates/core/main.rs"),
        format!("{REGISTRY}/regex-1.10.4/src/lib.rs"),
    );
    check(
        &[
            ("/home/a/.cargo/bin/rg", "rg::main", &rg, "yours"),
            ("/home/a/.cargo/bin/rg", "rg::search", &rg, "yours"),
            ("/home/a/.cargo/bin/rg", "regex::Regex::find", &regex, "dependency regex 1.10.4"),
            ("/home/a/.cargo/bin/rg", "std::rt::lang_start", "", "std"),
        ],
        |_, _| false,
    );
}

#[test]
fn symbols_of_rust_are_known_with_any_suffix() {
    for (symbol, expected) in [
        ("_ZN3std2rt10lang_start17h0123456789abcdefE", true),
        ("_ZN3std2rt10lang_start17h0123456789abcdefE.llvm.1234", true),
        ("_RNvCs1_4shop4main", true),
        ("_ZN4shop4mainEv", false),
        ("main", false),
    ] {
        assert_eq!(is_rust_symbol(symbol), expected, "{symbol}");
    }
}

#[test]
fn programs_in_other_languages() {
    check(
        &[
            ("/usr/lib/postgresql/17/bin/postgres", "ExecScan", "", "yours"),
            ("/usr/lib/postgresql/17/bin/postgres", "boost::asio::run", "", "yours"),
            (LIBC, "malloc", "", "system libc.so.6"),
            ("/System/Library/Frameworks/CoreFoundation", "CFRelease", "", "system CoreFoundation"),
            ("libsystem_pthread.dylib", "thread_start", "", "system libsystem_pthread.dylib"),
            ("dyld", "start", "", "system dyld"),
            (r"C:\Windows\System32\ntdll.dll", "NtWaitForSingleObject", "", "system ntdll.dll"),
            (r"C:\shop\shop.exe", "total", "", "yours"),
            ("/srv/shop", "std::vector<int>::push_back", "/usr/include/c++/12/bits/stl_vector.h", "std"),
            ("/srv/goshop", "runtime.mallocgc", "/usr/local/go/src/runtime/malloc.go", "std"),
            ("/srv/goshop", "main.handle", "/home/me/goshop/main.go", "yours"),
            ("", "java.util.HashMap.get", "HashMap.java", "std"),
            ("", "shop.Cart.total", "Cart.java", "yours"),
            ("/usr/bin/python3.12", "_PyEval_EvalFrameDefault", "", "dependency python3.12"),
            ("/tmp/perf-12.map", "py::handler:/home/me/app.py", "/home/me/app.py", "yours"),
            ("/srv/shop", "Script::run", "", "yours"),
            ("/srv/shop", "boost::asio::run", "/usr/include/boost/asio/io_context.hpp", "dependency boost"),
            ("/srv/shop", "fmt::format", "/usr/local/include/fmt/core.h", "dependency fmt"),
            (
                "/srv/shop",
                "QString::append",
                "/usr/include/x86_64-linux-gnu/qt6/QtCore/qstring.h",
                "dependency qt6",
            ),
            ("/srv/shop", "std::swap", "/usr/include/x86_64-linux-gnu/c++/12/bits/move.h", "std"),
            ("/srv/shop", "atoi", "/usr/include/stdlib.h", "std"),
        ],
        |_, _| false,
    );
}

#[test]
fn generated_code_is_known_by_its_name() {
    let express = "LazyCompile:*next /srv/shop/node_modules/express/lib/router/index.js:177:16";
    check(
        &[
            ("[anon]", "py::handler:/home/me/app.py", "", "yours"),
            ("[anon]", "py::<lambda>:<string>", "", "yours"),
            ("[anon]", "py::loads:/usr/lib/python3.12/json/__init__.py", "", "std"),
            ("[anon]", "py::_find_and_load:<frozen importlib._bootstrap>", "", "std"),
            ("[anon]", "py::get:/usr/lib/python3/dist-packages/requests/api.py", "", "dependency requests"),
            ("[anon]", "JS:*handle /home/me/app.js:12:3", "", "yours"),
            ("[anon]", "JS:~ file:///home/me/app.mjs:1:1", "", "yours"),
            ("[anon]", express, "", "dependency express"),
            ("[anon]", "JS:~wrapSafe node:internal/modules/cjs/loader:1281:20", "", "std"),
            ("[anon]", "Builtin:LoadIC", "", "std"),
            ("[anon]", "int java.lang.String.indexOf(int)", "", "std"),
            ("[anon]", "double shop.Cart.total(java.util.List)", "", "yours"),
        ],
        |_, _| false,
    );
}

#[test]
fn functions_that_match_mine_are_yours() {
    let file = format!("{REGISTRY}/house-lib-0.3.0/src/lib.rs");
    check(&[(SHOP, "house_lib::price", &file, "yours")], |name, _| name.starts_with("house_lib"));
}
