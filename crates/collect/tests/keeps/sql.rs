//! DuckDB and ClickHouse answer the questions of docs/fleet.md, on the blocks as they are, to the last unit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_collect::sql::{BlocksLocation, SqlEngine, questions, views};
use flamelet_profile::{LabelSetId, Profile, ProfileBuilder};
use flamelet_test_support::S3Server;

use crate::support::{HOUR, Site, T0, heap, offered};

const MINUTE: i64 = 60_000_000_000;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Runs SQL in DuckDB or ClickHouse, and prints the rows of each statement as JSON.
const SCRIPT: &str = r#"
import json, sys
engine, statements = sys.argv[1], json.load(sys.stdin)
plain = lambda value: value.strftime("%Y-%m-%d %H:%M:%S") if hasattr(value, "strftime") else value
if engine == "duckdb":
    import duckdb
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    ask = lambda sql: connection.execute(sql).fetchall()
else:
    from chdb import session
    connection = session.Session()
    ask = lambda sql: [json.loads(line) for line in str(connection.query(sql, "JSONCompactEachRow")).splitlines()]
for sql in statements["views"]:
    ask(sql)
numbers = lambda value: int(value) if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20 else value
print(json.dumps([[[numbers(plain(value)) for value in row] for row in ask(sql)] for sql in statements["questions"]]))
"#;

/// Returns a CPU profile whose values, stacks and traces depend on a number.
fn profile(number: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    builder.header_mut().time_nanos = T0 + number * 37 * 1_000_000_000;
    builder.header_mut().duration_nanos = 10_000_000_000;
    let build = if number % 2 == 0 { "ab01" } else { "cd02" };
    let mapping = builder.file_mapping(0x1000..0x9000, 0x1000, "/bin/checkout", build);
    for at in 0..20 {
        let names = ["main", "handle", "serde_json::from_slice", "parse", "it's \"quoted\" <b>"];
        let depth = 1 + (number + at) % 5;
        let frames: Vec<_> = (0..depth)
            .rev()
            .map(|level| {
                let name = names[((level * (at % 3 + 1)) % 5) as usize];
                let caller = builder.named_function(&format!("inlined_{}", level % 2), "src/lib.rs");
                let function = builder.named_function(name, "src/main.rs");
                let line =
                    |function| flamelet_profile::Line { function: Some(function), line: at, column: 0 };
                let lines = [line(function), line(caller)];
                builder.location(
                    Some(mapping),
                    0x1000 + (level * 16 + at) as u64,
                    &lines[..1 + (at % 2) as usize],
                )
            })
            .collect();
        let stack = builder.stack(&frames);
        let trace = builder.text_label("trace_id", TRACE);
        let route = builder.text_label("route", if at % 4 == 0 { "/a" } else { "/b" });
        let both = [trace, route];
        let labels = builder.labels(if at % 3 == 0 { &both } else { &both[1..] });
        let labels = if at % 5 == 0 { LabelSetId::EMPTY } else { labels };
        builder.sample(stack, labels, &[at + 1, (at + 1) * 9_999_999_967 + number]);
    }
    builder.finish()
}

/// Fills a folder: three services, two versions, several blocks an hour, and profiles outside the range.
fn filled() -> Site {
    let site = Site::new();
    fill(&site, -5..110);
    site
}

fn fill(site: &Site, numbers: std::ops::Range<i64>) {
    let collector = site.open();
    for number in numbers {
        let version = if number < 50 { "1" } else { "2" };
        let services = ["checkout", "cart", "checkout"];
        let pod = ["a", "b", "c"];
        for which in 0..3 {
            let labels = [("version", version), ("pod", pod[which])];
            collector.accept(&offered(services[which], &labels, &profile(number))).expect("accepted");
        }
        if number % 20 == 0 {
            collector
                .accept(&offered(
                    "checkout",
                    &[("pod", "a")],
                    &heap(T0 + number * 37 * 1_000_000_000, 7, 1000 + number),
                ))
                .expect("accepted");
            collector.maintain();
        }
    }
    collector.maintain();
}

type Sums = BTreeMap<String, i64>;

/// Returns the function of each location of a stack, leaf first, with inlined ones.
fn functions(profile: &Profile, stack: flamelet_profile::StackId) -> Vec<String> {
    let lines = profile.stack(stack).iter().flat_map(|&id| profile.lines(id));
    lines.filter_map(|line| Some(profile.string(profile.function(line.function?).name).to_owned())).collect()
}

