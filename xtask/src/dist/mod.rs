//! `cargo xtask dist`: what a release consists of, under `target/dist`.
//!
//! Every crate packaged and built as the registry would; a tarball and a Debian package of the command with manual
//! pages, completions and licences; a bill of materials; checksums. Each is then unpacked elsewhere and tried.

mod bill;
mod deb;
mod notices;
mod stage;
mod trial;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Failure, Outcome, run, workspace};
use stage::Stage;

/// The package of the command.
const COMMAND: &str = "flamelet-cli";

/// What may be left out: packaging every crate, and building the command, if `target/release` has it already.
const OPTIONS: [&str; 2] = ["--no-crates", "--no-build"];

/// What is made, and where.
struct Dist {
    folder: PathBuf,
    /// The folder with the built programs.
    programs: PathBuf,
    version: String,
    /// Rust's name of the machine, as in `x86_64-unknown-linux-gnu`.
    target: String,
    /// `cargo metadata` with all dependencies on this machine.
    metadata: Value,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.iter().find(|argument| !OPTIONS.contains(&argument.as_str())) {
        return Err(Failure::unusable(format!("dist takes {}, not `{unknown}`", OPTIONS.join(" and "))));
    }
    let [with_crates, with_build] =
        OPTIONS.map(|option| !arguments.iter().any(|argument| argument == option));
    let dist = Dist::new(workspace::target().join("release"))?;
    if with_crates {
        dist.package_crates(Verify::Build)?;
    }
    if with_build {
        build_command()?;
    }
    dist.make()
}

/// The gate: everything but the builds of all crates from their packages, with the programs that the clean clone has
/// left, or else a build of them.
pub(crate) fn gate(programs: &Path) -> Outcome {
    let has_programs = stage::PROGRAMS.iter().all(|name| programs.join(name).is_file());
    if !has_programs {
        build_command()?;
    }
    let programs = if has_programs { programs.to_owned() } else { workspace::target().join("release") };
    let dist = Dist::new(programs)?;
    dist.package_crates(Verify::Contents)?;
    dist.make()
}

fn build_command() -> Outcome {
    let mut build = workspace::cargo();
    run::step("building the command", build.args(["build", "--release", "--locked", "--package", COMMAND]))
}

/// How packages are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verify {
    /// Each is built from its package, as the registry does.
    Build,
    /// They can be packaged: versions, files and metadata are there.
    Contents,
}

impl Dist {
    /// Makes everything but the crates, and tries it.
    fn make(&self) -> Outcome {
        self.write("bom.cdx.json", &bill::bill(&self.metadata, &workspace::read("Cargo.lock")?, COMMAND)?)?;
        self.write("THIRD-PARTY.txt", &notices::notices(&self.metadata, COMMAND)?)?;
        let stage = Stage::new(self)?;
        self.tarball(&stage)?;
        deb::build(self, &stage)?;
        self.checksums()?;
        trial::try_all(self)?;
        println!("\n{} holds what a release needs", self.folder.display());
        Ok(())
    }

