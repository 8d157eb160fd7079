use flamelet_profile::{Granularity, ProfileBuilder};

mod document;
mod waits;

use super::language::ByLanguage;
use super::shown::ShownBy;
use super::*;
use crate::options::{ReportKind, ReportOptions};

/// A frame: its name and its file.
type FrameText<'a> = (&'a str, &'a str);

const HANDLE: FrameText<'_> = ("shop::handle", "/home/me/shop/src/main.rs");
const TOTAL: FrameText<'_> = ("shop::total", "/home/me/shop/src/cart.rs");

/// A profile of stacks (leaf first) with their lines in your code, threads and values.
struct MadeProfile {
    builder: ProfileBuilder,
}

impl MadeProfile {
    fn of(unit: (&str, &str)) -> Self {
        Self { builder: ProfileBuilder::new(&[("samples", "count"), unit]) }
    }

    fn add(self, stack: &[FrameText<'_>], line: i64, thread: &str, count: i64) -> Self {
        self.add_of(None, stack, line, thread, count)
    }

    /// Like `add`, for a thread of a process.
    fn add_of(
        mut self,
        process: Option<&str>,
        stack: &[FrameText<'_>],
        line: i64,
        thread: &str,
        count: i64,
    ) -> Self {
        let builder = &mut self.builder;
        let frames: Vec<_> = stack
            .iter()
            .map(|(name, file)| {
                let function = builder.named_function(name, file);
                builder.frame(function, line)
            })
            .collect();
        let stack = builder.stack(&frames);
        let mut labels = vec![builder.text_label("thread", thread)];
        labels.extend(process.map(|process| builder.text_label("pid", process)));
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[count, count * 10]);
        self
    }

    fn explained(self) -> Explanation {
        let options = ReportOptions {
            granularity: Some(Granularity::Lines),
            sample_index: "1".into(),
            ..ReportOptions::default()
        };
        let report = Report::new(self.builder.finish(), &options, ReportKind::Top).expect("a report");
        let owners = Owners::of(&report.profile, |_, _| false);
        explain(&report, &owners)
    }
}

fn cpu() -> MadeProfile {
    MadeProfile::of(("cpu", "nanoseconds"))
}

fn speaks(explanation: &Explanation, rule: &str) -> bool {
    explanation.findings.iter().any(|finding| finding.rule == rule)
}

/// For each rule, a function that triggers it and a similar one that must not.
const PAIRS: &[(&str, &str, &str)] = &[
    (
        "unoptimized",
        "<core::ops::range::Range<u32> as core::iter::traits::collect::IntoIterator>::into_iter",
        "shop::into_iter",
    ),
    (
        "debug-assertions",
        "core::ptr::const_ptr::<impl *const T>::add::precondition_check",
        "shop::precondition",
    ),
    ("siphash", "<core::hash::sip::Hasher<S> as core::hash::Hasher>::write", "rustc_hash::FxHasher::write"),
    ("allocation", "alloc::alloc::alloc", "shop::alloc_table"),
    ("allocation", "free", "free_unref_page_list"),
    ("growing", "alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::vec::Vec<T>::push"),
    ("copying", "__memmove_avx_unaligned_erms", "__memcmp_avx2_movbe"),
    ("formatting", "core::fmt::write", "itoa::Buffer::format"),
    ("regex-compilation", "regex_syntax::parser::Parser::parse", "regex_automata::hybrid::search::find_fwd"),
    ("json", "serde_json::de::from_str", "json_tools::walk"),
    ("serialization", "bincode::serialize", "shop::bincode_like"),
    ("serialization", "protobuf::CodedOutputStream::write_raw_bytes", "shop::protobuf_names"),
    ("compression", "miniz_oxide::deflate::core::compress", "shop::compress_names"),
    ("compression", "ZSTD_compressBlock_doubleFast", "shop::zstd_level"),
    ("cryptography", "sha2::sha256::compress256", "rustc_hash::FxHasher::write"),
    ("cryptography", "EVP_EncryptUpdate", "shop::event_update"),
    ("reference-counts", "<alloc::sync::Arc<T> as core::clone::Clone>::clone", "shop::Arcade::play"),
    ("atomics", "core::sync::atomic::AtomicU64::fetch_add", "core::sync::atomic::AtomicBool::load"),
    (
        "spinning",
        "std::sys::sync::mutex::futex::Mutex::lock_contended",
        "std::sys::sync::mutex::futex::Mutex::lock",
    ),
    ("wake-ups", "try_to_wake_up", "shop::wake_up"),
    ("page-faults", "asm_exc_page_fault", "shop::page"),
    ("logging", "tracing_subscriber::registry::sharded::Registry::new_span", "shop::login"),
    (
        "logging",
        "tracing_core::event::Event::dispatch",
        "<tracing::instrument::Instrumented<T> as core::future::future::Future>::poll",
    ),
];

#[test]
fn each_rule_applies_where_it_must_and_nowhere_else() {
    for (rule, loud, quiet) in PAIRS {
        for (name, expected) in [(loud, true), (quiet, false)] {
            let explained = cpu()
                .add(&[(name, ""), HANDLE], 3, "main", 400)
                .add(&[TOTAL, HANDLE], 3, "main", 600)
                .explained();
            assert_eq!(speaks(&explained, rule), expected, "{rule} about {name}: {:#?}", explained.findings);
        }
    }
}

/// Returns whether the expression for programs of any language keeps stacks with the function.
fn keeps(focus: ByLanguage, name: &str) -> bool {
    let focus = [true, false].map(|is_rust| regex::Regex::new(focus.of(is_rust)).expect("an expression"));
    focus.iter().any(|focus| focus.is_match(name))
}

#[test]
fn the_command_of_a_finding_keeps_the_stacks_that_it_is_about() {
    for (id, loud, _) in PAIRS {
        let rule = RULES.iter().find(|rule| rule.id == *id).expect("a rule");
        if let ShownBy::Stacks(focus) = rule.shown {
            assert!(keeps(focus, loud), "{id}: {focus:?}: {loud}");
        }
    }
}

/// All that a rule looks for, in every language, and not only the Rust names in `PAIRS`.
#[test]
fn the_command_of_a_finding_matches_all_that_the_rule_looks_for() {
    // Wrappers of other code would match what finds all of `tracing::`.
    for rule in RULES.iter().filter(|rule| rule.id != "logging") {
        let functions = match &rule.look {
            Look::Anywhere(functions)
            | Look::Both(functions, _)
            | Look::Leaf(functions)
            | Look::LeafWithout(functions, _)
            | Look::Innermost(functions) => functions,
            Look::Check(_) => continue,
        };
        let ShownBy::Stacks(focus) = rule.shown else { continue };
        // What the others call.
        let inner = ["regex_automata::", "regex::builders::", "aho_corasick::", "unlink_chunk", "systrim"];
        for text in functions.starts.iter().chain(functions.parts) {
            let name = text.trim_end_matches('$');
            let is_inner = inner.iter().any(|start| name.starts_with(start));
            assert!(is_inner || keeps(focus, name), "{}: {focus:?} misses {name}", rule.id);
        }
    }
}

#[test]
fn advice_is_in_the_language_of_the_program() {
    let go = ("main.work", "/home/me/shop/main.go");
    let compile = ("regexp.MustCompile", "/usr/local/go/src/regexp/regexp.go");
    let explained = cpu().add(&[compile, go], 7, "main", 900).explained();
    let finding = explained.findings.iter().find(|it| it.rule == "regex-compilation").expect("a pattern");
    assert!(!finding.helps.contains("LazyLock"), "{}", finding.helps);
    let compile = ("regex_syntax::parser::Parser::parse", "");
    let explained = cpu().add(&[compile, HANDLE], 7, "main", 900).explained();
    let finding = explained.findings.iter().find(|it| it.rule == "regex-compilation").expect("a pattern");
    assert!(finding.helps.contains("LazyLock"), "{}", finding.helps);
    for rule in RULES.iter().filter(|rule| matches!(rule.about, Subject::Any | Subject::Memory)) {
        let elsewhere = rule.helps.of(false);
        for word in ["Vec", "`&T`", "Arc", "debug = ", "global_allocator!", "format!"] {
            assert!(!elsewhere.contains(word), "{}: {elsewhere}", rule.id);
        }
    }
}

#[test]
fn why_a_profile_is_poor_decides_what_helps() {
    let poor = |made: MadeProfile| made.explained().findings.remove(0);
    let few = poor(cpu().add(&[TOTAL, HANDLE], 1, "main", 20));
    assert_eq!((few.rule, &*few.helps), ("poor-profile", "profile for longer, under load"));
    let foreign = poor(cpu().add(&[("memcpy", "")], 1, "main", 900));
    assert!(foreign.title.contains("none of it is known to be your code"), "{}", foreign.title);
    assert!(foreign.helps.contains("--mine") && !foreign.helps.contains("longer"), "{}", foreign.helps);
    let mut made = cpu().add(&[TOTAL], 1, "main", 900);
    let unnamed = made.builder.address(None, 0x1234);
    let stack = made.builder.stack(&[unnamed]);
    made.builder.sample(stack, Default::default(), &[900, 9000]);
    made.builder.comment("50 % of the samples have Java functions without names: start java with -XX:+Names");
    let unnamed = poor(made);
    assert_eq!(unnamed.helps, "start java with -XX:+Names");
}

#[test]
fn an_interpreter_is_not_the_program_that_it_runs() {
    let mut made = cpu();
    let perl = made.builder.file_mapping(0x1000..0x2000, 0, "/usr/bin/perl", "");
    let frame = made.builder.named_address(Some(perl), 0x1234, "Perl_pp_match", "", 0);
    let stack = made.builder.stack(&[frame]);
    made.builder.sample(stack, Default::default(), &[900, 9000]);
    // What the recorder says about names of perl's own functions does not help.
    made.builder
        .comment("26 % of the samples are in functions of /usr/bin/perl without names: install a package");
    let finding = made.add(&[TOTAL], 1, "main", 5).explained().findings.remove(0);
    assert!(finding.title.contains("it shows perl itself"), "{}", finding.title);
    assert!(finding.helps.contains("a profiler of that language"), "{}", finding.helps);
}

#[test]
fn places_of_next_to_nothing_are_left_out() {
    let hash = ("core::hash::sip::Hasher::write", "");
    let explained = cpu()
        .add(&[hash, TOTAL], 7, "main", 3000)
        .add(&[hash, HANDLE], 9, "main", 1)
        .add(&[TOTAL], 9, "main", 3000)
        .explained();
    let finding = explained.findings.iter().find(|finding| finding.rule == "siphash").expect("SipHash");
    assert_eq!(finding.places.len(), 1, "{:?}", finding.places);
}

#[test]
fn where_nothing_stands_out_the_heaviest_function_is_named() {
    let explained = cpu().add(&[TOTAL, HANDLE], 3, "main", 700).add(&[HANDLE], 4, "main", 300).explained();
    assert!(explained.findings.is_empty(), "{:?}", explained.findings);
    let mut text = Vec::new();
    explained.write_text(&mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("Nothing stands out in 10us of cpu"), "{text}");
    assert!(text.contains("shop::total, with 70.0 %"), "{text}");
}

#[test]
fn every_rule_is_tested_and_has_a_name_of_its_own() {
    let elsewhere =
        ["poor-profile", "overflow-checks", "system-calls", "one-busy-thread", "few-lines", "few-owners"];
    let elsewhere =
        [&elsewhere[..], &["dropping", "leak", "temporary", "oversized", "fragmentation"], waits::TESTED]
            .concat();
    for (row, rule) in RULES.iter().enumerate() {
        assert!(elsewhere.contains(&rule.id) || PAIRS.iter().any(|(id, _, _)| *id == rule.id), "{}", rule.id);
        assert_eq!(RULES.iter().position(|other| other.id == rule.id), Some(row), "{}", rule.id);
    }
    assert!(RULES.len() <= 64, "a rule is a bit of a mask");
}

#[test]
fn a_finding_says_where_how_much_and_how_sure() {
    let hash = ("core::hash::sip::Hasher::write", "");
    let explained =
        cpu().add(&[hash, TOTAL, HANDLE], 7, "main", 300).add(&[TOTAL, HANDLE], 9, "main", 700).explained();
    let finding = explained.findings.iter().find(|finding| finding.rule == "siphash").expect("SipHash");
    assert!((finding.share - 0.3).abs() < 1e-9);
    assert!(finding.range.0 > 0.27 && finding.range.1 < 0.33, "{:?}", finding.range);
    assert_eq!(finding.confidence, "high");
    assert_eq!((&*finding.places[0].function, finding.places[0].line), ("shop::total", 7));
    let mut text = Vec::new();
    explained.write_text(&mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("SipHash on hot maps: 30.0 %"), "{text}");
    assert!(text.contains("shop::total  /home/me/shop/src/cart.rs:7"), "{text}");
    assert!(text.contains("top --by yours --focus 'hash::(sip|random)|DefaultHasher'\n"), "{text}");
    assert!(!text.contains("Uncertain"), "{text}");
}

#[test]
fn a_finding_that_may_be_chance_says_so() {
    let hash = ("core::hash::sip::Hasher::write", "");
    let explained =
        cpu().add(&[hash, TOTAL, HANDLE], 7, "main", 6).add(&[TOTAL, HANDLE], 9, "main", 144).explained();
    let finding = explained.findings.iter().find(|finding| finding.rule == "siphash").expect("SipHash");
    assert_eq!(finding.confidence, "low");
    let mut text = Vec::new();
    explained.write_text(&mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("SipHash on hot maps: 4.0 %"), "{text}");
    assert!(text.contains("\n   Uncertain: too few samples to be sure."), "{text}");
}

fn closer_of<'e>(explained: &'e Explanation, rule: &str) -> &'e Closer {
    &explained.findings.iter().find(|finding| finding.rule == rule).expect(rule).closer
}

