//! heaptrack, strace and jemalloc files made by the real tools, and our files read by other readers.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use flamelet_formats::{Format, FormatOptions, write};
use support::{
    download, fixture, folded, folder, need, number_after, open, perf_may_record, printed, run, total,
};

#[test]
fn heaptrack_interpreted_and_raw() {
    need("heaptrack", "heaptrack");
    let folder = folder("heaptrack");
    for (name, raw) in [("plain", false), ("raw", true)] {
        let file = folder.join(name);
        let mut command = Command::new("heaptrack");
        run(command.args(raw.then_some("-r")).arg("-o").arg(&file).arg(fixture()).arg("300"));
        let packed = ["zst", "gz", "raw.zst", "raw.gz"].map(|ending| file.with_extension(ending));
        let packed = packed.into_iter().find(|path| path.exists()).expect("heaptrack wrote a file");
        let read = open(&packed, Format::Heaptrack);
        let interpreted = if raw { interpret(&packed) } else { packed.clone() };
        let report = printed(Command::new("heaptrack_print").arg("-f").arg(&interpreted));
        let say = |label: &str| number_after(&report, label);
        assert_eq!(
            total(&read.profile, "alloc_objects") as f64,
            say("calls to allocation functions:"),
            "{name}"
        );
        // heaptrack_print counts a free of the first kind of allocation as temporary if another free came before it.
        let temporary =
            say("temporary memory allocations:") - total(&read.profile, "temporary_objects") as f64;
        assert!((0.0..=4.0).contains(&temporary), "{name}: {temporary} temporary allocations differ");
        // The report has two digits after the point.
        let same = |kind: &str, label: &str| {
            let (ours, theirs) = (total(&read.profile, kind) as f64 / 1000.0, say(label));
            assert!((ours - theirs).abs() < 0.011, "{name}, {kind}: {ours} here, {theirs} there");
        };
        same("peak_space", "peak heap memory consumption:");
        same("inuse_space", "total memory leaked:");
        assert_eq!(
            read.profile.locations().iter().all(|l| read.profile.lines_of(l).is_empty()),
            raw,
            "{name}"
        );
    }
}

/// Returns heaptrack's own interpretation of raw data.
fn interpret(raw: &std::path::Path) -> PathBuf {
    let out = raw.with_extension("interpreted");
    let tool = ["/usr/lib/heaptrack/libexec/heaptrack_interpret", "/usr/libexec/heaptrack_interpret"];
    let tool = tool.iter().find(|path| std::path::Path::new(path).exists()).expect("heaptrack_interpret");
    let unpack = if raw.extension().is_some_and(|ending| ending == "zst") { "zstd -dc" } else { "gzip -dc" };
    let line = format!("{unpack} '{}' | {tool} > '{}'", raw.display(), out.display());
    run(Command::new("sh").arg("-c").arg(line));
    out
}

#[test]
fn strace_log_agrees_with_its_own_table() {
    need("strace", "strace");
    let file = folder("strace").join("both.txt");
    run(Command::new("strace").args(["-C", "-f", "-T", "-ttt", "-o"]).arg(&file).arg(fixture()).arg("20"));
    let text = std::fs::read_to_string(&file).unwrap();
    let table_at = text.find("% time").expect("the table");
    let (log, table) = (file.with_extension("log"), file.with_extension("table"));
    std::fs::write(&log, &text[..table_at]).unwrap();
    std::fs::write(&table, &text[table_at..]).unwrap();
    let (log, table) = (open(&log, Format::Strace).profile, open(&table, Format::StraceSummary).profile);
    let calls = |profile| {
        let mut calls: BTreeMap<String, i64> = folded(profile, "calls");
        // Calls that do not return are in the log only.
        calls.retain(|name, _| name != "exit" && name != "exit_group");
        calls
    };
    assert_eq!(calls(&log), calls(&table));
    assert_eq!(total(&log, "errors"), total(&table, "errors"));
    assert_eq!(log.timeline.as_ref().unwrap().threads.len(), 2);
    assert!(total(&log, "time") > 0);
}

#[test]
fn strace_stacks() {
    need("strace", "strace");
    let file = folder("strace").join("stacks.txt");
    run(Command::new("strace").args(["-k", "-f", "-T", "-ttt", "-o"]).arg(&file).arg(fixture()).arg("2"));
    let profile = open(&file, Format::Strace).profile;
    let stacks = folded(&profile, "calls");
    assert!(
        stacks.keys().any(|stack| stack.ends_with(";write") || stack.ends_with(";__write;write")),
        "{stacks:?}"
    );
}