    /// Begins with an empty folder.
    fn new(programs: PathBuf) -> Result<Self, Failure> {
        let target = workspace::host()?;
        let metadata = metadata(&target)?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let version =
            packages.filter(|package| package["name"] == COMMAND).find_map(|p| p["version"].as_str());
        let version = version.ok_or_else(|| Failure::failed(format!("cargo knows no {COMMAND}")))?.to_owned();
        let folder = workspace::target().join("dist");
        remake(&folder)?;
        Ok(Self { folder, programs, version, target, metadata })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The name of the tarball, without its ending; it has a folder of this name inside.
    fn name(&self) -> String {
        format!("flamelet-{}-{}", self.version, self.target)
    }

    /// Reads a file of the repository.
    fn write(&self, name: &str, text: &str) -> Outcome {
        std::fs::write(self.path(name), text).map_err(|error| Failure::failed(format!("{name}: {error}")))
    }

    /// Packages every crate that is published. Changes that are not committed are allowed, so that this can be tried at any
    /// time.
    fn package_crates(&self, verify: Verify) -> Outcome {
        let mut cargo = workspace::cargo();
        cargo.args(["package", "--workspace", "--locked", "--allow-dirty"]);
        cargo.args((verify == Verify::Contents).then_some("--no-verify"));
        let packages = self.metadata["packages"].as_array().into_iter().flatten();
        let own = packages.filter(|package| package["source"].is_null());
        let (published, private): (Vec<&Value>, Vec<&Value>) =
            own.partition(|package| package["publish"].is_null());
        for package in private {
            cargo.args(["--exclude", package["name"].as_str().unwrap_or_default()]);
        }
        run::step("packaging every crate", &mut cargo)?;
        std::fs::create_dir_all(self.path("crates")).map_err(|error| Failure::failed(error.to_string()))?;
        for package in published {
            let name = format!("{}-{}.crate", package["name"].as_str().unwrap_or_default(), self.version);
            let made = workspace::target().join("package").join(&name);
            std::fs::copy(made, self.path("crates").join(&name))
                .map_err(|error| Failure::failed(format!("{name}: {error}")))?;
        }
        Ok(())
    }

    /// The same tree gives the same bytes, whoever packs it and when.
    fn tarball(&self, stage: &Stage) -> Outcome {
        let name = self.name();
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
        tar.arg("--use-compress-program=gzip -9n");
        tar.arg(format!("--transform=s,^\\.,{name},"));
        tar.arg("--file")
            .arg(self.path(&format!("{name}.tar.gz")))
            .arg("--directory")
            .arg(&stage.folder)
            .arg(".");
        run::step("the tarball", &mut tar)
    }

    fn checksums(&self) -> Outcome {
        let mut names: Vec<String> = Vec::new();
        for folder in ["", "crates"] {
            let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.path().is_file());
            let below = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
            names.extend(files.map(|entry| below(entry.file_name().to_string_lossy().into_owned())));
        }
        names.sort();
        let sums = run::output(Command::new("sha256sum").args(&names).current_dir(&self.folder))?;
        self.write("SHA256SUMS", &sums)
    }
}

fn metadata(target: &str) -> Result<Value, Failure> {
    let mut cargo = workspace::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    serde_json::from_str(&run::output(&mut cargo)?)
        .map_err(|error| Failure::failed(format!("cargo metadata: {error}")))
}

/// Makes an empty folder.
fn remake(folder: &Path) -> Outcome {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
}

/// Returns the packages that end up in the command: `root` and what it depends on to run, sorted by name.
fn linked<'m>(metadata: &'m Value, root: &str) -> Vec<&'m Value> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let nodes = || metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let node = |id: &Value| nodes().find(|node| node["id"] == *id);
    let mut waiting: Vec<&Value> =
        packages().filter(|package| package["name"] == root).map(|p| &p["id"]).collect();
    let mut seen: Vec<&Value> = Vec::new();
    while let Some(id) = waiting.pop() {
        if !seen.contains(&id) {
            seen.push(id);
            waiting.extend(node(id).into_iter().flat_map(dependencies));
        }
    }
    let mut linked: Vec<&Value> = packages().filter(|package| seen.contains(&&package["id"])).collect();
    linked.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    linked
}

/// Returns what a node of the graph needs to run, not only to build or to test.
fn dependencies(node: &Value) -> impl Iterator<Item = &Value> {
    let all = node["deps"].as_array().into_iter().flatten();
    let is_needed = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"].is_null())
    };
    all.filter(is_needed).map(|dependency| &dependency["pkg"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `a` links `b`, which links `c`; `d` is only for the tests of `a`.
    pub(super) fn example() -> Value {
        let package = |name: &str| json!({ "name": name, "version": "1.0.0", "id": name, "license": "MIT", "source": "registry+x" });
        let edge = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [package("d"), package("c"), package("b"), package("a")],
            "resolve": { "nodes": [
                { "id": "a", "deps": [edge("b", json!(null)), edge("d", json!("dev"))] },
                { "id": "b", "deps": [edge("c", json!(null))] },
                { "id": "c", "deps": [] },
                { "id": "d", "deps": [] },
            ] },
        })
    }

    #[test]
    fn what_is_only_for_tests_is_not_linked() {
        let example = example();
        let names: Vec<&str> =
            linked(&example, "a").iter().filter_map(|package| package["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