#[test]
fn a_finding_leads_to_the_view_that_shows_it() {
    let busy = cpu()
        .add(&[TOTAL], 1, "main", 2000)
        .add(&[TOTAL], 1, "worker-1", 100)
        .add(&[TOTAL], 1, "worker-2", 100)
        .explained();
    assert_eq!(*closer_of(&busy, "one-busy-thread"), Closer::Threads);
    let made = cpu().add(&[TOTAL], 10, "main", 900);
    let lines = (11..20).fold(made, |made, line| made.add(&[TOTAL], line, "main", 20)).explained();
    assert_eq!(*closer_of(&lines, "few-lines"), Closer::Lines { function: "shop::total".to_owned() });
    let poor = cpu().add(&[TOTAL], 1, "main", 20).explained();
    assert_eq!(*closer_of(&poor, "poor-profile"), Closer::Info);
    let types = [("alloc_objects", "count"), ("temporary_objects", "count"), ("alloc_space", "bytes")];
    let counted = heap(&types, &[("shop::describe", ("", ""), &[1000, 600, 64_000])], "");
    let by_type = Closer::Yours { focus: String::new(), sample_type: "temporary_objects" };
    assert_eq!(*closer_of(&counted, "temporary"), by_type);
    let types = [("freed_objects", "count"), ("freed_space", "bytes")];
    let labelled = heap(&types, &[("shop::describe", ("lifetime", "temporary"), &[1000, 64_000])], "");
    assert_eq!(*closer_of(&labelled, "temporary"), Closer::Heap { what: "temporary" });
    let text = serde_json::to_value(closer_of(&labelled, "temporary")).expect("JSON");
    assert_eq!(text, serde_json::json!({ "view": "heap", "what": "temporary" }));
}

