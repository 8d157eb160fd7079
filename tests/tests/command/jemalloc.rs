//! One jemalloc dump and three readers: jeprof, flamelet, and Go's pprof with the file that flamelet converts.

use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_tests::profiles;
use flamelet_tests::programs::{self, json_of, run_flamelet};

/// Allocates blocks of seven sizes on four threads and keeps every third one.
const PROGRAM: &str = r"
#include <pthread.h>
#include <stdlib.h>
static void *kept[100000];
static int count;
__attribute__((noinline)) void *hold(int size) { return malloc(size); }
static void *churn(void *unused) {
    for (int i = 0; i < 20000; i++) {
        void *block = hold(100 + i % 7 * 300);
        if (i % 3 == 0) kept[__sync_fetch_and_add(&count, 1)] = block; else free(block);
    }
    return unused;
}
int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, churn, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    churn(0);
}
";

/// Returns the shared library of jemalloc, which is in the folder of the system's libraries.
fn jemalloc() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("libraries").flatten().map(|entry| entry.path());
    let library = folders.map(|folder| folder.join("libjemalloc.so.2")).find(|library| library.exists());
    library.expect("libjemalloc.so.2 is not installed: apt-get install --yes libjemalloc-dev")
}

/// The program, and a dump of it that samples one byte in two to the power of `rate`.
fn dump(folder: &Path, rate: u32) -> (PathBuf, PathBuf) {
    let (source, program) = (folder.join("churn.c"), folder.join("churn"));
    std::fs::write(&source, PROGRAM).expect("written");
    let run = |command: &mut Command| assert!(command.status().expect("starts").success(), "{command:?}");
    run(Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).args([&program, &source]));
    let settings = "prof:true,prof_final:true,prof_accum:true,lg_prof_sample";
    let settings = format!("{settings}:{rate},prof_prefix:{}", folder.join("dump").display());
    run(Command::new(&program).env("LD_PRELOAD", jemalloc()).env("MALLOC_CONF", settings));
    let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let dump = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "heap"));
    (program, dump.expect("a dump"))
}

/// The first whole number after `mark`.
fn number_after(text: &str, mark: &str) -> i64 {
    let rest = text.split_once(mark).unwrap_or_else(|| panic!("no `{mark}` in {text}")).1.trim_start();
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or_else(|_| panic!("no number after `{mark}`: {text}"))
}

#[test]
fn jeprof_go_and_flamelet_agree_on_a_dump() {
    let Some(pprof) = programs::pprof() else { return };
    for rate in [0, 13] {
        let folder = profiles::scratch().join(format!("jemalloc-{rate}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (program, dump) = dump(&folder, rate);
        let text = std::fs::read_to_string(&dump).expect("text");
        let stacks = text.lines().filter(|line| line.starts_with('@')).count();
        // jeprof adds up fractions of objects, where pprof has whole ones in each stack.
        let margin = if rate == 0 { 0 } else { stacks as i64 };
        let (dump, converted) = (dump.display().to_string(), folder.join("dump.pb.gz"));
        let answer = run_flamelet(["convert", &dump, "-o", converted.to_str().expect("UTF-8")]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        for kind in ["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"] {
            let mut jeprof = Command::new("jeprof");
            jeprof.args(["--text", "--show_bytes", &format!("--{kind}")]).arg(&program).arg(&dump);
            let jeprof =
                jeprof.output().expect("jeprof is not installed: apt-get install --yes libjemalloc-dev");
            let jeprof = number_after(&String::from_utf8_lossy(&jeprof.stdout), "Total:");
            let ours = json_of(["top", "--json", "-i", kind, &dump]);
            let ours = ours["total"].as_i64().expect("a total");
            let options = ["-top", "-unit=B", &format!("-sample_index={kind}")];
            let go = programs::answer(programs::command(&pprof).args(options).arg(&converted));
            let go = number_after(&go.stdout, "% of ");
            assert_eq!(go, ours, "2^{rate}, {kind}");
            assert!((jeprof - ours).abs() <= margin, "2^{rate}, {kind}: {ours} here, {jeprof} in jeprof");
        }
    }
}
