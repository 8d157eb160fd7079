//! The message `ProcessContext` of OpenTelemetry's protocol.

/// Encodes the context of a process: the attributes of its resource and, unless `key_map` is empty, what readers need to know about
/// the records of threads.
pub(super) fn encode(resource: &[(&str, &str)], schema: &str, key_map: &[&str]) -> Vec<u8> {
    let mut attributes = Vec::new();
    for (key, value) in resource {
        field(&mut attributes, 1, &key_value(key, &text_value(value)));
    }
    let mut context = Vec::new();
    field(&mut context, 1, &attributes);
    if !key_map.is_empty() {
        let mut keys = Vec::new();
        key_map.iter().for_each(|key| field(&mut keys, 1, &text_value(key)));
        let mut array = Vec::new();
        field(&mut array, 5, &keys);
        field(&mut context, 2, &key_value("threadlocal.schema_version", &text_value(schema)));
        field(&mut context, 2, &key_value("threadlocal.attribute_key_map", &array));
    }
    context
}

/// A `KeyValue`.
fn key_value(key: &str, value: &[u8]) -> Vec<u8> {
    let mut pair = Vec::new();
    field(&mut pair, 1, key.as_bytes());
    field(&mut pair, 2, value);
    pair
}

/// An `AnyValue` that is text.
fn text_value(text: &str) -> Vec<u8> {
    let mut value = Vec::new();
    field(&mut value, 1, text.as_bytes());
    value
}

/// Appends a field that is a text or a message.
fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    const LENGTH_DELIMITED: u8 = 2;
    out.push(number << 3 | LENGTH_DELIMITED);
    let mut length = content.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_encoded_as_the_schema_says() {
        let encoded = encode(&[("service.name", "shop")], "v1", &["route"]);
        let mut expected = b"\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop".to_vec();
        expected.extend(b"\x12\x22\x0a\x1athreadlocal.schema_version\x12\x04\x0a\x02v1");
        expected
            .extend(b"\x12\x2c\x0a\x1dthreadlocal.attribute_key_map\x12\x0b\x2a\x09\x0a\x07\x0a\x05route");
        assert_eq!(encoded, expected, "{encoded:02x?}");
        assert_eq!(encode(&[], "v1", &[]), b"\x0a\x00");
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut out = Vec::new();
        field(&mut out, 1, &[7; 300]);
        assert_eq!((&out[..3], out.len()), (&b"\x0a\xac\x02"[..], 303));
    }
}