#[test]
fn a_poor_profile_is_reported_first() {
    let explained = cpu().add(&[("alloc::alloc::alloc", ""), HANDLE], 1, "main", 20).explained();
    assert_eq!(explained.findings[0].rule, "poor-profile");
    assert!(explained.findings[0].title.contains("20 samples"), "{}", explained.findings[0].title);
    let good = cpu().add(&[TOTAL, HANDLE], 1, "main", 2000).explained();
    assert!(!speaks(&good, "poor-profile"));
}

#[test]
fn system_calls_are_named() {
    let read = ("__x64_sys_read", "");
    let made = |calls| {
        cpu()
            .add(&[read, ("do_syscall_64", ""), HANDLE], 1, "main", calls)
            .add(&[("__x64_sys_fsync", ""), ("do_syscall_64", ""), HANDLE], 1, "main", 1)
            .add(&[TOTAL], 1, "main", 1000)
            .explained()
    };
    let explained = made(500);
    let finding = explained.findings.iter().find(|finding| finding.rule == "system-calls").expect("calls");
    assert!(finding.title.ends_with("read 33 %"), "without those of 0 %: {}", finding.title);
    assert!(!speaks(&made(50), "system-calls"));
}

/// A call whose function ends in a jump leaves the frame of what it jumped to, or none.
#[test]
fn system_calls_without_a_frame_of_their_own_count() {
    let explained = cpu()
        .add(&[("vfs_writev", ""), ("do_writev", ""), ("do_syscall_64", ""), HANDLE], 1, "main", 300)
        .add(&[("do_syscall_64", ""), HANDLE], 1, "main", 100)
        .add(&[TOTAL], 1, "main", 600)
        .explained();
    let finding = explained.findings.iter().find(|finding| finding.rule == "system-calls").expect("calls");
    assert!((finding.share - 0.4).abs() < 1e-9, "{finding:?}");
    assert!(finding.title.ends_with("system calls: writev 30 %"), "{}", finding.title);
}