fn label(profile: &Profile, sample: &flamelet_profile::Sample<'_>, name: &str) -> String {
    let found = profile.labels(sample.labels).iter().find(|label| profile.string(label.key) == name);
    found.map(|label| profile.string(label.text).to_owned()).unwrap_or_default()
}

/// Sums the last value of the samples by what `keys` returns for each.
fn sums(profile: &Profile, keys: impl Fn(&flamelet_profile::Sample<'_>) -> BTreeSet<String>) -> Sums {
    let mut sums = Sums::new();
    for sample in profile.samples() {
        for key in keys(&sample) {
            *sums.entry(key).or_default() += sample.values[profile.sample_types().len() - 1];
        }
    }
    sums
}

fn one(text: String) -> BTreeSet<String> {
    BTreeSet::from([text])
}

/// Returns our answers, from the reader that `flamelet top` uses.
fn answers(site: &Site) -> Vec<Vec<serde_json::Value>> {
    let read = |service: &str, from: i64, to: i64| site.profile(service, "process_cpu", from, to);
    let checkout = read("checkout", T0, T0 + HOUR).expect("a profile");
    let memory = site.profile("checkout", "memory", T0, T0 + HOUR).expect("a profile");
    let own =
        |profile: &Profile| sums(profile, |sample| one(functions(profile, sample.stack).swap_remove(0)));
    let cost = |service: &str, wanted: Option<&str>| {
        let profile = read(service, T0, T0 + HOUR).expect("a profile");
        let has = |sample: &flamelet_profile::Sample<'_>| {
            wanted.is_none_or(|name| functions(&profile, sample.stack).iter().any(|found| found == name))
        };
        let counted = sums(&profile, |sample| if has(sample) { one(String::new()) } else { BTreeSet::new() });
        (service.to_owned(), counted.values().sum::<i64>())
    };
    let minutes = (0..60).filter_map(|minute| {
        let profile = read("checkout", T0 + minute * MINUTE, T0 + (minute + 1) * MINUTE)?;
        Some((format!("2026-01-15 10:{minute:02}:00"), profile.total(1)))
    });
    let by_version = sums(&checkout, |sample| one(label(&checkout, sample, "version")));
    let of_version = |version: &str| {
        let has = |sample: &flamelet_profile::Sample<'_>| label(&checkout, sample, "version") == version;
        sums(&checkout, |sample| {
            if has(sample) { one(functions(&checkout, sample.stack).swap_remove(0)) } else { BTreeSet::new() }
        })
    };
    let (first, second) = (of_version("1"), of_version("2"));
    let changes = own(&checkout).into_keys().map(|name| {
        serde_json::json!([
            name,
            first.get(&name).copied().unwrap_or(0),
            second.get(&name).copied().unwrap_or(0)
        ])
    });
    let builds = sums(&checkout, |sample| {
        let leaf = checkout.location(checkout.stack(sample.stack)[0]);
        one(leaf
            .mapping
            .map(|id| checkout.string(checkout.mapping(id).build_id).to_owned())
            .unwrap_or_default())
    });
    vec![
        by_cost(own(&checkout)),
        by_cost(sums(&checkout, |sample| functions(&checkout, sample.stack).into_iter().collect())),
        by_cost([cost("cart", None), cost("checkout", None)].into()),
        rows(minutes.collect()),
        rows(by_version),
        changes.collect(),
        by_cost(own(&memory)),
        by_cost(["cart", "checkout"].map(|service| cost(service, Some("serde_json::from_slice"))).into()),
        by_cost(traced(site)),
        by_cost(builds),
    ]
}

/// Returns what the samples of the trace cost, of all services.
fn traced(site: &Site) -> Sums {
    use flamelet_collect::{Query, Reader};
    let keep = |labels: &[(&str, &str)]| labels.contains(&("trace_id", TRACE));
    let query = Query { service: None, keep: Some(&keep), ..Query::new("", "process_cpu", T0, T0 + HOUR) };
    let budget = flamelet_profile::Budget::new(flamelet_profile::Limits::SERVICE);
    let (profile, _) = Reader::open(site.path()).expect("opened").profile(&query, &budget).expect("read");
    let profile = profile.expect("a profile");
    sums(&profile, |sample| one(functions(&profile, sample.stack).swap_remove(0)))
}

