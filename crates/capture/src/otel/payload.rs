//! The message `ProcessContext` of OpenTelemetry's protocol.

use flamelet_profile::protobuf::MessageWriter;

/// Encodes the context of a process: the attributes of its resource and, unless `key_map` is empty, what readers need to
/// know about the records of threads.
pub(super) fn encode(resource: &[(&str, &str)], schema: &str, key_map: &[&str]) -> Vec<u8> {
    let mut context = MessageWriter::default();
    context.message(1, |attributes| {
        for (key, value) in resource {
            key_value(attributes, 1, key, |any| text_value(any, value));
        }
    });
    if !key_map.is_empty() {
        key_value(&mut context, 2, "threadlocal.schema_version", |any| text_value(any, schema));
        key_value(&mut context, 2, "threadlocal.attribute_key_map", |any| {
            any.message(5, |array| {
                key_map.iter().for_each(|key| array.message(1, |any| text_value(any, key)));
            });
        });
    }
    context.into_bytes()
}

/// Writes a `KeyValue`, whose value is an `AnyValue`.
fn key_value(message: &mut MessageWriter, number: u32, key: &str, value: impl FnOnce(&mut MessageWriter)) {
    message.message(number, |pair| {
        pair.bytes(1, key.as_bytes());
        pair.message(2, value);
    });
}

/// Fills in an `AnyValue` that is text.
fn text_value(any: &mut MessageWriter, text: &str) {
    any.bytes(1, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::encode;

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
}
