//! `flamelet mcp`, driven by the protocol's official client.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, mcp_client, repository};
use flamelet_tests::wire::ProfileFile;

const SECRET: &str = "the-secret-of-another-folder";

/// A folder with a profile, a source file and a hostile profile; a link leads from it to a secret next to it.
fn folder() -> PathBuf {
    let above = profiles::scratch().join("mcp");
    let folder = above.join("allowed");
    std::fs::create_dir_all(&folder).expect("a folder");
    let secret = above.join("secret.txt");
    std::fs::write(&secret, format!("{SECRET}\n").repeat(20)).expect("written");
    std::fs::write(folder.join("shown.rs"), "fn shown() {}\n").expect("written");
    std::fs::copy(profiles::committed("go-cpu"), folder.join("cpu.pb.gz")).expect("copied");
    std::fs::write(folder.join("hostile.pb"), hostile(&folder, &secret)).expect("written");
    if folder.join("link.pb.gz").symlink_metadata().is_err() {
        symlink(&secret, folder.join("link.pb.gz")).expect("a link");
    }
    folder
}

/// A profile whose functions claim to come from files that are none of its business, in several spellings, and whose
/// binary is the secret, too.
fn hostile(folder: &Path, secret: &Path) -> Vec<u8> {
    let mut profile = ProfileFile::new(&[("samples", "count")]);
    let direct = secret.display().to_string();
    let mapping = profile.mapping(0x1000, 0x2000, 0, &direct, "");
    let files = [
        ("line_of_the_secret", direct.clone()),
        ("line_of_a_climb", format!("{}/../secret.txt", folder.display())),
        ("line_of_a_relative_climb", "../secret.txt".to_owned()),
        ("line_of_a_link", format!("{}/link.pb.gz", folder.display())),
        ("line_of_passwords", "/etc/passwd".to_owned()),
        ("shown", format!("{}/shown.rs", folder.display())),
    ];
    let mut stack = vec![profile.location(mapping, 0x1800, &[])];
    for (at, (name, file)) in files.iter().enumerate() {
        let function = profile.function(name, name, file, 1);
        stack.push(profile.location(mapping, 0x1000 + at as u64, &[(function, 1, 0)]));
    }
    profile.sample(&stack, &[7], &[]);
    profile.into_bytes()
}

/// A service that answers every request with a profile, and one path with a redirect.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("its address"));
    let body = std::fs::read(profiles::committed("go-cpu")).expect("testdata");
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let (status, more, body) = match request.contains("/redirect") {
                true => ("302 Found", "Location: http://127.0.0.1:1/\r\n", &[][..]),
                false => ("200 OK", "", &body[..]),
            };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
        }
    });
    address
}

#[test]
fn the_official_client_gets_along_with_it() {
    let Some(client) = mcp_client() else { return };
    let mut python = command(Path::new("python3"));
    python
        .arg(repository().join("tests/mcp/client.py"))
        .arg(flamelet())
        .arg(folder())
        .arg(service())
        .arg(SECRET);
    let said = answer(python.env("PYTHONPATH", client));
    assert_eq!(said.status, Some(0), "{}\n{}", said.stdout, said.stderr);
    let tools = ["open", "explain", "top", "peek", "list", "diff", "record", "fetch"];
    for tool in tools {
        assert!(said.stdout.contains(&format!("ok: {tool} ")), "{tool} was not called: {}", said.stdout);
    }
    assert!(
        said.stdout.contains("in 2025-11-25") && said.stdout.contains("in 2026-07-28"),
        "{}",
        said.stdout
    );
}

/// The same without the client: what a profile names is not read, and nothing but answers is on standard output.
#[test]
fn a_hostile_profile_does_not_reach_out() {
    let folder = folder();
    let mut server = command(flamelet());
    server.args(["mcp", "--allow"]).arg(&folder).current_dir("/").stdin(Stdio::piped());
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("flamelet starts");
    let calls = [
        r#"{"name":"list","arguments":{"profile":"hostile.pb","function":"."}}"#,
        r#"{"name":"top","arguments":{"profile":"hostile.pb"}}"#,
        r#"{"name":"explain","arguments":{"profile":"hostile.pb"}}"#,
        r#"{"name":"open","arguments":{"path":"hostile.pb"}}"#,
        r#"{"name":"top","arguments":{"profile":"link.pb.gz"}}"#,
    ];
    let mut input = server.stdin.take().expect("a pipe");
    for (id, call) in calls.iter().enumerate() {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#);
        writeln!(input, "{line}").expect("the server reads");
    }
    drop(input);
    let output = server.wait_with_output().expect("its end");
    let (said, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{notes}");
    assert!(!said.contains(SECRET) && !notes.contains(SECRET) && !said.contains("root:"), "{said}\n{notes}");
    assert!(said.contains("fn shown() {}"), "{said}");
    let answers: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("an answer a line")).collect();
    let are_errors: Vec<bool> = answers.iter().map(|answer| answer["result"]["isError"] == true).collect();
    assert_eq!(are_errors, [false, false, false, false, true], "{said}");
}