fn rows(sums: Sums) -> Vec<serde_json::Value> {
    sums.into_iter().map(|(name, sum)| number(&name, sum)).collect()
}

/// Names that are numbers come back as numbers.
fn number(name: &str, sum: i64) -> serde_json::Value {
    match name.parse::<i64>() {
        Ok(number) => serde_json::json!([number, sum]),
        Err(_) => serde_json::json!([name, sum]),
    }
}

fn by_cost(sums: Sums) -> Vec<serde_json::Value> {
    let mut sorted: Vec<(String, i64)> = sums.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted.into_iter().map(|(name, sum)| number(&name, sum)).collect()
}

/// Returns the folder with a Python package, which a variable names.
fn package(variable: &str, name: &str) -> Option<PathBuf> {
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(name);
    let folder = std::env::var_os(variable).map_or(usual, PathBuf::from);
    folder.join(name).is_dir().then_some(folder)
}

fn duckdb() -> Option<PathBuf> {
    let found = package("FLAMELET_DUCKDB", "duckdb");
    if found.is_none() {
        flamelet_test_support::skip!("no duckdb (`cargo xtask tools` prepares it)");
    }
    found
}

fn clickhouse() -> Option<PathBuf> {
    let found = package("FLAMELET_CHDB", "chdb");
    if found.is_none() {
        flamelet_test_support::skip!(
            "ClickHouse is not in target/tools/chdb (CONTRIBUTING.md says how to get it)"
        );
    }
    found
}

/// Returns the folder with DuckDB and its extension for S3.
fn duckdb_s3() -> Option<PathBuf> {
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/duckdb-s3");
    let folder = std::env::var_os("FLAMELET_DUCKDB_S3").map_or(usual, PathBuf::from);
    let found = folder.join("duckdb_extension_httpfs").is_dir().then_some(folder);
    if found.is_none() {
        flamelet_test_support::skip!(
            "DuckDB for S3 is not in target/tools/duckdb-s3 (`cargo xtask tools --peers` prepares it)"
        );
    }
    found
}

/// Returns the statements by which DuckDB reads from an S3 server.
fn s3_setup(folder: &Path, address: &str) -> Vec<String> {
    let versions = folder.join("duckdb_extension_httpfs/extensions").read_dir().expect("a folder");
    let version = versions.flatten().next().expect("a version").path();
    vec![
        format!("LOAD '{}'", version.join("httpfs.duckdb_extension").display()),
        format!(
            "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b', REGION 'us-east-1', ENDPOINT '{address}', \
             URL_STYLE 'path', USE_SSL false)"
        ),
    ]
}

fn ask(
    engine: SqlEngine,
    module: &str,
    folder: &Path,
    place: BlocksLocation<'_>,
) -> Vec<Vec<serde_json::Value>> {
    ask_after(&[], engine, module, folder, place)
}

/// Returns the answers to all questions, after some other statements.
fn ask_after(
    setup: &[String],
    engine: SqlEngine,
    module: &str,
    folder: &Path,
    place: BlocksLocation<'_>,
) -> Vec<Vec<serde_json::Value>> {
    let (BlocksLocation::Folder(root) | BlocksLocation::Bucket(root)) = place;
    let views = views(engine, place);
    let statements: Vec<&str> =
        setup.iter().map(String::as_str).chain(views.split_terminator(";\n")).collect();
    let asked: Vec<String> = questions(engine).into_iter().map(|question| question.sql).collect();
    let input = serde_json::json!({ "views": statements, "questions": asked }).to_string();
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT, module])
        .env("PYTHONPATH", folder)
        .current_dir(if Path::new(root).is_dir() { Path::new(root) } else { folder })
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{module} failed");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn sql_engines_return_our_answers_to_the_last_unit() {
    let site = filled();
    assert!(site.files().iter().any(|name| name.starts_with("blocks/~code/")), "some code is shared");
    let ours = answers(&site);
    assert!(ours.iter().all(|rows| !rows.is_empty()), "every question has an answer: {ours:?}");
    let engines = [(SqlEngine::DuckDb, "duckdb", duckdb()), (SqlEngine::ClickHouse, "chdb", clickhouse())];
    for (engine, name, folder) in engines {
        let Some(folder) = folder else { continue };
        let theirs = ask(engine, name, &folder, BlocksLocation::Folder(&site.path().to_string_lossy()));
        for ((question, ours), theirs) in questions(engine).iter().zip(&ours).zip(&theirs) {
            assert_eq!(ours, theirs, "{name}: {}\n{}", question.title, question.sql);
        }
        assert_eq!(theirs.len(), 10);
    }
}

