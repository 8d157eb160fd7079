//! Checks the files of `deploy/` with other people's tools: the schemas of Kubernetes and of Compose, yamllint, and
//! hadolint.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, wheels, workspace};

/// Beyond what makes a file invalid, only what makes it say something else than it seems to.
const LINT: &str = "{extends: relaxed, rules: {line-length: disable, truthy: enable}}";

pub(super) fn check(_: &mut Tally) -> Outcome {
    let mut files = Vec::new();
    add_files(&workspace::root().join("deploy"), &mut files)?;
    let of = |schema: Schema| files.iter().filter(move |file| file.schema == schema).map(|file| &file.path);
    let packages = wheels::deploy_validators(true)?;
    let python = |module: &str| {
        let mut command = Command::new("python3");
        command.args(["-m", module]).env("PYTHONPATH", &packages).current_dir(workspace::root());
        command
    };
    let mut kubernetes = python("kubernetes_validate");
    run::step("Kubernetes", kubernetes.args(["--strict", "--quiet"]).args(of(Schema::Kubernetes)))?;
    let mut compose = python("check_jsonschema");
    run::step(
        "Compose",
        compose.args(["--builtin-schema", "vendor.compose-spec"]).args(of(Schema::Compose)),
    )?;
    let mut lint = python("yamllint");
    let yaml = files.iter().filter(|file| file.schema != Schema::Dockerfile).map(|file| &file.path);
    run::step("yamllint", lint.args(["--strict", "-d", LINT]).args(yaml))?;
    let mut hadolint = Command::new(wheels::hadolint(true)?);
    run::step("hadolint", hadolint.arg("--failure-threshold=style").args(of(Schema::Dockerfile)))?;
    of(Schema::Kustomization).try_for_each(|path| check_kustomization(path))
}

/// What a file is to be checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schema {
    Kubernetes,
    Kustomization,
    Compose,
    Dockerfile,
    /// Grafana's and our own files, which have no schema here.
    None,
}

struct File {
    path: PathBuf,
    schema: Schema,
}

fn schema_of(name: &str, text: &str) -> Schema {
    match name {
        "kustomization.yaml" => Schema::Kustomization,
        "compose.yaml" => Schema::Compose,
        _ if is_dockerfile(name) => Schema::Dockerfile,
        _ if text.lines().any(|line| line.starts_with("kind: ")) => Schema::Kubernetes,
        _ => Schema::None,
    }
}

fn is_dockerfile(name: &str) -> bool {
    name == "Dockerfile" || name.starts_with("Dockerfile.")
}

fn failed(path: &Path, message: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{}: {message}", path.display()))
}

/// Adds the YAML files and the Dockerfiles below a folder.
fn add_files(folder: &Path, files: &mut Vec<File>) -> Outcome {
    let at = |error: std::io::Error| failed(folder, error);
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_yaml = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
        if path.is_dir() {
            add_files(&path, files)?;
        } else if is_yaml || is_dockerfile(name) {
            let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            let schema = schema_of(name, &text);
            files.push(File { path, schema });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// No tool of a registry that pip reaches knows kustomizations: what one lists is there, and what is there is listed.
fn check_kustomization(path: &Path) -> Outcome {
    let text = std::fs::read_to_string(path).map_err(|error| failed(path, error))?;
    let folder = path.parent().unwrap_or(path);
    let mut there = Vec::new();
    add_files(folder, &mut there)?;
    let there = there.iter().filter(|file| file.schema != Schema::Kustomization);
    let there: Vec<&str> = there.filter_map(|file| file.path.file_name()?.to_str()).collect();
    let mut listed = listed(&text);
    listed.sort_unstable();
    if listed == there {
        Ok(())
    } else {
        Err(failed(path, format!("lists {}; there are {}", listed.join(", "), there.join(", "))))
    }
}

fn listed(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("- "))
        .filter(|item| item.ends_with(".yaml"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_by_what_they_are() {
        assert_eq!(schema_of("compose.yaml", "services:\n"), Schema::Compose);
        assert_eq!(schema_of("a.yaml", "# x\napiVersion: v1\nkind: Pod\n"), Schema::Kubernetes);
        assert_eq!(schema_of("kustomization.yaml", "kind: Kustomization\n"), Schema::Kustomization);
        assert_eq!(schema_of("Dockerfile", "FROM a\n"), Schema::Dockerfile);
        assert_eq!(schema_of("collect.yaml", "listen: a\n"), Schema::None);
    }

    #[test]
    fn the_files_of_a_kustomization_are_found() {
        assert_eq!(
            listed("resources:\n  - a.yaml\nlabels:\n  - pairs:\nx:\n    - b.yaml\n"),
            ["a.yaml", "b.yaml"]
        );
    }
}
