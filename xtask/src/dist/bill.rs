//! The bill of materials: every crate in the command, as CycloneDX 1.5 JSON.

use serde_json::{Value, json};

use super::{dependencies, linked};
use crate::Failure;

/// Returns the bill for the package `root`. Checksums come from the text of `Cargo.lock`.
pub(super) fn bill(metadata: &Value, lock: &str, root: &str) -> Result<String, Failure> {
    let packages = linked(metadata, root);
    let Some(main) = packages.iter().find(|package| package["name"] == root) else {
        return Err(Failure::failed(format!("cargo knows no {root}")));
    };
    let others = packages.iter().filter(|package| package["name"] != root);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": component(main, "application", lock),
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
        },
        "components": others.map(|package| component(package, "library", lock)).collect::<Vec<_>>(),
        "dependencies": graph(metadata, &packages),
    });
    serde_json::to_string_pretty(&bill).map_err(|error| Failure::failed(error.to_string()))
}

fn component(package: &Value, kind: &str, lock: &str) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": text("name"),
        "version": text("version"),
        "purl": reference(package),
        "description": text("description").trim(),
        "licenses": [{ "expression": text("license").replace('/', " OR ") }],
    });
    if let Some(sum) = checksum(lock, text("name"), text("version")) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// The package's URL, which is also its name within the bill.
fn reference(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn graph(metadata: &Value, packages: &[&Value]) -> Vec<Value> {
    let nodes = || metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let named = |id: &Value| packages.iter().find(|package| package["id"] == *id).map(|p| reference(p));
    let edges = |package: &&Value| {
        let node = nodes().find(|node| node["id"] == package["id"]);
        let on: Vec<String> = node.into_iter().flat_map(dependencies).filter_map(named).collect();
        json!({ "ref": reference(package), "dependsOn": on })
    };
    packages.iter().map(edges).collect()
}

/// Returns the checksum that `Cargo.lock` has for a package.
fn checksum<'l>(lock: &'l str, name: &str, version: &str) -> Option<&'l str> {
    let head = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let entry = lock.split("[[package]]\n").find(|entry| entry.starts_with(&head))?;
    entry.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn every_linked_crate_is_on_the_bill() {
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"c\"\n";
        let bill: Value = serde_json::from_str(&bill(&example(), lock, "a").expect("a bill")).expect("JSON");
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/a@1.0.0");
        let names: Vec<&Value> =
            bill["components"].as_array().expect("a list").iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/b@1.0.0"]));
    }
}
