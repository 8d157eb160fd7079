//! Thread profiles: what every thread was doing at one moment.

use flamelet_profile::Result;

use super::{LineReader, TextProfile};
use crate::Notes;
use crate::input::LineResult;
use crate::number::{prefixed_hex, words};

#[derive(Default)]
pub(super) struct Threads {
    started: bool,
    name: String,
    frames: Vec<u64>,
    /// The thread has the same stack as the previous one.
    same: bool,
    last: Vec<u64>,
    open: bool,
}

impl LineReader for Threads {
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        if !std::mem::replace(&mut self.started, true) {
            text.assembly.column("thread", "count");
        }
        if line.starts_with(b"--- Thread ") {
            self.close(text);
            self.open = true;
            self.name = thread_name(&String::from_utf8_lossy(line));
            return Ok(());
        }
        // `[same as previous thread]`, or with dashes around it.
        if self.open && memchr::memmem::find(line, b"same as previous thread").is_some() {
            self.same = true;
            return Ok(());
        }
        if line.starts_with(b"---") || line.is_empty() || !self.open {
            return Ok(());
        }
        if line.starts_with(b"creator:") {
            return Ok(());
        }
        // The program counter is exact; the others are return addresses, so subtracting 1 gives an address inside the
        // call. There may be names and states beside them.
        let addresses = words(line).filter_map(|word| prefixed_hex(word.strip_suffix(b":").unwrap_or(word)));
        for address in addresses {
            self.frames.push(address.saturating_sub(u64::from(!self.frames.is_empty())));
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut TextProfile, notes: &mut Notes) -> Result<()> {
        self.close(text);
        if text.samples.len() == 0 {
            notes.push("the profile has no threads".into());
        }
        Ok(())
    }
}

impl Threads {
    fn close(&mut self, text: &mut TextProfile) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        if std::mem::take(&mut self.same) {
            self.frames.clone_from(&self.last);
        }
        let mut labels = Vec::new();
        if !self.name.is_empty() {
            labels.push(text.assembly.builder.text_label("thread", &self.name));
        }
        if !self.frames.is_empty() {
            text.samples.push(self.frames.iter().copied(), labels, vec![1]);
        }
        self.last = std::mem::take(&mut self.frames);
    }
}

/// Returns the name in `--- Thread 7f794ab90940 (name: main/14748) stack: ---`, which is `main/14748`.
fn thread_name(line: &str) -> String {
    let name = line.split_once("(name: ").and_then(|(_, rest)| rest.split_once(')'));
    name.map_or("", |(name, _)| name).to_owned()
}
