//! Parca's `WriteRaw`.

use flamelet_profile::protobuf::Fields;
use flamelet_profile::{Budget, Result};

use super::series::{PushedProfile, PushedSeries, RequestLayout, add_label, copy};
use crate::querier::Codec;

/// The paths of the JSON gateway: Parca's, and the same without the part that Parca's server adds.
pub const GATEWAY_PATHS: [&str; 2] = ["/api/profiles/writeraw", "/profiles/writeraw"];

const LAYOUT: RequestLayout =
    RequestLayout { series: 2, add_labels, profile: raw_sample, json_labels: |series| &series["labels"] };

/// Reads a `WriteRawRequest`, and charges what it keeps to `budget`.
pub fn write_raw(codec: Codec, body: &[u8], budget: &Budget) -> Result<Vec<PushedSeries>> {
    LAYOUT.read(codec, body, budget)
}

/// Returns the name of the service of a series: Parca has no label of its own for it, and `job` of Prometheus is what
/// its configurations set.
pub fn service_of(series: &PushedSeries) -> Option<&str> {
    let value = |name: &str| series.label(name).filter(|value| !value.is_empty());
    value("service_name").or_else(|| value("job"))
}

/// Reads a `LabelSet`.
fn add_labels(message: &[u8], labels: &mut Vec<(String, String)>, budget: &Budget) -> Result<()> {
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            add_label(value.bytes()?, labels, budget)?;
        }
    }
    Ok(())
}

/// Reads a `RawSample`.
fn raw_sample(message: &[u8], budget: &Budget) -> Result<PushedProfile> {
    let mut raw: &[u8] = &[];
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            raw = value.bytes()?;
        }
    }
    Ok(PushedProfile { id: String::new(), raw: copy(raw, budget)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::{Protocol, Series};
    use flamelet_profile::{ErrorKind, Limits, ProfileBuilder};

    fn write_raw(codec: Codec, body: &[u8]) -> Result<Vec<PushedSeries>> {
        super::write_raw(codec, body, &Budget::new(Limits::SERVICE))
    }

    #[test]
    fn what_push_writes_is_read() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        builder.header_mut().time_nanos = 5;
        let labels = [("region".to_owned(), "eu".to_owned())];
        let series = Series { name: "process_cpu", service: "shop", labels: &labels };
        let body = Protocol::Parca.bodies(&builder.finish(), &series).expect("written").remove(0);
        // After the head of the frame.
        let read = write_raw(Codec::Proto, &body[5..]).expect("read");
        let [series] = &read[..] else { panic!("one series: {read:?}") };
        let pairs: Vec<String> =
            series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["__name__=process_cpu", "job=shop", "region=eu", "service_name=shop"]);
        assert_eq!(series.profiles[0].raw[..2], [0x1f, 0x8b]);
    }

    #[test]
    fn the_gateway_takes_json() {
        let json = br#"{"tenant":"","series":[{"labels":{"labels":[{"name":"job","value":"shop"}]},
            "samples":[{"rawProfile":"aGVsbG8="}]}],"normalized":false}"#;
        let read = write_raw(Codec::Json, json).expect("read");
        assert_eq!(service_of(&read[0]), Some("shop"));
        assert_eq!(read[0].profiles[0].raw, b"hello");
        assert_eq!(service_of(&PushedSeries::default()), None);
    }

    #[test]
    fn damaged_writes_are_refused() {
        for body in [&b"\x12\xff"[..], b"\x12\x07\x0a\x05\x0a\x03\x0a\x01\xff", b"\xff"] {
            assert!(write_raw(Codec::Proto, body).is_err(), "{body:?}");
        }
        for body in ["", "[", r#"{"series":1}"#, r#"{"series":[{"labels":{"labels":1}}]}"#] {
            assert!(write_raw(Codec::Json, body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn labels_and_profiles_without_content_are_charged() {
        let series = |content: &[u8]| {
            let length = content.len() as u32;
            [&[0x12, length as u8 | 0x80, (length >> 7) as u8][..], content].concat()
        };
        let labels = [&[0x0a, 0x80 | 80, 15][..], &[0x0a, 0].repeat(1000)].concat();
        for content in [labels, [0x12, 0].repeat(2000)] {
            assert!(write_raw(Codec::Proto, &series(&content).repeat(50)).is_ok());
            let error = write_raw(Codec::Proto, &series(&content).repeat(5000)).expect_err("10 MB");
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        }
    }
}
