//! Buckets as the store of collectors: `s3://`, `gs://` and `az://`, by the crate `object_store`.
//!
//! [`calls`] turns its asynchronous calls into blocking ones; [`http`] is the client that it uses, which is the
//! command's own.

mod calls;
mod http;

use std::path::PathBuf;
use std::sync::Arc;

use flamelet_collect::{Cached, Store};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectStore, RetryConfig};

use self::calls::Bucket;
use self::http::Connector;
use crate::error::{Failure, Result};

const SCHEMES: [&str; 3] = ["s3://", "gs://", "az://"];
/// The most bytes of blocks that are kept on the local disk.
const CACHE: u64 = 1 << 30;

/// Returns whether a text names a bucket, without a query.
pub(crate) fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme)) && !text.contains('?')
}

/// A bucket and a prefix in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    /// `s3`, `gs` or `az`.
    scheme: &'a str,
    bucket: &'a str,
    /// Without slashes at its ends.
    prefix: &'a str,
}

impl<'a> Url<'a> {
    pub(crate) fn parse(url: &'a str) -> Result<Self> {
        let wrong = || Failure::new(format!("{url}: write it as s3://BUCKET/PREFIX (or gs://, az://)"));
        let (scheme, rest) = url.split_once("://").filter(|_| is_url(url)).ok_or_else(wrong)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
        let is_good = is_plain(bucket) && (prefix.is_empty() || prefix.split('/').all(is_plain));
        if is_good { Ok(Self { scheme, bucket, prefix }) } else { Err(wrong()) }
    }

    /// Opens the bucket with the settings of the environment.
    pub(crate) fn open(self) -> Result<Arc<dyn Store>> {
        let shown = format!("{}://{}", self.scheme, self.bucket);
        let retry = RetryConfig {
            max_retries: 4,
            retry_timeout: std::time::Duration::from_secs(60),
            ..RetryConfig::default()
        };
        let opened: object_store::Result<Arc<dyn ObjectStore>> = match self.scheme {
            "s3" => AmazonS3Builder::from_env()
                .with_url(&shown)
                .with_http_connector(Connector)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as _),
            "gs" => GoogleCloudStorageBuilder::from_env()
                .with_url(&shown)
                .with_http_connector(Connector)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as _),
            _ => MicrosoftAzureBuilder::from_env()
                .with_url(&shown)
                .with_http_connector(Connector)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as _),
        };
        let store = opened.map_err(|error| Failure::new(format!("{shown}: {error}")))?;
        let bucket: Arc<dyn Store> = Arc::new(Bucket::new(store, &shown, self.prefix)?);
        Ok(match cache_folder() {
            Some(folder) => Arc::new(Cached::new(bucket, &folder, CACHE)),
            None => bucket,
        })
    }

    /// Returns the folder for the log of a collector that writes there, unless it is given.
    pub(crate) fn log_folder(self) -> Result<PathBuf> {
        let state = folder_of("XDG_STATE_HOME", ".local/state");
        let state = state.ok_or_else(|| Failure::new("give the folder for the log with --log DIR"))?;
        // Two buckets have two folders.
        let mut name = String::new();
        for byte in format!("{}-{}/{}", self.scheme, self.bucket, self.prefix).bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => name.push(byte as char),
                other => name.push_str(&format!("_{other:02x}")),
            }
        }
        Ok(state.join("collect").join(name))
    }

    /// Returns the URL that ClickHouse knows; `None` if it reads no such bucket by a URL alone.
    pub(crate) fn for_clickhouse(self) -> Option<String> {
        let settings = AmazonS3Builder::from_env();
        let setting = |key: AmazonS3ConfigKey| settings.get_config_value(&key);
        let root = match (self.scheme, setting(AmazonS3ConfigKey::Endpoint)) {
            ("s3", Some(endpoint)) => endpoint.trim_end_matches('/').to_owned(),
            ("s3", None) => {
                let region = setting(AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
                format!("https://s3.{region}.amazonaws.com")
            }
            ("gs", _) => "https://storage.googleapis.com".to_owned(),
            _ => return None,
        };
        Some(format!("{root}/{}/{}", self.bucket, self.prefix))
    }
}

/// Returns a folder of flamelet's that a variable or the home folder says.
fn folder_of(variable: &str, in_home: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    Some(given.or_else(|| Some(std::env::home_dir()?.join(in_home)))?.join("flamelet"))
}

fn cache_folder() -> Option<PathBuf> {
    folder_of("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("blocks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_buckets() {
        let url = Url::parse("s3://profiles/eu/north/").expect("a URL");
        assert_eq!((url.scheme, url.bucket, url.prefix), ("s3", "profiles", "eu/north"));
        assert_eq!(Url::parse("gs://profiles").expect("a URL").prefix, "");
        for wrong in ["s3://", "s3:///a", "s3://a/../b", "s3://a/b//c", "ftp://a/b", "a/b", "s3://a/b?c"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        assert!(is_url("s3://a/b") && !is_url("/a") && !is_url("s3://a/b?from=-1h") && !is_url("http://a"));
    }

    #[test]
    fn two_buckets_have_two_folders_for_their_logs() {
        let folder = |url: &str| Url::parse(url).expect("a URL").log_folder().expect("a folder");
        let urls = ["s3://a/b", "s3://a/b_2fc", "s3://a/b/c", "gs://a/b", "s3://a"];
        let folders: std::collections::BTreeSet<PathBuf> = urls.iter().map(|url| folder(url)).collect();
        assert_eq!(folders.len(), urls.len(), "{folders:?}");
    }
}
