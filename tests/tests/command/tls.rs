//! `flamelet collect` over TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flamelet_tests::programs::{Answer, command, flamelet, run_flamelet};

use super::collect::{Collector, SECOND, certificate, now, profile, try_send};

const PATIENCE: Duration = Duration::from_secs(120);

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Pushes a profile, and trusts this authority.
fn push(collector: &Collector, file: &Path, service: &str, authority: &str) -> Answer {
    let (url, authority) = (collector.url(), certificate(authority));
    run_flamelet(["push", text(file), "--to", &url, "--service", service, "--tls-ca", text(&authority)])
}

#[test]
fn profiles_are_pushed_and_queried_over_tls_and_not_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, file) = (folder.path().join("store"), folder.path().join("cpu.pb.gz"));
    fs::write(&file, profile(now() - 60 * SECOND, "work", 3)).expect("written");
    let collector = Collector::start_tls(&store, &[]);
    assert!(collector.url().starts_with("https://"), "{}", collector.url());
    let sent = push(&collector, &file, "shop", "authority.pem");
    assert_eq!(sent.status, Some(0), "{}", sent.stderr);
    let stranger = push(&collector, &file, "stranger", "other.pem");
    assert_eq!(stranger.status, Some(2), "the certificate of another");
    let (url, authority) = (collector.url(), certificate("authority.pem"));
    let top = ["top", &format!("pyroscope+{url}"), "--service", "shop", "--tls-ca", text(&authority)];
    let top = run_flamelet(top);
    assert!(top.status == Some(0) && top.stdout.contains("work"), "{} {}", top.stdout, top.stderr);
    let plain = try_send(&collector.address, "GET / HTTP/1.1", b"").expect("an answer");
    assert_eq!((plain.0, String::from_utf8_lossy(&plain.1).contains("https://")), (400, true));
    let plain = run_flamelet(["push", text(&file), "--to", &url.replace("https", "http"), "--service", "x"]);
    assert!(plain.status == Some(2) && plain.stderr.contains("https://"), "{}", plain.stderr);
    collector.end();
}

#[test]
fn a_certificate_that_was_replaced_is_used_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let replace = |name: &str, with: &str| {
        fs::copy(certificate(with), at("new")).expect("copied");
        fs::rename(at("new"), at(name)).expect("replaced");
    };
    replace("cert.pem", "server.pem");
    replace("key.pem", "server.key");
    fs::write(at("cpu.pb.gz"), profile(now() - 60 * SECOND, "work", 3)).expect("written");
    let config = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";
    fs::write(at("collect.yaml"), config).expect("written");
    let mut command = command(flamelet());
    command.current_dir(folder.path()).args(["collect", "--store", "store", "--config", "collect.yaml"]);
    let collector = Collector::run(&mut command);
    let accepts = |authority| push(&collector, &at("cpu.pb.gz"), "shop", authority).status == Some(0);
    assert!(accepts("authority.pem") && !accepts("other.pem"));
    // For a moment, the key is not that of the certificate.
    replace("cert.pem", "other.pem");
    assert!(accepts("authority.pem"), "the last good one");
    replace("key.pem", "other.key");
    let start = Instant::now();
    while !accepts("other.pem") {
        assert!(start.elapsed() < PATIENCE, "the new certificate is not used");
    }
    assert!(!accepts("authority.pem"));
    collector.end();
}

#[test]
fn each_mistake_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, config) = (folder.path().join("server.key"), folder.path().join("collect.yaml"));
    fs::copy(certificate("server.key"), &key).expect("copied");
    let check = |mode: u32, chain: &str| {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("set");
        let chain = certificate(chain);
        let tls = ["--tls-cert", text(&chain), "--tls-key", text(&key)];
        run_flamelet([&["collect", "--store", "x", "--check"][..], &tls].concat())
    };
    let good = check(0o600, "server.pem");
    assert!(good.status == Some(0) && !good.stderr.contains("can read"), "{}", good.stderr);
    let open = check(0o644, "server.pem");
    assert!(open.status == Some(0) && open.stderr.contains("server.key; chmod 600"), "{}", open.stderr);
    for (chain, words) in [("missing.pem", "missing.pem: "), ("other.pem", "server.key: is not the key of")] {
        let bad = check(0o600, chain);
        assert!(bad.status == Some(2) && bad.stderr.contains(words), "{}", bad.stderr);
        assert_eq!(bad.stderr.lines().count(), 1, "{}", bad.stderr);
    }
    let half = run_flamelet(["collect", "--store", "x", "--tls-cert", "a"]);
    assert!(half.status == Some(2) && half.stderr.contains("--tls-key"), "{}", half.stderr);
    fs::write(&config, "store: x\ntls_server_config:\n  cert_file: no.pem\n  key_file: no.key\n")
        .expect("written");
    let bad = run_flamelet(["collect", "--config", text(&config), "--check"]);
    assert!(bad.status == Some(2) && bad.stderr.contains("collect.yaml:3:3: no.pem: "), "{}", bad.stderr);
}
