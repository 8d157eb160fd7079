//! Packages from PyPI, unpacked under `target/tools` without touching the machine.

use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, run, workspace};

/// The official client of the Model Context Protocol, which drives `flamelet mcp` in a test. Pinned, as all oracles.
const MCP_CLIENT: &str = "mcp==2.3.0";

/// Returns the folder with the client and what it depends on, for `PYTHONPATH`.
pub(crate) fn mcp_client(install: bool) -> Result<PathBuf, Failure> {
    unpacked("mcp-client", "mcp/__init__.py", &[MCP_CLIENT], install)
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
    let _ = std::fs::remove_dir_all(&partial);
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.args(["--root-user-action", "ignore", "--target"]).arg(&partial).args(pip);
    run::step(&format!("installing {} into target/tools", pip.join(" ")), &mut command)?;
    std::fs::rename(&partial, &folder).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(folder)
}