#[test]
fn overflow_checks_are_reported_unless_the_build_is_for_development() {
    let made = |comment: &str, leaf| {
        let mut made = cpu().add(&[leaf, HANDLE], 3, "main", 400).add(&[TOTAL], 3, "main", 600);
        made.builder.comment(comment);
        made.explained()
    };
    let debug = ("core::ptr::const_ptr::<impl *const T>::add::precondition_check", "");
    assert!(speaks(&made(OVERFLOW_CHECKS, TOTAL), "overflow-checks"));
    assert!(!speaks(&made("another comment", TOTAL), "overflow-checks"));
    assert!(!speaks(&made(OVERFLOW_CHECKS, debug), "overflow-checks"));
}

#[test]
fn one_busy_thread_among_idle_ones() {
    let made = |busy| {
        cpu()
            .add(&[TOTAL], 1, "main", busy)
            .add(&[TOTAL], 1, "worker-1", 100)
            .add(&[TOTAL], 1, "worker-2", 100)
            .explained()
    };
    assert!(speaks(&made(2000), "one-busy-thread"));
    assert!(!speaks(&made(200), "one-busy-thread"));
    let script = |processes: [&str; 3]| {
        let [first, second, third] = processes.map(Some);
        let made = cpu().add_of(first, &[TOTAL], 1, "python", 2000);
        let made = made.add_of(second, &[TOTAL], 1, "basename", 10).add_of(third, &[TOTAL], 1, "env", 10);
        made.explained()
    };
    assert!(speaks(&script(["7", "7", "7"]), "one-busy-thread"));
    assert!(!speaks(&script(["7", "8", "9"]), "one-busy-thread"), "the programs that a script starts");
}

