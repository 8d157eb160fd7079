//! The file with modules: text, a line for each, appended as they are loaded.
//!
//! ```text
//! program /usr/bin/sort
//! arguments sort -u names.txt
//! module 0 55d0c0000000 55d0c0012000 3000 1f2e… /usr/bin/sort
//! ```
//!
//! A module's line has the number of its era, its first address and one past its last, the offset in the file,
//! the build id (`-` when there is none) and the path. In one era no two modules are at one place; its lines list
//! everything that was loaded in it.

/// What the file contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules {
    /// The program.
    pub program: String,
    /// The program and its arguments, as given when it was started.
    pub arguments: String,
    /// In the order in which they were loaded.
    pub modules: Vec<ModuleLine>,
}

/// A range of addresses with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLine {
    /// The era in which it was loaded.
    pub era: u32,
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The offset in the file of the byte at `start`.
    pub file_offset: u64,
    /// In hexadecimal; empty when there is none.
    pub build_id: String,
    /// The file.
    pub path: String,
}

impl ModuleLine {
    /// Returns the line of this module.
    pub fn line(&self) -> String {
        let id = if self.build_id.is_empty() { "-" } else { &self.build_id };
        let path = one_line(&self.path);
        format!("module {} {:x} {:x} {:x} {id} {path}\n", self.era, self.start, self.end, self.file_offset)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let era = words.next()?.parse().ok()?;
        let mut address = || u64::from_str_radix(words.next()?, 16).ok();
        let (start, end, file_offset) = (address()?, address()?, address()?);
        let build_id = words.next()?.trim_matches('-').to_owned();
        let path = words.next()?.to_owned();
        (start < end).then_some(Self { era, start, end, file_offset, build_id, path })
    }
}

/// Returns the lines before the modules.
pub fn first_lines(program: &str, arguments: &str) -> String {
    format!("program {}\narguments {}\n", one_line(program), one_line(arguments))
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\0'], " ")
}

impl Modules {
    /// Reads the text. Lines that make no sense, such as one that a kill cut short, are skipped.
    pub fn parse(text: &str) -> Self {
        let mut modules = Self::default();
        // A line without an end was not written completely.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            match line.split_once(' ') {
                Some(("program", path)) => path.clone_into(&mut modules.program),
                Some(("arguments", arguments)) => arguments.clone_into(&mut modules.arguments),
                Some(("module", rest)) => modules.modules.extend(ModuleLine::parse(rest)),
                _ => {}
            }
        }
        modules
    }

    /// Returns the module that `address` was in, in `era`; otherwise the last one that it was in before.
    pub fn find(&self, address: u64, era: u32) -> Option<usize> {
        let holds = |module: &ModuleLine| (module.start..module.end).contains(&address);
        let then = self.modules.iter().rposition(|module| module.era == era && holds(module));
        then.or_else(|| self.modules.iter().rposition(|module| module.era < era && holds(module)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(era: u32, start: u64, path: &str) -> ModuleLine {
        let build_id = if era == 0 { String::new() } else { "ab01".to_owned() };
        ModuleLine { era, start, end: start + 0x1000, file_offset: 0x20, build_id, path: path.to_owned() }
    }

    #[test]
    fn what_is_written_is_read() {
        let loaded = [
            module(0, 0x1000, "/bin/a b"),
            module(1, 0x5000, "/lib/one.so"),
            module(2, 0x5000, "/two"),
            // An earlier era may return.
            module(1, 0x8000, "/lib/late.so"),
        ];
        let lines: String = loaded.iter().map(ModuleLine::line).collect();
        let text = first_lines("/bin/a b", "a b\nc") + &lines + "module 3 70";
        let read = Modules::parse(&text);
        assert_eq!((read.program.as_str(), read.arguments.as_str()), ("/bin/a b", "a b c"));
        assert_eq!(read.modules, loaded);
        assert_eq!(read.find(0x5010, 1), Some(1));
        assert_eq!(read.find(0x5010, 2), Some(2), "loaded where another had been");
        assert_eq!([read.find(0x8010, 1), read.find(0x8010, 2)], [Some(3); 2]);
        assert_eq!([read.find(0x5010, 0), read.find(0x2000, 9)], [None, None]);
    }
}
