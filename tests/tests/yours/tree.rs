//! Whose code frames are, in a real dependency tree: crates from the registry, from git, by path and vendored; with and
//! without remapped paths, stripped and not. Cargo's own metadata says what is right.

use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::{LocationId, Profile};
use flamelet_symbol::owner::{Owner, Owners};
use flamelet_tests::programs::{repository, run_flamelet};
use serde_json::Value;

use crate::recordings::{record, scratch};

const SHOP: &str = r#"
use std::hint::black_box;

unsafe extern "C" { fn clock() -> i64; }

#[inline(never)]
fn orders(turn: u64) -> String {
    let text = format!("{{\"order\": {turn}, \"items\": [1, 2.5, \"three\", {{\"deep\": [null, true]}}]}}");
    let value: serde_json::Value = serde_json::from_str(black_box(&text)).expect("JSON");
    serde_json::to_string(&value).expect("JSON")
}

#[inline(never)]
fn pack(text: &str) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(text.repeat(20).as_bytes(), 3)
}

fn main() {
    let mut turn = 0u64;
    // SAFETY: `clock` reads a counter.
    while unsafe { clock() } < 1_500_000 {
        for _ in 0..20 {
            let text = orders(turn);
            black_box(pack(&text));
            black_box(shop_core::price(&text));
            black_box(house_lib::discount(&text));
            black_box(tally::tally(&text));
            turn += 1;
        }
    }
}
"#;

/// A crate with some work of its own, and a trait of its own for a foreign type.
fn library(function: &str, seed: u64) -> String {
    format!(
        r"
pub trait Weigh {{ fn weigh(&self, seed: u64) -> u64; }}

impl Weigh for str {{
    #[inline(never)]
    fn weigh(&self, seed: u64) -> u64 {{
        let mut sum = seed;
        for _ in 0..40 {{
            sum = self.bytes().fold(sum, |sum, byte| std::hint::black_box(sum.rotate_left(7) ^ u64::from(byte)));
        }}
        sum
    }}
}}

#[inline(never)]
pub fn {function}(text: &str) -> u64 {{
    let words: Vec<&str> = text.split(',').collect();
    words.iter().map(|word| word.weigh({seed})).sum()
}}
"
    )
}

struct Tree {
    shop: PathBuf,
    house: PathBuf,
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.3.1\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"
    )
}

impl Tree {
    fn plant(name: &str) -> Self {
        let root = scratch(name);
        let _ = std::fs::remove_dir_all(&root);
        let (shop, house, tally) = (root.join("shop"), root.join("house"), root.join("tally"));
        write(&tally.join("Cargo.toml"), &manifest("tally", ""));
        write(&tally.join("src/lib.rs"), &library("tally", 3));
        let git = |words: &[&str]| {
            let identity =
                ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"];
            run(Command::new("git").args(identity).args(words).current_dir(&tally))
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "tally"]);
        write(&house.join("Cargo.toml"), &manifest("house-lib", ""));
        write(&house.join("src/lib.rs"), &library("discount", 5));
        write(&shop.join("core/Cargo.toml"), &manifest("shop-core", ""));
        write(&shop.join("core/src/lib.rs"), &library("price", 7));
        let dependencies = format!(
            "shop-core = {{ path = \"core\" }}\nhouse-lib = {{ path = \"../house\" }}\ntally = {{ git = \"file://{}\" }}\n\
             serde_json = \"1\"\nminiz_oxide = \"0.9\"\n\n[workspace]\nmembers = [\"core\"]\n\n\
             [profile.release]\nopt-level = 2\ndebug = \"line-tables-only\"\nincremental = false\n",
            tally.display()
        );
        write(&shop.join("Cargo.toml"), &manifest("shop", &dependencies));
        write(&shop.join("src/main.rs"), SHOP);
        // With the versions of this workspace, cargo finds everything in its cache; only the git repository is new to it.
        std::fs::copy(repository().join("Cargo.lock"), shop.join("Cargo.lock")).expect("copied");
        let mut fetch = cargo();
        fetch.arg("fetch").current_dir(&shop).env("CARGO_HTTP_PROXY", "http://127.0.0.1:9");
        run(&mut fetch);
        Self { shop, house }
    }

    fn cargo(&self, words: &[&str], remapped: &[(PathBuf, &str)]) -> String {
        let flags = remapped.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
        let flags = flags.collect::<Vec<_>>().join(" ");
        let mut cargo = cargo();
        cargo.args(words).arg("--offline").current_dir(&self.shop).env("RUSTFLAGS", flags);
        cargo.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_ENCODED_RUSTFLAGS");
        run(&mut cargo)
    }

    fn build(&self, remapped: &[(PathBuf, &str)]) -> PathBuf {
        self.cargo(&["build", "--release", "--quiet"], remapped);
        self.shop.join("target/release/shop")
    }

    /// The folder and the owner of every package, as cargo says.
    fn packages(&self, remapped: &[(PathBuf, &str)]) -> Vec<(String, Owner)> {
        let metadata = self.cargo(&["metadata", "--format-version", "1"], remapped);
        let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
        let packages = metadata["packages"].as_array().expect("packages").iter().map(|package| {
            let text = |field: &str| package[field].as_str().unwrap_or_default();
            let folder = Path::new(text("manifest_path")).parent().expect("a folder").display().to_string();
            let name = text("name").replace('-', "_");
            let version = match text("source").split_once('#').filter(|_| text("source").starts_with("git+"))
            {
                Some((_, commit)) => commit.to_owned(),
                None => text("version").to_owned(),
            };
            let owner = match text("source") {
                "" => Owner::Yours,
                _ => Owner::Dependency(flamelet_symbol::owner::Package { name, version }),
            };
            (remap(&folder, remapped), owner)
        });
        packages.collect()
    }
}