#[test]
fn few_lines_of_a_hot_function() {
    let made = |hot| {
        let made = cpu().add(&[TOTAL], 10, "main", hot);
        (11..20).fold(made, |made, line| made.add(&[TOTAL], line, "main", 20)).explained()
    };
    assert!(speaks(&made(900), "few-lines"));
    assert!(!speaks(&made(20), "few-lines"));
}

#[test]
fn what_was_allocated_is_not_held() {
    let made = |kind| MadeProfile::of((kind, "bytes")).add(&[TOTAL], 1, "main", 900).explained();
    assert!(speaks(&made("inuse_space"), "few-owners"));
    for kind in ["alloc_space", "freed_space", "growth_space"] {
        assert!(!speaks(&made(kind), "few-owners"), "{kind}");
    }
}

#[test]
fn few_owners_of_memory() {
    let made = |others: i64| {
        let made = MadeProfile::of(("inuse_space", "bytes")).add(
            &[("alloc::alloc::alloc", ""), TOTAL],
            1,
            "main",
            900,
        );
        let names: Vec<String> = (0..others).map(|number| format!("shop::keep_{number}")).collect();
        names
            .iter()
            .fold(made, |made, name| made.add(&[(name, "/home/me/shop/src/keep.rs")], 1, "main", 500))
            .explained()
    };
    assert!(speaks(&made(1), "few-owners"));
    assert!(!speaks(&made(9), "few-owners"));
    assert!(!speaks(&made(1), "allocation"), "a heap profile is not about time");
}

