//! `flamelet symbols push`: sends the binaries of a build to a store, which then names the code in addresses.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use flamelet_remote::push::{Answer, Protocol, Verdict, judge};
use flamelet_remote::symbols::{self, DebugFile, Upload, UploadRequest};

use crate::arguments::guide::Guide;
use crate::arguments::source::FetchArgs;
use crate::error::{About, Failure, Result};
use crate::profiles::fetch::{self, FetchOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// push, which sends the symbols of the files
    #[arg(value_enum, hide_possible_values = true)]
    action: Action,
    /// Binaries or debug files, each with a build id
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The store: pyroscope+http://HOST:4040 (also of `flamelet collect`) or parca+http://HOST:7070
    #[arg(long, value_name = "URL")]
    to: String,
    /// Pyroscope's tenant (the header X-Scope-OrgID)
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    fetch: FetchArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    Push,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Send the symbols of a build to Pyroscope or Parca",
        examples: &[
            (
                "flamelet symbols push target/release/checkout --to parca+http://localhost:7070",
                "a program with its debug information, to Parca",
            ),
            (
                "flamelet symbols push checkout.debug --to pyroscope+http://localhost:4040",
                "a debug file, to Pyroscope",
            ),
        ],
        ..Guide::default()
    }
}

/// A store that takes files.
struct SymbolStore {
    protocol: Protocol,
    server: String,
    options: FetchOptions,
}

/// Sends each file, unless the store has it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Action::Push = args.action;
    let (protocol, server) = Protocol::of(&args.to)?;
    if protocol == Protocol::Otlp {
        return Err(Failure::new(format!("{}: OTLP cannot carry symbols", args.to)));
    }
    let mut options = args.fetch.options();
    options.headers.extend(args.tenant.iter().map(|tenant| format!("X-Scope-OrgID: {tenant}")));
    let store = SymbolStore { protocol, server: server.trim_end_matches('/').to_owned(), options };
    args.files.iter().try_for_each(|path| store.push(path).about(path.display()))
}

impl SymbolStore {
    fn push(&self, path: &Path) -> Result<()> {
        let mut file = File::open(path)?;
        let about = describe(path, &mut file)?;
        let answer = self.call(symbols::should_upload(self.protocol, &about)?)?;
        let (is_wanted, reason) = symbols::wants(self.protocol, &answer.body)?;
        if !is_wanted {
            note!("{}: not sent: {reason}", path.display());
            return Ok(());
        }
        file.seek(SeekFrom::Start(0))?;
        let id = if self.protocol == Protocol::Parca {
            self.upload_to_parca(&about, file)?
        } else {
            let url = format!("{}{}", self.server, symbols::upload_path(self.protocol, &about));
            self.checked(
                &url,
                fetch::send_file(&url, "POST", "application/octet-stream", file, &self.options)?,
            )?;
            String::new()
        };
        self.call(symbols::finish(self.protocol, &about, &id)?)?;
        note!("Sent {} with the build id {}", path.display(), about.build_id);
        Ok(())
    }

    /// Sends a file as Parca wants it, and returns the id of the upload.
    fn upload_to_parca(&self, about: &DebugFile, file: File) -> Result<String> {
        match symbols::begun(&self.call(symbols::begin(about)?)?.body)? {
            Upload::Here(id) => {
                let mut framed = tempfile::tempfile()?;
                symbols::write_chunks(about, &id, BufReader::new(file), BufWriter::new(&mut framed))?;
                framed.seek(SeekFrom::Start(0))?;
                let url = format!("{}{}", self.server, symbols::upload_path(self.protocol, about));
                let kind = "application/grpc-web+proto";
                self.checked(&url, fetch::send_file(&url, "POST", kind, framed, &self.options)?)?;
                Ok(id)
            }
            Upload::To(url, id) => {
                // The bucket must not get the token.
                let options = FetchOptions { headers: Vec::new(), ..self.options.clone() };
                let answer = fetch::send_file(&url, "PUT", "application/octet-stream", file, &options)?;
                if !(200..300).contains(&answer.status) {
                    return Err(Failure::new(format!("the bucket answered {}", answer.status)));
                }
                Ok(id)
            }
        }
    }

    fn call(&self, (path, body): UploadRequest) -> Result<Answer> {
        let url = format!("{}{path}", self.server);
        let answer = fetch::post(&url, self.protocol.headers(), &body, &self.options)?;
        self.checked(&url, answer)
    }

    fn checked(&self, url: &str, answer: Answer) -> Result<Answer> {
        match judge(self.protocol, &answer) {
            Verdict::Accepted => Ok(answer),
            Verdict::Later(why, _) | Verdict::TooOld(why) | Verdict::Refused(why) => {
                Err(Failure::new(format!("{url}: the server answered with {why}")))
            }
        }
    }
}

/// Reads what stores want to know about a file.
fn describe(path: &Path, file: &mut File) -> Result<DebugFile> {
    // Its errors name the file, as the caller does.
    let own_words = |error: flamelet_symbol::Error| {
        let (text, name) = (error.to_string(), format!("{}: ", path.display()));
        Failure::new(text.strip_prefix(&name).unwrap_or(&text))
    };
    let build_id = flamelet_symbol::buildid::of_file(path).map_err(own_words)?;
    let missing = || Failure::new("the file has no build id; link with -Wl,--build-id");
    let build_id = build_id.ok_or_else(missing)?.to_string();
    let (mut hash, mut size, mut buffer) = (0xcbf2_9ce4_8422_2325u64, 0u64, vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        size += count as u64;
        hash = buffer[..count]
            .iter()
            .fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(DebugFile { build_id, name, size, hash: format!("{hash:016x}") })
}
