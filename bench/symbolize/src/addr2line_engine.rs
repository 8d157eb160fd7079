//! The addr2line crate.

use addr2line::Loader;

use crate::{Engine, Found};

pub struct Addr2line(Loader);

impl Addr2line {
    pub fn open(binary: &str) -> Self {
        Self(Loader::new(binary).expect("a readable binary"))
    }
}

impl Engine for Addr2line {
    fn pass(&mut self, addresses: &[u64]) -> Found {
        let mut found = Found::default();
        for address in addresses {
            let before = found.frames;
            let Ok(mut frames) = self.0.find_frames(*address) else { continue };
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|function| function.demangle().ok());
                let place = frame.location.as_ref();
                let file = place.and_then(|place| place.file).unwrap_or_default();
                found.frame(
                    name.as_deref().unwrap_or_default(),
                    file,
                    place.and_then(|place| place.line).unwrap_or(0),
                );
            }
            found.named += usize::from(found.frames > before);
        }
        found
    }
}
