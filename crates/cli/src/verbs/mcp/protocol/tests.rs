//! Conversations with the server, in memory.

use std::path::PathBuf;

use clap::Parser;

use super::super::Args;
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn server(words: &[&str]) -> McpServer {
    let words = std::iter::once("mcp").chain(words.iter().copied());
    McpServer::new(&Line::parse_from(words).args).expect("the folders are there")
}

/// Returns the answers to the lines, in any order.
fn answers_of(server: &McpServer, lines: &[&str]) -> Vec<Value> {
    let mut output = Vec::new();
    serve(server, lines.join("\n").as_bytes(), &mut output);
    let output = String::from_utf8(output).expect("text");
    output.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn answer_to(server: &McpServer, message: &Value) -> Value {
    let [answer] = &answers_of(server, &[&message.to_string()])[..] else { panic!("{message}") };
    answer.clone()
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

fn call_tool(server: &McpServer, name: &str, arguments: &Value) -> (String, bool) {
    let answer = answer_to(server, &request("tools/call", &json!({ "name": name, "arguments": arguments })));
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (text.to_owned(), result["isError"] == true)
}

fn testdata() -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    folder.canonicalize().expect("testdata").display().to_string()
}

#[test]
fn a_version_is_agreed_on() {
    let server = server(&[]);
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let answer = answer_to(&server, &request("initialize", &json!({ "protocolVersion": asked })));
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{asked}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "flamelet");
    }
    assert_eq!(answer_to(&server, &request("initialize", &json!({})))["error"]["code"], INVALID_PARAMS);
}

#[test]
fn later_clients_name_the_version_with_each_request() {
    let server = server(&[]);
    let with = |version: &str| json!({ "_meta": { VERSION_KEY: version } });
    let found = answer_to(&server, &request("server/discover", &with("2026-07-28")));
    assert!(
        found["result"]["supportedVersions"].as_array().is_some_and(|all| all.contains(&json!("2026-07-28")))
    );
    let listed = answer_to(&server, &request("tools/list", &with("2026-07-28")));
    assert_eq!(
        (&listed["result"]["resultType"], &listed["result"]["ttlMs"]),
        (&json!("complete"), &json!(0))
    );
    let refused = answer_to(&server, &request("tools/list", &with("2099-01-01")));
    assert_eq!(refused["error"]["code"], UNSUPPORTED_VERSION);
    assert_eq!(refused["error"]["data"]["requested"], "2099-01-01");
    // Earlier clients do not get what they do not know.
    assert!(answer_to(&server, &request("tools/list", &json!({})))["result"].get("resultType").is_none());
}