/// Copies what a site has into a bucket.
fn upload(site: &Site, server: &S3Server) {
    for name in site.files() {
        let content = std::fs::read(site.path().join(&name)).expect("readable");
        // The names of services are escaped, and so is the path of a request.
        server.put(&format!("/profiles/eu/{}", name.replace('%', "%25")), &content);
    }
}

fn assert_ours(site: &Site, engine: SqlEngine, theirs: &[Vec<serde_json::Value>]) {
    for ((question, ours), theirs) in questions(engine).iter().zip(&answers(site)).zip(theirs) {
        assert_eq!(ours, theirs, "{}\n{}", question.title, question.sql);
    }
    assert_eq!(theirs.len(), 10);
}

/// ClickHouse lists the bucket and reads the blocks from there.
#[test]
fn clickhouse_returns_our_answers_from_a_bucket() {
    let (Some(folder), Some(server)) = (clickhouse(), S3Server::start()) else { return };
    let site = filled();
    upload(&site, &server);
    let url = format!("http://{}/profiles/eu", server.address);
    let theirs = ask(SqlEngine::ClickHouse, "chdb", &folder, BlocksLocation::Bucket(&url));
    assert_ours(&site, SqlEngine::ClickHouse, &theirs);
}

/// DuckDB does, too, in the version for which its extension is in a package registry.
#[test]
fn duckdb_returns_our_answers_from_a_bucket() {
    let (Some(folder), Some(server)) = (duckdb_s3(), S3Server::start()) else { return };
    let site = filled();
    upload(&site, &server);
    let (setup, place) = (s3_setup(&folder, &server.address), BlocksLocation::Bucket("s3://profiles/eu"));
    let theirs = ask_after(&setup, SqlEngine::DuckDb, "duckdb", &folder, place);
    assert_ours(&site, SqlEngine::DuckDb, &theirs);
}

#[test]
fn sql_counts_once_what_is_in_several_blocks_of_a_bucket() {
    let Some(folder) = duckdb() else { return };
    let site = Site::new();
    fill(&site, -5..50);
    let before = site.copy();
    fill(&site, 50..110);
    let once = answers(&site);
    // As long as a bucket keeps the blocks that were merged.
    site.add_from(&before, "blocks/");
    assert_eq!(answers(&site), once);
    let root = site.path().to_string_lossy();
    assert_eq!(ask(SqlEngine::DuckDb, "duckdb", &folder, BlocksLocation::Bucket(&root)), once);
    assert_ne!(
        ask(SqlEngine::DuckDb, "duckdb", &folder, BlocksLocation::Folder(&root)),
        once,
        "the test sees the difference"
    );
}

/// Returns the questions as docs/fleet.md has them.
fn section() -> String {
    let mut text = String::new();
    let both = questions(SqlEngine::DuckDb).into_iter().zip(questions(SqlEngine::ClickHouse));
    for (at, (duckdb, clickhouse)) in both.enumerate() {
        text += &format!(
            "\n### {}. {}\n\n```sql\n-- DuckDB\n{}\n```\n\n```sql\n-- ClickHouse\n{}\n```\n",
            at + 1,
            duckdb.title,
            duckdb.sql,
            clickhouse.sql
        );
    }
    text
}

/// `FLAMELET_REGENERATE=1` writes them.
#[test]
fn the_document_has_the_questions_as_they_are_asked() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let text = std::fs::read_to_string(&path).expect("docs/fleet.md");
    let (begin, end) = ("<!-- questions -->\n", "<!-- end of questions -->");
    let (before, rest) = text.split_once(begin).expect("a mark");
    let (_, after) = rest.split_once(end).expect("a mark");
    let wanted = format!("{before}{begin}{}\n{end}{after}", section());
    if std::env::var_os("FLAMELET_REGENERATE").is_some() {
        std::fs::write(&path, &wanted).expect("written");
    }
    assert!(
        text == wanted || std::env::var_os("FLAMELET_REGENERATE").is_some(),
        "docs/fleet.md is out of date"
    );
}
