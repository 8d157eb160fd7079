//! `flamelet record --load`: when the load starts, and what happens if it fails.

use std::path::PathBuf;

use flamelet_tests::programs::run_flamelet;

use super::{may_record, scratch, text};

fn folder(name: &str) -> PathBuf {
    let folder = scratch(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("our own folder");
    folder
}

/// A TCP port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

/// The comments of a profile.
fn comments(path: &std::path::Path) -> String {
    run_flamelet(["comments", text(path)]).stdout
}

#[test]
fn a_load_waits_until_the_command_listens() {
    if !may_record() {
        return;
    }
    let folder = folder("listens");
    let (path, socket) = (folder.join("a.pb.gz"), folder.join("socket"));
    // The server takes its time to start, and ends with the first connection.
    let server = format!(
        "use IO::Socket::UNIX; select(undef, undef, undef, 0.4); \
         my $s = IO::Socket::UNIX->new(Local => '{0}', Listen => 5) or die; $s->accept; exit 4",
        socket.display()
    );
    let load = format!(
        "perl -e \"use IO::Socket::UNIX; IO::Socket::UNIX->new(Peer => '{}') or die 'refused'\"",
        socket.display()
    );
    let answer = run_flamelet(["record", "--load", &load, "-o", text(&path), "--", "perl", "-e", &server]);
    assert_eq!(answer.status, Some(4), "{answer:?}");
    let comments = comments(&path);
    assert!(comments.contains("load: perl") && comments.contains("the command listens on"), "{comments}");
}

#[test]
fn a_load_waits_for_the_port() {
    if !may_record() {
        return;
    }
    let folder = folder("port");
    let (path, socket, loaded) = (folder.join("a.pb.gz"), folder.join("socket"), folder.join("loaded"));
    // The server listens elsewhere first. If the load came then, it would end with 6; with 9 if another program has taken
    // the port meanwhile.
    let serve = |port: u16| {
        format!(
            "use IO::Socket::UNIX; use IO::Socket::INET; \
             my $u = IO::Socket::UNIX->new(Local => '{}', Listen => 5) or die; \
             select(undef, undef, undef, 0.4); exit 6 if -e '{}'; \
             my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => {port}, Listen => 5) or exit 9; \
             $s->accept; exit 4",
            socket.display(),
            loaded.display()
        )
    };
    for is_bare in [true, false] {
        let mut answers = (0..5).map(|_| {
            for file in [&socket, &loaded] {
                let _ = std::fs::remove_file(file);
            }
            let port = free_port();
            let load = format!(
                "touch {}; perl -e \"use IO::Socket::INET; \
                 IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => {port}) or die 'refused'\"",
                loaded.display()
            );
            let after = if is_bare { port.to_string() } else { format!(":{port}") };
            let words =
                ["record", "--load", &load, "--load-after", &after, "-o", text(&path), "--", "perl", "-e"];
            run_flamelet(words.into_iter().chain([serve(port).as_str()]))
        });
        let answer = answers.find(|answer| answer.status != Some(9)).expect("a port stays free");
        assert_eq!(answer.status, Some(4), "{answer:?}");
    }
}

#[test]
fn a_load_that_fails_at_once_ends_the_recording_with_its_output() {
    if !may_record() {
        return;
    }
    let path = folder("fails").join("a.pb.gz");
    let load = "echo starting; echo no-such-tool: not found >&2; exit 127";
    let words = ["record", "--load", load, "--load-after", "0s", "-o", text(&path), "--", "sleep", "1000"];
    let answer = run_flamelet(words);
    assert_eq!(answer.status, Some(2), "{answer:?}");
    let said = "failed: exit status: 127: no-such-tool: not found";
    assert!(answer.stderr.contains(said), "{answer:?}");
    assert!(comments(&path).contains(said), "{}", comments(&path));
}

#[test]
fn a_load_waits_for_a_text_and_the_output_is_passed_on() {
    if !may_record() {
        return;
    }
    let folder = folder("text");
    let (path, loaded) = (folder.join("a.pb.gz"), folder.join("loaded"));
    // If the load came first, the command would end with 6.
    let script = format!(
        "echo one; sleep 0.3; [ -e {0} ] && exit 6; printf 'now rea' >&2; printf 'dy\\n' >&2; \
         until [ -e {0} ]; do sleep 0.01; done; echo last; exit 5",
        loaded.display()
    );
    let load = format!("touch {}", loaded.display());
    let words = [
        "record",
        "--load",
        &load,
        "--load-after",
        "now ready",
        "-o",
        text(&path),
        "--",
        "sh",
        "-c",
        &script,
    ];
    let answer = run_flamelet(words);
    assert_eq!(answer.status, Some(5), "{answer:?}");
    assert!(answer.stdout.contains("one\nlast\n") && answer.stderr.contains("now ready"), "{answer:?}");
    let answer = run_flamelet(["record", "--load", "true", "--load-after", "text", "-p", "1"]);
    assert!(answer.stderr.contains("--load-after TEXT reads the output of a command"), "{answer:?}");
    let answer = run_flamelet(["record", "--load-after", "2s", "--", "true"]);
    assert_eq!(answer.status, Some(2), "{answer:?}");
}
