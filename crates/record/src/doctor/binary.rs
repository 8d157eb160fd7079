//! Checks of a binary: whether its profile will have names, lines and complete stacks.

use std::path::Path;

use flamelet_symbol::inspect::{self, FramePointerUse, Inspection};
use flamelet_symbol::locate::{Search, WantedBinary};

use super::{CheckResult, Report};
use crate::{Error, ErrorKind, Result};

/// Checks what a profile of the program or library at `path` will contain.
pub fn binary(path: &Path) -> Result<Report> {
    let inspection =
        inspect::inspect(path).map_err(|error| Error::new(ErrorKind::NotFound, error.to_string()))?;
    let mut report = Report::default();
    names(&mut report, path, &inspection);
    unwinding(&mut report, &inspection);
    build_id(&mut report, &inspection);
    Ok(report)
}

fn names(report: &mut Report, path: &Path, inspection: &Inspection) {
    let id = inspection.build_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let located = Search::from_environment().locate(&WantedBinary { path, build_id: &id });
    let (symbols, dynamic) = (inspection.symbols, inspection.dynamic_symbols);
    let remedy = "build with `debug = \"limited\"` in the Cargo profile";
    let debug = inspection.debug_info;
    if let Some(file) = located.debug {
        let found = format!("in {}", file.display());
        report.add("debug info", found, CheckResult::Good, "functions, lines and inlined frames", "");
    } else if debug.functions && debug.lines {
        let found = if debug.split { "in .dwo files" } else { "in the file" };
        report.add("debug info", found, CheckResult::Good, "functions, lines and inlined frames", "");
    } else if debug.functions || debug.lines {
        report.add("debug info", "partial", CheckResult::Limited, "functions or lines, not both", remedy);
    } else if symbols > 0 {
        let found = format!("none, but {symbols} symbols");
        report.add(
            "debug info",
            found,
            CheckResult::Limited,
            "functions, but no lines or inlined frames",
            remedy,
        );
    } else {
        let found = format!("none: the file is stripped ({dynamic} exported functions)");
        let remedy = "build with `debug = \"limited\"` and `strip = \"none\"` in the Cargo profile, or give its debug \
                      file with --binary";
        report.add("debug info", found, CheckResult::Missing, "addresses only", remedy);
    }
}

fn unwinding(report: &mut Report, inspection: &Inspection) {
    let frame_pointers = match inspection.frame_pointers.verdict() {
        FramePointerUse::Yes => "yes",
        FramePointerUse::Partly => "partial",
        FramePointerUse::No => "no",
        _ => "unknown",
    };
    report.add(
        "frame pointers",
        frame_pointers,
        CheckResult::Good,
        "needed by some other tools, not by flamelet",
        "",
    );
    if inspection.unwind_tables {
        report.add(
            "unwind tables",
            ".eh_frame",
            CheckResult::Good,
            "whole stacks without frame pointers",
            "",
        );
    } else {
        let state = if frame_pointers == "yes" { CheckResult::Limited } else { CheckResult::Missing };
        let remedy = "RUSTFLAGS=\"-C force-unwind-tables=yes\"";
        report.add("unwind tables", "none", state, "stacks by frame pointers only", remedy);
    }
}

fn build_id(report: &mut Report, inspection: &Inspection) {
    match &inspection.build_id {
        Some(id) => {
            report.add(
                "build id",
                id.to_string(),
                CheckResult::Good,
                "names can be looked up later, on any machine",
                "",
            );
        }
        None => {
            let allows = "names can be looked up only with this file, on this machine";
            let remedy = "RUSTFLAGS=\"-C link-arg=-Wl,--build-id\"";
            report.add("build id", "none", CheckResult::Limited, allows, remedy);
        }
    }
}