#[test]
fn memory_is_held_by_who_asked_for_it_and_not_by_the_allocator() {
    let ours = "<flamelet_capture::heap::alloc::Alloc<A> as core::alloc::global::GlobalAlloc>::alloc";
    let theirs = "<shop::Counted as core::alloc::global::GlobalAlloc>::alloc";
    for (allocator, file) in [(ours, "/home/me/flamelet/crates/capture/src/heap/alloc.rs"), (theirs, TOTAL.1)]
    {
        let stack = [(allocator, file), ("alloc::alloc::alloc", ""), TOTAL, HANDLE];
        let explained = MadeProfile::of(("inuse_space", "bytes")).add(&stack, 1, "main", 900).explained();
        let finding = explained.findings.iter().find(|it| it.rule == "few-owners").expect("one owner");
        assert_eq!(finding.places[0].function, "shop::total", "{:?}", finding.places);
    }
    let stack = [("alloc::fmt::format", ""), (ours, ""), TOTAL];
    let explained = cpu().add(&stack, 1, "main", 900).explained();
    let finding = explained.findings.iter().find(|finding| finding.rule == "formatting").expect("formatting");
    assert_eq!(finding.places[0].function, "shop::total", "{:?}", finding.places);
}

#[test]
fn an_empty_profile_is_poor_and_nothing_else() {
    let explained = cpu().explained();
    assert_eq!(explained.findings.len(), 1);
    assert_eq!(explained.findings[0].rule, "poor-profile");
    assert!(explained.findings[0].helps.contains("--off-cpu"), "{}", explained.findings[0].helps);
}

/// Explains a heap with these columns; each row is a function of yours, a label and its values.
fn heap(types: &[(&str, &str)], rows: &[(&str, (&str, &str), &[i64])], comment: &str) -> Explanation {
    let mut builder = ProfileBuilder::new(types);
    builder.comment(comment);
    for (name, (key, value), values) in rows {
        let function = builder.named_function(name, "/home/me/shop/src/main.rs");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        let label = builder.text_label(key, value);
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, values);
    }
    let report =
        Report::new(builder.finish(), &ReportOptions::default(), ReportKind::Explain).expect("a report");
    let owners = Owners::of(&report.profile, |_, _| false);
    explain(&report, &owners)
}