/// Returns whether bpftrace can load a program here, which needs root and support by the kernel.
fn bpftrace_is_allowed() -> bool {
    need("bpftrace", "bpftrace");
    let output =
        Command::new("bpftrace").args(["-e", "BEGIN { exit(); }"]).output().expect("bpftrace starts");
    let allowed = output.status.success();
    if !allowed {
        flamelet_test_support::skip!(
            "bpftrace may not load programs here: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    allowed
}

#[test]
fn bpftrace_stacks_counts_and_histograms() {
    if !bpftrace_is_allowed() {
        return;
    }
    let file = folder("bpftrace").join("maps.txt");
    // It runs for as long as bpftrace does, which names addresses at its end, and only of live processes.
    let mut program =
        Command::new(fixture()).args(["1000000000", "forget"]).spawn().expect("the program starts");
    let script = format!(
        "profile:hz:997 /pid == {}/ {{ @stacks[ustack] = count(); @all = count(); @which = lhist(cpu, 0, 64, 1); }} \
         interval:s:2 {{ exit(); }}",
        program.id()
    );
    let watched = Command::new("bpftrace").arg("-o").arg(&file).args(["-e", &script]).output();
    let _ = program.kill();
    let _ = program.wait();
    assert!(watched.expect("bpftrace starts").status.success());
    let profile = open(&file, Format::Bpftrace).profile;
    let counts = folded(&profile, "samples");
    let all = counts["@all"];
    assert!(all > 100, "{counts:?}");
    let buckets: i64 =
        counts.iter().filter(|(stack, _)| stack.starts_with("@which;")).map(|(_, count)| count).sum();
    assert_eq!(buckets, all);
    let sampled: i64 =
        counts.iter().filter(|(stack, _)| !stack.starts_with('@')).map(|(_, count)| count).sum();
    // A stack that collides with another in the kernel's table is counted, but cannot be printed.
    assert!(sampled <= all && sampled * 10 >= all * 9, "{sampled} of {all}");
    let hot: i64 = counts.iter().filter(|(stack, _)| stack.contains("leaf")).map(|(_, count)| count).sum();
    assert!(hot * 10 > sampled * 8, "{counts:?}");
}

/// Of the program's own functions only: what the kernel and the C library take differs between machines.
#[test]
fn several_tools_agree_on_the_hot_function() {
    if !perf_may_record() {
        return;
    }
    need("valgrind", "valgrind");
    let folder = folder("agree");
    let (sampled, counted) = (folder.join("perf.data"), folder.join("callgrind.out"));
    run(Command::new("perf")
        .args(["record", "--no-buildid-cache", "-F", "997", "-g", "-o"])
        .arg(&sampled)
        .arg("--")
        .arg(fixture())
        .args(["40000", "forget"]));
    let text = printed(Command::new("perf").args(["script", "--no-inline", "-i"]).arg(&sampled));
    std::fs::write(sampled.with_extension("txt"), text).unwrap();
    let out = format!("--callgrind-out-file={}", counted.display());
    run(Command::new("valgrind").args(["--tool=callgrind", &out]).arg(fixture()).arg("200"));
    let sampled = own_functions(&sampled.with_extension("txt"), Format::PerfScript, "samples");
    let counted = own_functions(&counted, Format::Callgrind, "Ir");
    for functions in [&sampled, &counted] {
        let first = functions.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.as_str());
        assert_eq!(first, Some("fixture::leaf"), "{functions:?}");
    }
    let (time, instructions) = (likely_share(&sampled), likely_share(&counted));
    assert!(*time.start() > 0.5, "{sampled:?}");
    let apart = (time.start() - instructions.end()).max(instructions.start() - time.end());
    assert!(apart <= INSTRUCTIONS_ARE_NOT_TIME, "{time:?} {sampled:?}, {instructions:?} {counted:?}");
}

/// How much the two may differ. The other functions only make calls: some tens of instructions for 2,000 rounds of a
/// loop.
const INSTRUCTIONS_ARE_NOT_TIME: f64 = 0.05;

/// What each function of the program has by itself.
fn own_functions(file: &std::path::Path, format: Format, kind: &str) -> BTreeMap<String, i64> {
    let costs = support::flat_and_cumulative(&open(file, format).profile, kind);
    let own = costs.into_iter().filter(|(name, _)| name.starts_with("fixture::"));
    own.map(|(name, (flat, _))| (name, flat)).collect()
}

/// Returns the bounds of the share of `leaf` with this many samples: Wilson's interval of five standard deviations,
/// which is wrong once in a million runs.
fn likely_share(functions: &BTreeMap<String, i64>) -> std::ops::RangeInclusive<f64> {
    const DEVIATIONS: f64 = 5.0;
    let all = functions.values().sum::<i64>() as f64;
    let seen = functions["fixture::leaf"] as f64;
    let weight = all + DEVIATIONS.powi(2);
    let middle = (seen + DEVIATIONS.powi(2) / 2.0) / weight;
    let half = DEVIATIONS / weight * (seen * (all - seen) / all + DEVIATIONS.powi(2) / 4.0).sqrt();
    middle - half..=middle + half
}

/// Python packages that read what is written here, installed once into the target folder.
fn python_packages() -> PathBuf {
    need("python3", "python3");
    let folder = folder("python");
    let packages = ["gprof2dot==2025.4.14", "opentelemetry-proto==1.45.2"];
    if !folder.join("done").exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(&folder)
            .args(packages);
        download(&mut pip);
        std::fs::write(folder.join("done"), "").unwrap();
    }
    folder
}