#[test]
fn messages_that_are_wrong_get_an_error_and_the_next_is_answered() {
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    for (line, code) in [
        ("{", PARSE_ERROR),
        ("\u{0}", PARSE_ERROR),
        ("7", INVALID_REQUEST),
        ("[]", INVALID_REQUEST),
        (r#"{"id":1,"method":"ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nothing/such"}"#, METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#, INVALID_PARAMS),
    ] {
        let answers = answers_of(&server(&[]), &["", line, ping]);
        assert_eq!(answers.len(), 2, "{line}");
        let errors: Vec<&Value> = answers.iter().filter_map(|answer| answer.get("error")).collect();
        assert_eq!(errors[0]["code"], code, "{line}: {errors:?}");
        assert!(answers.contains(&json!({ "jsonrpc": "2.0", "id": "p", "result": {} })), "{line}");
    }
}

#[test]
fn a_message_that_is_too_long_is_skipped() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(LONGEST_LINE as usize));
    let answers = answers_of(&server(&[]), &[&long, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#]);
    assert_eq!((&answers[0]["error"]["code"], &answers[1]["id"]), (&json!(PARSE_ERROR), &json!(2)));
}

#[test]
fn notifications_and_answers_get_none_and_batches_get_one() {
    let silent = [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"open"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
    ];
    assert_eq!(answers_of(&server(&[]), &silent), Vec::<Value>::new());
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let answers = answers_of(&server(&[]), &[batch]);
    let ids: Vec<&Value> =
        answers[0].as_array().expect("a batch").iter().map(|answer| &answer["id"]).collect();
    assert_eq!((answers.len(), ids), (1, vec![&json!(1), &json!(2)]));
}

#[test]
fn only_tools_that_are_allowed_are_listed_and_run() {
    let names = |server: &McpServer| -> Vec<String> {
        let answer = answer_to(server, &request("tools/list", &json!({})));
        let tools = answer["result"]["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let careful = server(&[]);
    assert_eq!(names(&careful), ["open", "explain", "top", "peek", "list", "diff"]);
    let bold = server(&["--allow-record", "--host", "localhost:1"]);
    assert_eq!(names(&bold), ["open", "explain", "top", "peek", "list", "diff", "record", "fetch"]);
    for (name, arguments, option) in [
        ("record", json!({ "command": ["true"] }), "--allow-record"),
        ("fetch", json!({ "address": "localhost:1" }), "--host"),
    ] {
        let (text, is_error) = call_tool(&careful, name, &arguments);
        assert!(is_error && text.contains("is not allowed") && text.contains(option), "{text}");
    }
    let (text, is_error) = call_tool(&bold, "record", &json!({}));
    assert!(is_error && text == "give either 'command' or 'process'", "{text}");
    let (text, is_error) = call_tool(&bold, "record", &json!({ "command": ["true"], "save_as": "x.pb.gz" }));
    assert!(is_error && text.contains("--write DIR"), "{text}");
}

#[test]
fn questions_are_answered_with_the_quality_first() {
    let server = server(&["--allow", &testdata()]);
    let profile = json!({ "profile": "go-cpu.pb.gz" });
    for (name, arguments, expected) in [
        ("open", json!({}), "go-heap.pb.gz"),
        ("open", json!({ "path": "go-cpu.pb.gz" }), "Sample types:"),
        ("explain", profile.clone(), "Quality: "),
        ("top", profile.clone(), "flat%"),
        ("top", json!({ "profile": "go-cpu.pb.gz", "by": "crate", "rows": 3 }), "Quality: "),
        ("peek", json!({ "profile": "go-cpu.pb.gz", "function": "main" }), "flat%"),
        ("list", json!({ "profile": "go-cpu.pb.gz", "function": "main.main" }), "Total:"),
        ("diff", json!({ "before": "go-cpu.pb.gz", "after": "go-cpu.pb.gz" }), "after: Quality: "),
    ] {
        let (text, is_error) = call_tool(&server, name, &arguments);
        assert!(!is_error && text.contains(expected), "{name}: {text}");
        assert!(text.len() < 25_000, "{name}: {} bytes", text.len());
        let is_first = text.starts_with("Quality: ") || text.starts_with("before: Quality: ");
        assert!(is_first || name == "open", "{name}: {text}");
    }
}

#[test]
fn failures_of_tools_are_one_line() {
    let server = server(&["--allow", &testdata()]);
    let of = |more: &Value| {
        let mut arguments = json!({ "profile": "go-cpu.pb.gz" });
        arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        arguments
    };
    for (name, arguments, expected) in [
        ("top", json!({}), "'profile' is missing"),
        ("top", json!({ "profile": "nothing.pb.gz" }), "nothing.pb.gz: there is no such file or folder"),
        ("top", json!({ "profile": "/etc/passwd" }), "not in an allowed folder"),
        ("top", json!({ "profile": "../Cargo.toml" }), "not in an allowed folder"),
        ("open", json!({ "path": ".." }), "not in an allowed folder"),
        ("top", json!({ "profile": "." }), "is a folder"),
        ("top", json!({ "profile": "-" }), "there is no such file"),
        ("top", json!({ "profile": "http://localhost:1" }), "there is no such file"),
        ("top", of(&json!({ "rows": 1000 })), "rows: must be a whole number from 1 to 100"),
        ("top", of(&json!({ "sample_index": "nothing" })), "nothing"),
        ("top", of(&json!({ "focus": "(" })), "focus"),
        ("peek", of(&json!({ "function": "no_such_function" })), "no function matches"),
        ("list", of(&json!({ "function": "no_such_function" })), "no sampled function matches"),
        ("diff", json!({ "before": "go-cpu.pb.gz", "after": "go-heap.pb.gz" }), "cannot compare"),
    ] {
        let (text, is_error) = call_tool(&server, name, &arguments);
        assert!(
            is_error && text.contains(expected) && text.lines().count() == 1,
            "{name} {arguments}: {text}"
        );
    }
}
