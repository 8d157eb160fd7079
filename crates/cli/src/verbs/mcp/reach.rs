//! What the server may read: files below some folders, and profiles of some services.

use std::path::{Component, Path, PathBuf};

use ureq::http::Uri;

use crate::error::{About, Failure, Result};
use crate::profiles::fetch::{ProfileUrl, profile_url};

/// The folders and services that the command line allows.
#[derive(Debug)]
pub(super) struct Reach {
    /// Without links, `.` and `..`.
    folders: Vec<PathBuf>,
    /// Each as `host:port`.
    hosts: Vec<String>,
}

impl Reach {
    /// Resolves the folders once: what they mean does not change later.
    pub(super) fn new(folders: &[PathBuf], hosts: &[String]) -> Result<Self> {
        let folders: Result<Vec<PathBuf>> = folders.iter().map(|folder| resolved(folder)).collect();
        let hosts: Result<Vec<String>> = hosts.iter().map(|host| host_and_port(host)).collect();
        Ok(Self { folders: folders?, hosts: hosts? })
    }

    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    pub(super) fn has_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Returns the real path of a file or folder that may be read. A relative path starts at the first allowed folder
    /// that has it.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf> {
        let candidates: Vec<PathBuf> = self.folders.iter().map(|folder| folder.join(name)).collect();
        let mut real = candidates.iter().filter_map(|path| path.canonicalize().ok());
        if let Some(path) = real.find(|path| self.is_below(path)) {
            return Ok(path);
        }
        let is_there = candidates.iter().any(|path| path.symlink_metadata().is_ok());
        let would_be_below = candidates.iter().any(|path| self.is_below(&cleaned(path)));
        Err(Failure::new(if would_be_below && !is_there {
            format!("{name}: there is no such file or folder")
        } else {
            format!("{name}: not in an allowed folder; start the server with --allow DIR to add one")
        }))
    }

    fn is_below(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }

    /// Returns the address of a profile, if it is of an allowed service.
    pub(super) fn url(&self, address: &str, seconds: Option<u64>) -> Result<ProfileUrl> {
        let is_plain = !address.starts_with("https+insecure://");
        let url = profile_url(address, seconds).filter(|_| is_plain);
        let url = url.ok_or_else(|| {
            Failure::new(format!("{address}: this is not the URL of a service; expected http://HOST:PORT"))
        })?;
        match authority(&url.url) {
            Some(host) if self.hosts.contains(&host) => Ok(url),
            _ => Err(Failure::new(format!(
                "{address}: this host is not allowed; start the server with --host HOST:PORT to add it"
            ))),
        }
    }
}

fn resolved(folder: &Path) -> Result<PathBuf> {
    let real = folder.canonicalize().about(folder.display())?;
    if !real.is_dir() {
        return Err(Failure::new(format!("{}: not a folder", folder.display())));
    }
    // The source path of reports is a list with colons.
    if real.as_os_str().as_encoded_bytes().contains(&b':') {
        return Err(Failure::new(format!("{}: its name must not have a colon", folder.display())));
    }
    Ok(real)
}

/// Checks `HOST:PORT`.
fn host_and_port(text: &str) -> Result<String> {
    let host = authority(&format!("http://{text}/"));
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    host.filter(|_| has_port && !text.contains('/'))
        .ok_or_else(|| Failure::new(format!("--host {text}: write it as HOST:PORT")))
}

/// Returns the `host:port` that a URL leads to. `None` for one with a user's name, which may pass for a host.
fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let is_plain = !uri.authority()?.as_str().contains('@');
    let host = uri.host().filter(|host| is_plain && !host.is_empty())?;
    Some(format!("{}:{port}", host.to_ascii_lowercase()))
}

/// Returns the path without `.` and `..`, without looking at the disk.
fn cleaned(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(cleaned.pop()),
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates `inside/a.pb.gz`, `secret`, and links from inside to the outside and back.
    fn arranged() -> (tempfile::TempDir, Reach) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("inside/deep")).expect("made");
        fs::write(at("inside/a.pb.gz"), "profile").expect("written");
        fs::write(at("secret"), "s3cret").expect("written");
        symlink(at("secret"), at("inside/link")).expect("made");
        symlink(folder.path(), at("inside/up")).expect("made");
        symlink(at("inside/a.pb.gz"), at("back")).expect("made");
        let reach = Reach::new(&[at("inside")], &["Localhost:3000".into()]).expect("it is there");
        (folder, reach)
    }

    #[test]
    fn files_below_the_folder_are_found() {
        let (folder, reach) = arranged();
        let real = folder.path().join("inside/a.pb.gz").canonicalize().expect("there");
        let absolute = real.display().to_string();
        for name in ["a.pb.gz", "./deep/../a.pb.gz", &absolute] {
            assert_eq!(reach.path(name).expect(name), real);
        }
        // What counts is where a link leads.
        assert_eq!(reach.path(&folder.path().join("back").display().to_string()).expect("inside"), real);
    }

    #[test]
    fn whatever_leads_out_is_refused() {
        let (folder, reach) = arranged();
        let secret = folder.path().join("secret").display().to_string();
        for name in
            ["link", "up/secret", "../secret", "deep/../../secret", "/etc/passwd", &secret, "../nothing"]
        {
            let message = reach.path(name).expect_err(name).to_string();
            assert!(message.contains("not in an allowed folder"), "{message}");
        }
        // A second folder that lacks the link changes nothing.
        let two = Reach::new(&[folder.path().join("inside"), folder.path().join("inside/deep")], &[]);
        let message = two.expect("both are there").path("link").expect_err("a link").to_string();
        assert!(message.contains("not in an allowed folder"), "{message}");
        let message = reach.path("deep/nothing").expect_err("missing").to_string();
        assert_eq!(message, "deep/nothing: there is no such file or folder");
    }

    #[test]
    fn only_the_named_service_is_asked() {
        let (_folder, reach) = arranged();
        let url = |address: &str| reach.url(address, Some(5)).map(|url| url.url);
        let whole = "http://localhost:3000/debug/pprof/profile?seconds=5";
        assert_eq!(url("localhost:3000").expect("allowed"), whole);
        for address in [
            "http://localhost:3001",
            "http://localhost",
            "http://localhost:3000@evil:80/",
            "http://evil:3000/?localhost:3000",
            "https://localhost",
            "https+insecure://localhost:3000",
            "file:///etc/passwd",
            "a.pb.gz",
        ] {
            assert!(url(address).is_err(), "{address}");
        }
    }

    #[test]
    fn hosts_and_folders_are_checked() {
        for host in ["localhost", "http://localhost:1", "a:b", "", "a:80/x"] {
            assert!(Reach::new(&[], &[host.into()]).is_err(), "{host}");
        }
        assert!(Reach::new(&["/etc/passwd".into()], &[]).is_err());
    }
}
