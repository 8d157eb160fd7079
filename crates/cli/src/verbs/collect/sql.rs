//! `flamelet collect sql`: views over the blocks, for engines that read Parquet.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use flamelet_collect::is_collected;
use flamelet_collect::sql::{BlocksLocation, SqlEngine, views};

use crate::error::{About, Failure, Result};
use crate::output;
use crate::profiles::bucket;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// duckdb or clickhouse
    #[arg(value_name = "ENGINE", value_parser = parse_engine)]
    engine: SqlEngine,
    /// The folder of the collector, or a bucket
    #[arg(long, value_name = "DIR|URL", value_hint = ValueHint::DirPath)]
    store: PathBuf,
}

fn parse_engine(text: &str) -> std::result::Result<SqlEngine, String> {
    SqlEngine::parse(text).ok_or_else(|| "expected duckdb or clickhouse".to_owned())
}

pub(super) fn run(args: &Args) -> Result<()> {
    let text = match args.store.to_str().filter(|url| bucket::is_url(url)) {
        Some(url) => of_bucket(args.engine, url)?,
        None => of_folder(args.engine, &args.store)?,
    };
    output::line(text.trim_end())
}

fn of_folder(engine: SqlEngine, store: &Path) -> Result<String> {
    let name = store.display();
    if !is_collected(store) {
        return Err(Failure::new(format!("{name}: this is not the folder of a collector")));
    }
    // Engines are often started elsewhere.
    let store = store.canonicalize().about(name)?;
    Ok(views(engine, BlocksLocation::Folder(&store.to_string_lossy())))
}

fn of_bucket(engine: SqlEngine, url: &str) -> Result<String> {
    let parsed = bucket::Url::parse(url)?;
    if engine == SqlEngine::DuckDb {
        return Ok(views(engine, BlocksLocation::Bucket(url)));
    }
    let known = parsed.for_clickhouse().ok_or_else(|| {
        Failure::new(format!(
            "{url}: ClickHouse needs more than a URL for Azure; see its function azureBlobStorage"
        ))
    })?;
    Ok(views(engine, BlocksLocation::Bucket(&known)))
}
