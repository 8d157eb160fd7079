//! blazesym.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use crate::{Engine, Found};

pub struct Blazesym {
    symbolizer: Symbolizer,
    source: Source<'static>,
}

impl Blazesym {
    pub fn open(binary: &str) -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(true)
            .build();
        Self { symbolizer, source: Source::Elf(Elf::new(binary)) }
    }
}

impl Engine for Blazesym {
    fn pass(&mut self, addresses: &[u64]) -> Found {
        let input = Input::VirtOffset(addresses);
        let answers = self.symbolizer.symbolize(&self.source, input).expect("a readable binary");
        let mut found = Found::default();
        for answer in &answers {
            let Symbolized::Sym(symbol) = answer else { continue };
            found.named += 1;
            frame(&mut found, &symbol.name, symbol.code_info.as_deref());
            for inlined in &*symbol.inlined {
                frame(&mut found, &inlined.name, inlined.code_info.as_ref());
            }
        }
        found
    }
}

fn frame(found: &mut Found, name: &str, place: Option<&CodeInfo<'_>>) {
    let file = place.map(|place| place.to_path().display().to_string()).unwrap_or_default();
    found.frame(name, &file, place.and_then(|place| place.line).unwrap_or(0));
}