#[test]
fn growth_is_a_leak_only_if_it_is_steady() {
    let made = |steady| {
        let row: (&str, (&str, &str), &[i64]) = ("shop::remember", ("steady", steady), &[1000, 1 << 20]);
        heap(&[("growth_objects", "count"), ("growth_space", "bytes")], &[row], "")
    };
    let explained = made("yes");
    let finding = explained.findings.iter().find(|finding| finding.rule == "leak").expect("a leak");
    assert_eq!(finding.places[0].function, "shop::remember");
    assert!(finding.title.contains("1MB"), "{}", finding.title);
    assert!(!speaks(&made("no"), "leak"));
}

/// If every allocation is recorded, bytes are no samples.
#[test]
fn recorded_allocations_are_the_observations_of_a_recording() {
    let types = [("alloc_objects", "count"), ("alloc_space", "bytes")];
    assert_eq!(heap(&types, &[("shop::describe", ("", ""), &[1000, 64_000])], "").observations, 1000);
}

#[test]
fn recorded_events_are_observations() {
    let calls: (&str, (&str, &str), &[i64]) = ("shop::load", ("", ""), &[5000]);
    assert_eq!(heap(&[("syscalls", "count")], &[calls], "").observations, 5000);
}

#[test]
fn rows_without_a_value_are_no_observations() {
    let types = [("alloc_space", "bytes"), ("inuse_space", "bytes")];
    let rows: Vec<(String, i64)> =
        (0..200).map(|number| (format!("shop::step_{number}"), i64::from(number < 60) << 20)).collect();
    let rows: Vec<(&str, (&str, &str), [i64; 2])> =
        rows.iter().map(|(name, in_use)| (&**name, ("", ""), [1 << 20, *in_use])).collect();
    let rows: Vec<(&str, (&str, &str), &[i64])> =
        rows.iter().map(|(name, label, values)| (*name, *label, &values[..])).collect();
    assert_eq!(heap(&types, &rows, "").observations, 60);
}

#[test]
fn temporary_allocations_are_counted_by_column_and_by_label() {
    let types = [("alloc_objects", "count"), ("temporary_objects", "count"), ("alloc_space", "bytes")];
    let made = |temporary| heap(&types, &[("shop::describe", ("", ""), &[1000, temporary, 64_000])], "");
    assert!(speaks(&made(600), "temporary"));
    assert!(!speaks(&made(100), "temporary"));
    let types = [("freed_objects", "count"), ("freed_space", "bytes")];
    let made = |lifetime| heap(&types, &[("shop::describe", ("lifetime", lifetime), &[1000, 64_000])], "");
    assert!(speaks(&made("temporary"), "temporary"));
    assert!(!speaks(&made("1s-10s"), "temporary"));
}

#[test]
fn memory_that_is_never_written_is_oversized() {
    let types = [("alloc_space", "bytes"), ("written_space", "bytes")];
    let made = |written| heap(&types, &[("shop::reserve", ("", ""), &[1 << 20, written])], "");
    assert!(speaks(&made(1000), "oversized"));
    assert!(!speaks(&made(1 << 20), "oversized"));
    let unknown = heap(&types[..1], &[("shop::reserve", ("", ""), &[1 << 20])], "");
    assert!(!speaks(&unknown, "oversized"), "who does not count writes says nothing about them");
}

#[test]
fn a_process_much_larger_than_its_heap_is_fragmented() {
    let types = [("inuse_objects", "count"), ("inuse_space", "bytes")];
    let made = |resident: i64| {
        let comment = format!("flamelet: resident memory {resident} bytes");
        heap(&types, &[("shop::keep", ("", ""), &[1000, 100 << 20])], &comment)
    };
    let explained = made(500 << 20);
    let finding = explained.findings.iter().find(|finding| finding.rule == "fragmentation").expect("found");
    assert!(finding.title.contains("500MB") && finding.title.contains("100MB"), "{}", finding.title);
    assert!(!speaks(&made(150 << 20), "fragmentation"));
    assert!(!speaks(&made(0), "fragmentation"));
}

