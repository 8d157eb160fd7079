//! A writer of pprof files, written from profile.proto alone.

/// A protobuf message under construction.
#[derive(Debug, Default, Clone)]
pub struct Message(Vec<u8>);

impl Message {
    /// The encoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A varint field; zero is left out, as proto3 does.
    pub fn varint(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.raw_varint(field << 3);
            self.raw_varint(value);
        }
        self
    }

    /// A signed field (`int64`).
    pub fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.varint(field, value as u64)
    }

    /// A string, bytes or message field, present even when empty.
    pub fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.raw_varint(field << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A message field.
    pub fn message(&mut self, field: u64, message: &Message) -> &mut Self {
        self.bytes(field, &message.0)
    }

    /// A repeated varint field, packed.
    pub fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) -> &mut Self {
        let mut inner = Message::default();
        values.into_iter().for_each(|value| inner.raw_varint(value));
        self.message(field, &inner)
    }

    /// A varint without a field number.
    pub fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// One label of a sample.
#[derive(Debug, Clone, Copy)]
pub enum Label<'a> {
    /// `key: text`
    Text(&'a str, &'a str),
    /// `key: number unit`
    Number(&'a str, i64, &'a str),
}

/// A pprof file under construction. Ids count from one in the order of the calls.
#[derive(Debug)]
pub struct ProfileFile {
    message: Message,
    strings: Vec<String>,
    mappings: u64,
    locations: u64,
    functions: u64,
}

impl ProfileFile {
    /// A profile with these sample types, each a name and a unit.
    pub fn new(sample_types: &[(&str, &str)]) -> Self {
        let mut file = Self {
            message: Message::default(),
            strings: vec![String::new()],
            mappings: 0,
            locations: 0,
            functions: 0,
        };
        for (name, unit) in sample_types {
            let value_type = file.value_type(name, unit);
            file.message.message(1, &value_type);
        }
        file
    }

    /// The index of a string.
    pub fn string(&mut self, text: &str) -> u64 {
        let found = self.strings.iter().position(|known| known == text);
        found.unwrap_or_else(|| {
            self.strings.push(text.to_owned());
            self.strings.len() - 1
        }) as u64
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let (name, unit) = (self.string(name), self.string(unit));
        let mut message = Message::default();
        message.varint(1, name).varint(2, unit);
        message
    }

    /// A mapping that says its functions, files, lines and inlined frames are known.
    pub fn mapping(&mut self, start: u64, limit: u64, offset: u64, file: &str, build_id: &str) -> u64 {
        self.mappings += 1;
        let (file, build_id) = (self.string(file), self.string(build_id));
        let mut message = Message::default();
        message.varint(1, self.mappings).varint(2, start).varint(3, limit).varint(4, offset);
        message.varint(5, file).varint(6, build_id);
        for flag in 7..=10 {
            message.varint(flag, 1);
        }
        self.message.message(3, &message);
        self.mappings
    }

    /// A function; `system` is the mangled name.
    pub fn function(&mut self, name: &str, system: &str, file: &str, start_line: i64) -> u64 {
        self.functions += 1;
        let (name, system, file) = (self.string(name), self.string(system), self.string(file));
        let mut message = Message::default();
        message.varint(1, self.functions).varint(2, name).varint(3, system).varint(4, file);
        message.int(5, start_line);
        self.message.message(5, &message);
        self.functions
    }

    /// A location; `lines` are (function, line, column), the innermost inlined frame first.
    pub fn location(&mut self, mapping: u64, address: u64, lines: &[(u64, i64, i64)]) -> u64 {
        self.locations += 1;
        let mut message = Message::default();
        message.varint(1, self.locations).varint(2, mapping).varint(3, address);
        for (function, line, column) in lines {
            let mut inner = Message::default();
            inner.varint(1, *function).int(2, *line).int(3, *column);
            message.message(4, &inner);
        }
        self.message.message(4, &message);
        self.locations
    }

    /// A sample; the leaf's location comes first.
    pub fn sample(&mut self, locations: &[u64], values: &[i64], labels: &[Label<'_>]) {
        let mut message = Message::default();
        message.packed(1, locations.iter().copied());
        message.packed(2, values.iter().map(|value| *value as u64));
        for label in labels {
            let mut inner = Message::default();
            match *label {
                Label::Text(key, text) => inner.varint(1, self.string(key)).varint(2, self.string(text)),
                Label::Number(key, number, unit) => {
                    inner.varint(1, self.string(key)).int(3, number).varint(4, self.string(unit))
                }
            };
            message.message(3, &inner);
        }
        self.message.message(2, &message);
    }

    /// `period_type` and `period`.
    pub fn period(&mut self, name: &str, unit: &str, period: i64) {
        let value_type = self.value_type(name, unit);
        self.message.message(11, &value_type).int(12, period);
    }

    /// `time_nanos` and `duration_nanos`.
    pub fn time(&mut self, time: i64, duration: i64) {
        self.message.int(9, time).int(10, duration);
    }

    /// A comment line.
    pub fn comment(&mut self, text: &str) {
        let text = self.string(text);
        self.message.packed(13, [text]);
    }

    /// The sample type that reports begin with.
    pub fn default_sample_type(&mut self, name: &str) {
        let name = self.string(name);
        self.message.varint(14, name);
    }

    /// Where the profile's fields are explained.
    pub fn doc_url(&mut self, url: &str) {
        let url = self.string(url);
        self.message.varint(15, url);
    }

    /// `drop_frames` and `keep_frames`.
    pub fn frames(&mut self, drop: &str, keep: &str) {
        let (drop, keep) = (self.string(drop), self.string(keep));
        self.message.varint(7, drop).varint(8, keep);
    }

    /// The file, uncompressed. The string table comes last, which profile.proto allows.
    pub fn into_bytes(mut self) -> Vec<u8> {
        for text in &self.strings {
            self.message.bytes(6, text.as_bytes());
        }
        self.message.into_bytes()
    }

    /// The file as pprof writes it.
    pub fn into_gzip(self) -> Vec<u8> {
        gzip(&self.into_bytes())
    }
}

/// Compresses as `gzip` does.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("writing into memory");
    encoder.finish().expect("writing into memory")
}

/// The content of a gzip file.
pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("a gzip file of our own");
    plain
}
