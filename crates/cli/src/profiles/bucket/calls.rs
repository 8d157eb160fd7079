//! Blocking calls to a bucket.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock, mpsc};

use flamelet_collect::{Listing, Store};
use flamelet_profile::{Error, ErrorKind};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Failure, Result};

/// The longest part of an error that is shown: some have the whole answer of the server.
const MAX_SHOWN: usize = 400;
/// Where a machine in a cloud has its credentials.
const METADATA: &str = "http://169.254.";

/// A bucket, below a prefix.
#[derive(Debug)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// `s3://BUCKET`.
    name: String,
    prefix: String,
    runtime: &'static Runtime,
}

/// Returns the runtime of all buckets, which is never dropped: the caller may itself run in another runtime.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let started = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(1).thread_name("bucket").enable_time().build()
    });
    started.as_ref().map_err(|error| Failure::new(format!("a thread for the bucket cannot start: {error}")))
}

impl Bucket {
    pub(super) fn new(store: Arc<dyn ObjectStore>, name: &str, prefix: &str) -> Result<Self> {
        Ok(Self { store, name: name.to_owned(), prefix: prefix.to_owned(), runtime: runtime()? })
    }

    fn path(&self, path: &str) -> flamelet_profile::Result<Path> {
        let whole = [&*self.prefix, path].into_iter().filter(|part| !part.is_empty());
        Path::parse(whole.collect::<Vec<_>>().join("/")).map_err(|error| self.wrong(path, &error.into()))
    }

    fn call<T: Send + 'static>(
        &self,
        path: &str,
        call: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> flamelet_profile::Result<T> {
        let (send, receive) = mpsc::channel();
        self.runtime.spawn(async move { send.send(call.await) });
        let answer =
            receive.recv().map_err(|_| Error::new(ErrorKind::Internal, "a call to the bucket ended"))?;
        answer.map_err(|error| self.wrong(path, &error))
    }

    fn wrong(&self, path: &str, error: &object_store::Error) -> Error {
        use object_store::Error::{AlreadyExists, NotFound, PermissionDenied, Unauthenticated};
        let kind = match error {
            NotFound { .. } => ErrorKind::NotFound,
            // Only the callers of `create` check for an error of this kind.
            AlreadyExists { .. } => ErrorKind::Busy,
            PermissionDenied { .. } | Unauthenticated { .. } => ErrorKind::Denied,
            _ => ErrorKind::Io,
        };
        let text = error.to_string();
        // Without credentials, object_store asks the machine that it runs on for some.
        let hint = if text.contains(METADATA) { "no credentials in the environment, and " } else { "" };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.chars().take(MAX_SHOWN).collect();
        Error::new(kind, format!("{}: {hint}{text}", self.shown(path)))
    }
}

impl Store for Bucket {
    fn list(&self, folder: &str) -> flamelet_profile::Result<Listing> {
        let (store, prefix) = (self.store.clone(), self.path(folder)?);
        let found = self.call(folder, async move { store.list_with_delimiter(Some(&prefix)).await })?;
        let name = |path: &Path| path.filename().map(str::to_owned);
        Ok(Listing {
            folders: found.common_prefixes.iter().filter_map(name).collect(),
            files: found.objects.iter().filter_map(|object| name(&object.location)).collect(),
            bytes: found.objects.iter().map(|object| object.size).fold(0, u64::saturating_add),
        })
    }

    fn get(&self, path: &str, most: u64) -> flamelet_profile::Result<Vec<u8>> {
        let (store, place) = (self.store.clone(), self.path(path)?);
        // No more than that is sent, however long the file is.
        let range = GetRange::Bounded(0..most.saturating_add(1));
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let bytes = self.call(path, async move { store.get_opts(&place, options).await?.bytes().await })?;
        if bytes.len() as u64 > most {
            let message = format!("{}: is longer than {most} bytes", self.shown(path));
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(bytes.into())
    }

    fn create(&self, path: &str, bytes: &[u8]) -> flamelet_profile::Result<bool> {
        let (store, place, bytes) = (self.store.clone(), self.path(path)?, bytes.to_vec());
        let put = async move { store.put_opts(&place, bytes.into(), PutMode::Create.into()).await };
        match self.call(path, put) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, path: &str) -> flamelet_profile::Result<()> {
        let (store, place) = (self.store.clone(), self.path(path)?);
        match self.call(path, async move { store.delete(&place).await }) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A file that was just written has the time of the bucket.
    fn time(&self) -> flamelet_profile::Result<Option<i64>> {
        let random = RandomState::new().build_hasher().finish();
        let path = format!("clock/{random:016x}");
        self.create(&path, b"clock")?;
        let (store, place) = (self.store.clone(), self.path(&path)?);
        let found = self.call(&path, async move { store.head(&place).await });
        self.delete(&path)?;
        Ok(found?.last_modified.timestamp_nanos_opt())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn shown(&self, path: &str) -> String {
        let parts = [&*self.name, &*self.prefix, path].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_memory_is_called() {
        let memory = Arc::new(object_store::memory::InMemory::new());
        let bucket = Bucket::new(memory, "s3://profiles", "eu").expect("a runtime");
        assert!(bucket.create("a%2fb/c/d", b"one").expect("created"));
        assert!(!bucket.create("a%2fb/c/d", b"two").expect("there already"));
        assert_eq!(bucket.get("a%2fb/c/d", 3).expect("read"), b"one");
        assert_eq!(bucket.get("a%2fb/c/d", 2).expect_err("long").kind(), ErrorKind::TooLarge);
        let error = bucket.get("nothing", 2).expect_err("not there");
        assert!(
            error.kind() == ErrorKind::NotFound && error.to_string().contains("s3://profiles/eu/nothing")
        );
        assert_eq!(bucket.list("a%2fb").expect("listed").folders, ["c"]);
        assert_eq!(bucket.list("a%2fb/c").expect("listed").files, ["d"]);
        assert_eq!(bucket.list("x").expect("listed"), Listing::default());
        assert!(bucket.time().expect("answered").is_some_and(|time| time > 1_700_000_000_000_000_000));
        assert_eq!(bucket.list("clock").expect("listed"), Listing::default(), "nothing is left");
        bucket.delete("a%2fb/c/d").expect("deleted");
        bucket.delete("a%2fb/c/d").expect("nothing to delete");
    }
}
