//! The collector: takes profiles of many services, keeps them in a folder or a bucket, and returns any range of time.
//!
//! ```text
//!  scrape    ─┐                                    ┌─► flamelet top DIR --service …
//!  Pyroscope ─┼─► Collector ─► log ─► blocks ─► Reader ─► Pyroscope's query calls
//!  Parca     ─┤    (checks)   (fsync) (Parquet)    └─► DuckDB, ClickHouse: the files themselves
//!  OTLP      ─┘
//! ```
//!
//! # The store
//!
//! ```text
//!  collect.lock                                            held by the collector that writes this log
//!  log/5f0c93ab…-1794706806123.log                         profiles that were accepted and are in no block yet
//!
//!  flamelet-collect.json                                   what this store is, and its version
//!  blocks/SERVICE/2026-11-16T17/5f0c93ab…-1794706806123/   a block: four Parquet files and manifest.json
//!  blocks/~code/2026-11-16~5e61…/5f0c93ab…-1794706806124/  stacks and locations that blocks of a program and day share
//!  symbols/BUILD_ID                                        the file of a build, for the names of its code
//!  claims/SERVICE/2026-11-16T17/1                          who merges an hour of a store that is shared
//!  tmp/                                                    what is being written, in a folder
//!  tenants/NAME/                                           the same again, for each tenant
//! ```
//!
//! The log is always on the collector's own disk. The blocks are in the same folder, or in a [`Store`] (a bucket) that
//! many collectors write to and any number of readers read from.
//!
//! A profile is acknowledged when it is in the log and the disk has it. Every few minutes a new log is begun, and the
//! old one becomes blocks, one for each service and hour in it; when all of them are in the store, the log is removed.
//! When an hour is over, its blocks are merged into one, and the old ones are removed after a while.
//!
//! Every profile counts once, whoever wrote it and in whatever order. Each profile has a hash, each row of a block
//! says which profile it belongs to, and each manifest lists its profiles. A reader takes a profile from one block, however
//! many have it: because a collector was killed between writing a block and removing its log, because two collectors
//! accepted the same profile, or because two of them merged the same hour. A block is removed only if all of its
//! profiles are in another one, which was read back; of two with the same profiles the one whose name is first stays,
//! so no two collectors remove both.
//!
//! The names of folders are the index: a query lists the hours of its service, reads the manifests in its range, and
//! opens only blocks that it needs. There is no other index that could be lost.
//!
//! # Responsibilities of the caller
//!
//! - [`Collector`] does not know file formats and has no HTTP client: [`Outside`] has both.
//! - It has no client for buckets either: a caller with a bucket implements [`Store`].
//! - Call [`Collector::maintain`] every now and then, and [`Collector::close`] at the end.

mod ask;
mod block;
mod caps;
mod clock;
mod collector;
pub mod config;
mod entry;
mod http;
mod keep;
mod lock;
mod log;
mod names;
mod options;
mod outside;
mod query;
mod reader;
mod scraper;
mod series;
mod site;
pub mod sql;
mod store;
mod symbols;
mod yaml;

pub use ask::{
    Asked, Changes, Deploy, FleetPast, GroupUsage, NewFunction, ServiceChanges, ServiceUsage, Slower, Usage,
    UsageBy, UsageOptions, VersionSeen, changes, usage,
};
pub use caps::Caps;
pub use collector::tenants::Tenants;
pub use collector::{Collector, Offered, Refused};
pub use http::{Access, Certificate, serve};
pub use keep::Keep;
pub use options::Options;
pub use outside::{Outside, Request, Resource, Tls};
pub use query::Query;
pub use reader::replay::{Replayed, replay};
pub use reader::{Reader, is_collected};
pub use scraper::Scraper;
pub use scraper::job::ScrapeJob;
pub use series::profile_name;
pub use store::cache::Cached;
pub use store::{Listing, Store};