#[test]
fn several_moments_tell_a_leak_from_a_cache_that_is_full() {
    let moments = |sizes: &[i64]| {
        let profiles = sizes.iter().enumerate().map(|(minute, &bytes)| {
            let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
            builder.header_mut().time_nanos = minute as i64 * 60_000_000_000;
            let function = builder.named_function("shop::remember", "/home/me/shop/src/main.rs");
            let frame = builder.frame(function, 1);
            let stack = builder.stack(&[frame]);
            builder.sample(stack, Default::default(), &[bytes >> 10, bytes]);
            builder.finish()
        });
        let profiles: Vec<Profile> = profiles.collect();
        let report = |profile: &Profile, command| {
            Report::new(profile.clone(), &ReportOptions::default(), command).expect("a report")
        };
        let last = report(profiles.last().expect("one"), ReportKind::Explain);
        let reports: Vec<Report> = profiles.iter().map(|profile| report(profile, ReportKind::Heap)).collect();
        let owners = Owners::of(&last.profile, |_, _| false);
        explain_moments(&reports, &last, &owners).expect("explained")
    };
    let leak = moments(&[1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20]);
    let finding = leak.findings.iter().find(|finding| finding.rule == "leak").expect("a leak");
    assert!(finding.title.contains("4MB more in 240 s over 5 profiles, steadily"), "{}", finding.title);
    assert_eq!((finding.places[0].function.as_str(), finding.confidence), ("shop::remember", "high"));
    let full = moments(&[5 << 20, 7 << 20, 4 << 20, 6 << 20, 5 << 20]);
    assert!(!speaks(&full, "leak"), "{:?}", full.findings);
    let two = moments(&[1 << 20, 5 << 20]);
    let finding = two.findings.iter().find(|finding| finding.rule == "leak").expect("perhaps a leak");
    assert_eq!(finding.confidence, "low");
}

#[test]
fn dropping_is_mentioned_where_memory_is_freed_and_not_where_locks_are_released() {
    let made = |inside: FrameText<'_>| {
        let drop = ("core::ptr::drop_in_place<shop::Cart>", "");
        cpu().add(&[inside, drop, HANDLE], 3, "main", 400).add(&[TOTAL, HANDLE], 3, "main", 600).explained()
    };
    assert!(speaks(&made(("_int_free", "")), "dropping"));
    assert!(!speaks(&made(("std::sync::mutex::MutexGuard::unlock", "")), "dropping"));
}

#[test]
fn what_one_stack_has_is_not_said_about_its_neighbours() {
    let (hash, read) = (("core::hash::sip::Hasher::write", ""), ("__x64_sys_read", ""));
    let (drop, free) = (("core::ptr::drop_in_place<shop::Cart>", ""), ("_int_free", ""));
    let explained = cpu()
        .add(&[hash, TOTAL, HANDLE], 3, "main", 100)
        .add(&[TOTAL, HANDLE], 3, "main", 100)
        .add(&[read, TOTAL, HANDLE], 3, "main", 300)
        .add(&[drop, TOTAL, HANDLE], 3, "main", 100)
        .add(&[free, drop, HANDLE], 3, "main", 200)
        .add(&[HANDLE], 3, "main", 200)
        .explained();
    let finding = |rule| explained.findings.iter().find(|finding| finding.rule == rule).expect(rule);
    assert!((finding("siphash").share - 0.1).abs() < 1e-9);
    assert!((finding("system-calls").share - 0.3).abs() < 1e-9);
    assert!((finding("dropping").share - 0.2).abs() < 1e-9, "one of the two drops frees");
    assert_eq!(finding("siphash").places[0].function, "shop::total");
    assert_eq!(finding("dropping").places[0].function, "shop::handle");
}