fn python(script: &str, arguments: &[&std::path::Path]) -> String {
    let mut command = Command::new("python3");
    printed(command.env("PYTHONPATH", python_packages()).arg("-c").arg(script).args(arguments))
}

/// A profile to write, from the data in this folder.
fn written(format: Format) -> PathBuf {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-script.txt");
    let profile = open(&data, Format::PerfScript).profile;
    let file = folder("written").join(format!("profile.{}", format.extensions()[0]));
    write(&profile, format, &mut std::fs::File::create(&file).unwrap(), &FormatOptions::default()).unwrap();
    file
}

#[test]
fn others_read_what_is_written() {
    let script = "import sys, gprof2dot\ngprof2dot.main(['-n0', '-e0', '-f'] + sys.argv[1:])";
    for (format, name) in [(Format::Callgrind, "callgrind"), (Format::Folded, "collapse")] {
        let dot = python(script, &[std::path::Path::new(name), &written(format)]);
        assert!(dot.contains("fixture::leaf"), "{dot}");
    }
    let script = "
import sys
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData
data = ProfilesData.FromString(open(sys.argv[1], 'rb').read())
words = data.dictionary.string_table
for resource in data.resource_profiles:
    for scope in resource.scope_profiles:
        for profile in scope.profiles:
            kind = words[profile.sample_type.type_strindex]
            print(kind, sum(sum(sample.values) for sample in profile.samples))
";
    assert_eq!(python(script, &[&written(Format::Otlp)]), "samples 10\ncpu 10030090\n");
}

/// Returns the shared library of jemalloc, which is in the folder of the system's libraries.
fn jemalloc() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let library = folders.map(|folder| folder.join("libjemalloc.so.2")).find(|library| library.exists());
    library.expect("libjemalloc.so.2 is not installed: apt-get install --yes libjemalloc-dev")
}

#[test]
fn jemalloc_dumps_agree_with_jeprof() {
    need("jeprof", "libjemalloc-dev");
    for rate in [0, 12] {
        let folder = folder(&format!("jemalloc-{rate}-{}", std::process::id()));
        let prefix = folder.join("dump");
        let settings =
            format!("prof:true,prof_final:true,lg_prof_sample:{rate},prof_accum:true,prof_prefix:");
        let settings = format!("{settings}{}", prefix.display());
        run(Command::new(fixture()).arg("300").env("LD_PRELOAD", jemalloc()).env("MALLOC_CONF", settings));
        let dump =
            std::fs::read_dir(&folder).unwrap().flatten().next().expect("jemalloc wrote a dump").path();
        let profile = open(&dump, Format::Jemalloc).profile;
        let text = std::fs::read_to_string(&dump).unwrap();
        let stacks = text.lines().filter(|line| line.starts_with('@')).count();
        for kind in ["inuse_space", "alloc_objects"] {
            let mut jeprof = Command::new("jeprof");
            let report = printed(
                jeprof.args(["--text", "--show_bytes", &format!("--{kind}")]).arg(fixture()).arg(&dump),
            );
            let (ours, theirs) = (total(&profile, kind) as f64, number_after(&report, "Total:"));
            // jeprof adds up fractions, here each stack has whole numbers.
            let margin = if rate == 0 { 0.0 } else { stacks as f64 };
            assert!((ours - theirs).abs() <= margin, "2^{rate}, {kind}: {ours} here, {theirs} there");
        }
        let maps_program =
            |mapping: &flamelet_profile::Mapping| profile.string(mapping.filename).ends_with("/fixture");
        assert!(profile.mappings().iter().any(maps_program));
    }
}