fn remap(path: &str, remapped: &[(PathBuf, &str)]) -> String {
    // The last prefix that fits wins, as in rustc.
    let found = remapped.iter().rev().find_map(|(from, to)| {
        let rest = path.strip_prefix(from.to_str()?)?;
        Some(format!("{to}{rest}"))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// The owner of a source file, by cargo's metadata; none of files that no package has.
fn truth(file: &str, packages: &[(String, Owner)]) -> Option<Owner> {
    if ["/rustc/", "/rustlib/src/", "/rust/deps/"].iter().any(|part| file.contains(part)) {
        return Some(Owner::Std);
    }
    let inside = packages.iter().filter(|(folder, _)| file.starts_with(&format!("{folder}/")));
    inside.max_by_key(|(folder, _)| folder.len()).map(|(_, owner)| owner.clone())
}

fn is_right(found: &Owner, truth: &Owner) -> bool {
    match (found, truth) {
        (Owner::Dependency(found), Owner::Dependency(truth)) => {
            found.name == truth.name && !found.version.is_empty() && truth.version.starts_with(&found.version)
        }
        _ => found == truth,
    }
}

fn read(path: &Path) -> Profile {
    let bytes = std::fs::read(path).expect("a file");
    pprof::read(&bytes, &Limits::default()).expect("a profile")
}

/// Compares the owners of frames of `profile` with what `named`, the same samples with full names, says by its files.
/// Returns the right share, by weight, and the share of frames of the program about which there is a truth.
fn compare(
    profile: &Profile,
    named: &Profile,
    packages: &[(String, Owner)],
    is_stripped: bool,
) -> (f64, f64) {
    let owners = Owners::of(profile, |_, _| false);
    let (mut right, mut judged, mut all) = (0.0, 0.0, 0.0);
    let mut wrong: std::collections::BTreeMap<String, f64> = Default::default();
    for (sample, twin) in profile.samples().zip(named.samples()) {
        let (stack, twins) = (profile.stack(sample.stack), named.stack(twin.stack));
        assert_eq!(stack.len(), twins.len(), "the same stack");
        for (&location, &twin) in stack.iter().zip(twins) {
            for (function, file) in frames(profile, location, named, twin, is_stripped) {
                let weight = sample.values[0] as f64;
                all += weight;
                let Some(truth) = truth(&file, packages) else { continue };
                judged += weight;
                match is_right(owners.of_function(function), &truth) {
                    true => right += weight,
                    false => {
                        let name = profile.string(profile.function(function).name);
                        let found = owners.of_function(function);
                        *wrong.entry(format!("{name} in {file}: {found:?}, not {truth:?}")).or_default() +=
                            weight;
                    }
                }
            }
        }
    }
    let mut wrong: Vec<_> = wrong.into_iter().collect();
    wrong.sort_by(|a, b| b.1.total_cmp(&a.1));
    wrong.iter().take(10).for_each(|(what, weight)| eprintln!("{:.2} %: {what}", weight / judged * 100.0));
    (right / judged, judged / all)
}

/// The functions of a location in the program itself, with the files that they are really from.
fn frames(
    profile: &Profile,
    location: LocationId,
    named: &Profile,
    twin: LocationId,
    is_stripped: bool,
) -> Vec<(flamelet_profile::FunctionId, String)> {
    let mapping = profile.location(location).mapping.map(|id| profile.string(profile.mapping(id).filename));
    if !mapping.is_some_and(|file| file.contains("shop")) {
        return Vec::new();
    }
    let file = |line: &flamelet_profile::Line| {
        line.function.map_or("", |function| named.string(named.function(function).filename)).to_owned()
    };
    // Without debug information there is one frame: the function that the others are inlined into.
    let files: Vec<String> = match is_stripped {
        true => named.lines(twin).last().iter().map(|line| file(line)).collect(),
        false => named.lines(twin).iter().map(file).collect(),
    };
    let functions = profile.lines(location).iter().filter_map(|line| line.function);
    functions.zip(files).collect()
}

fn check(tree: &Tree, what: &str, remapped: &[(PathBuf, &str)]) {
    let binary = tree.build(remapped);
    let packages = tree.packages(remapped);
    let own = binary.with_file_name(format!("shop-{what}"));
    std::fs::copy(&binary, &own).expect("copied");
    let Some(full) = record(&own, "run", &["-F", "499"]) else { return };
    let profile = read(&full);
    let (right, judged) = compare(&profile, &profile, &packages, false);
    println!("{what}: {:.2} % right, {:.1} % judged", right * 100.0, judged * 100.0);
    assert!(right >= 0.99 && judged >= 0.9, "{what}: {right} right of {judged}");

    let stripped = binary.with_file_name(format!("shop-{what}-stripped"));
    run(Command::new("objcopy").arg("--strip-debug").args([&binary, &stripped]));
    let Some(file) = record(&stripped, "run", &["-F", "499"]) else { return };
    let named = scratch(&format!("named-{what}.pb.gz"));
    let words = ["symbolize", "--force", "--binary", own.to_str().expect("UTF-8")];
    let said = run_flamelet(words.iter().copied().chain([
        file.to_str().expect("UTF-8"),
        "-o",
        named.to_str().expect("UTF-8"),
    ]));
    assert_eq!(said.status, Some(0), "{}", said.stderr);
    let (right, judged) = compare(&read(&file), &read(&named), &packages, true);
    println!("{what}, stripped: {:.2} % right, {:.1} % judged", right * 100.0, judged * 100.0);
    // The program's start is C, of which no file is known; without inlined frames it weighs more.
    assert!(right >= 0.99 && judged >= 0.7, "{what}, stripped: {right} right of {judged}");
}

#[test]
fn owners_are_those_of_cargo() {
    let tree = Tree::plant("tree");
    check(&tree, "plain", &[]);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.expect("cargo has a folder");
    let remapped = [(home, "/c"), (tree.shop.clone(), "/b"), (tree.house.clone(), "/h")];
    check(&tree, "remapped", &remapped);
}

#[test]
fn owners_of_vendored_crates_are_those_of_cargo() {
    let tree = Tree::plant("vendored-tree");
    let config = tree.cargo(&["vendor", "vendor"], &[]);
    write(&tree.shop.join(".cargo/config.toml"), &config);
    check(&tree, "vendored", &[]);
    let vendor = tree.shop.join("vendor");
    let remapped = [(tree.shop.clone(), "/b"), (vendor, "/v"), (tree.house.clone(), "/h")];
    check(&tree, "vendored-remapped", &remapped);
}
