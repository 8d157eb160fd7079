//! Fetches debug files by build id from servers.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Servers;
use crate::buildid::BuildId;
use crate::{Error, ErrorKind, Result};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);
/// The largest debug file that is fetched.
const LARGEST_FILE: u64 = 8 << 30;

/// Returns the path of the debug file of the build `id`: from the cache, else from the first server that has it.
/// `None` if no server has it, or there are no servers to ask.
pub(crate) fn fetch(servers: &Servers, id: &BuildId) -> Result<Option<PathBuf>> {
    let Some(cache) = servers.cache.as_deref().filter(|_| !servers.urls.is_empty()) else { return Ok(None) };
    let path = cache.join("debuginfod").join(id.to_string()).join("debuginfo");
    if flamelet_profile::open_regular(&path).is_ok() {
        return Ok(Some(path));
    }
    let mut problem = None;
    for url in &servers.urls {
        match fetch_from(url, id, &path, servers.timeout.unwrap_or(DEFAULT_TIMEOUT)) {
            Ok(true) => return Ok(Some(path)),
            Ok(false) => {}
            Err(error) => problem = Some(error),
        }
    }
    problem.map_or(Ok(None), Err)
}

/// Returns whether the server had the file.
fn fetch_from(url: &str, id: &BuildId, to: &Path, timeout: Duration) -> Result<bool> {
    let url = format!("{}/buildid/{id}/debuginfo", url.trim_end_matches('/'));
    let failed = |why: &dyn std::fmt::Display| Error::new(ErrorKind::Io, format!("{url}: {why}"));
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(timeout)).build().into();
    let mut response = match agent.get(&url).call() {
        Ok(response) => response,
        Err(ureq::Error::StatusCode(404)) => return Ok(false),
        Err(error) => return Err(failed(&error)),
    };
    let mut body = response.body_mut().with_config().limit(LARGEST_FILE).reader();
    store(&mut body, id, to).map_err(|error| failed(&error))?;
    Ok(true)
}

/// Writes the file completely or not at all, and only if it has the right build id.
fn store(body: &mut impl Read, id: &BuildId, to: &Path) -> Result<()> {
    // Several symbolizers of one process may fetch the same file.
    static FETCHES: AtomicU64 = AtomicU64::new(0);
    let folder = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let partial = folder.join(format!("partial-{}-{number}", std::process::id()));
    let written = fs::File::create(&partial).and_then(|mut file| std::io::copy(body, &mut file));
    let checked = written.map_err(Error::from).and_then(|_| match crate::buildid::of_file(&partial)? {
        Some(own) if own == *id => Ok(fs::rename(&partial, to)?),
        _ => Err(Error::new(ErrorKind::WrongFormat, "the server sent a file that belongs to another build")),
    });
    if checked.is_err() {
        let _ = fs::remove_file(&partial);
    }
    checked
}
