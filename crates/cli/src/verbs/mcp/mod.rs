//! `flamelet mcp`: the answers of the other verbs, as tools for an assistant, over the Model Context Protocol.
//!
//! Each line of standard input is a JSON-RPC message, each line of standard output an answer. [`protocol`] knows the
//! messages, [`tools`] is the table of tools, [`reach`] decides what they may read.

mod answer;
mod calls;
mod capped;
mod parameters;
mod protocol;
mod reach;
mod server;
mod shelf;
mod take;
mod tools;

use std::io::{self, BufReader};
use std::path::PathBuf;

use clap::ValueHint;

use crate::arguments::guide::Guide;
use crate::arguments::source::MemoryArgs;
use crate::error::Result;
use server::McpServer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Read profiles, sources and binaries below this folder; may be given several times [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    allow: Vec<PathBuf>,
    /// Fetch profiles from this service; may be given several times [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    host: Vec<String>,
    /// Let the assistant record processes, and run any command to record it
    #[arg(long)]
    allow_record: bool,
    /// Save what is recorded or fetched in this folder [default: it is kept in memory only]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    write: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// What a client's settings usually look like.
const SETTINGS: &str = concat!(
    r#"Clients start the server themselves. Their settings usually read:
  {"mcpServers": {"flamelet": {"command": "flamelet", "args": ["mcp", "--allow", "/srv/profiles"]}}}

"#,
    "Only what the options allow is read, whatever a profile names: files below --allow (links that lead out of it are \
     refused), the source of the standard library, and services named by --host. Nothing is written without --write, \
     except a temporary file for each recording."
);

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Answer an assistant's questions about profiles (Model Context Protocol)",
        examples: &[
            ("flamelet mcp", "profiles and sources below this folder"),
            ("flamelet mcp --allow /srv/profiles --host localhost:3000", "and profiles from a service"),
            ("flamelet mcp --allow-record --write /tmp/profiles", "also record, and keep the recordings"),
        ],
        more: SETTINGS.to_owned(),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let server = McpServer::new(args)?;
    protocol::serve(&server, BufReader::new(io::stdin()), io::stdout());
    Ok(())
}
