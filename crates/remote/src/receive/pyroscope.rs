//! Pyroscope's `push.v1.PusherService/Push`.

use flamelet_profile::protobuf::Fields;
use flamelet_profile::{Budget, Result};

use super::series::{PushedProfile, PushedSeries, RequestLayout, add_label, copy, utf8};
use crate::querier::Codec;

const LAYOUT: RequestLayout =
    RequestLayout { series: 1, add_labels: add_label, profile: raw_sample, json_labels: |series| series };

/// Reads the body of a `push.v1.PusherService/Push`, and charges what it keeps to `budget`.
pub fn push(codec: Codec, body: &[u8], budget: &Budget) -> Result<Vec<PushedSeries>> {
    LAYOUT.read(codec, body, budget)
}

/// Reads a `RawSample`.
fn raw_sample(message: &[u8], budget: &Budget) -> Result<PushedProfile> {
    let mut profile = PushedProfile::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => profile.raw = copy(value.bytes()?, budget)?,
            2 => profile.id = utf8(value.bytes()?, budget)?,
            _ => {}
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{ErrorKind, Limits, ProfileBuilder};

    fn push(codec: Codec, body: &[u8]) -> Result<Vec<PushedSeries>> {
        super::push(codec, body, &Budget::new(Limits::SERVICE))
    }

    #[test]
    fn what_push_writes_is_read_in_both_codecs() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        builder.header_mut().time_nanos = 5;
        let labels = [("region".to_owned(), "eu".to_owned())];
        let series = crate::push::Series { name: "process_cpu", service: "shop", labels: &labels };
        let body =
            crate::push::Protocol::Pyroscope.bodies(&builder.finish(), &series).expect("written").remove(0);
        let read = push(Codec::Proto, &body).expect("read");
        let [series] = &read[..] else { panic!("one series: {read:?}") };
        let pairs: Vec<String> =
            series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["__delta__=false", "__name__=process_cpu", "region=eu", "service_name=shop"]);
        assert_eq!(series.profiles[0].raw[..2], [0x1f, 0x8b]);

        let json = br#"{"series":[{"labels":[{"name":"service_name","value":"shop"}],
            "samples":[{"rawProfile":"aGVsbG8=","ID":"7"}]}]}"#;
        let read = push(Codec::Json, json).expect("read");
        assert_eq!(read[0].profiles, [PushedProfile { id: "7".into(), raw: b"hello".to_vec() }]);
    }

    #[test]
    fn damaged_pushes_are_refused() {
        for body in [&b"\x0a\xff"[..], b"\x0a\x05\x0a\x03\x0a\x01\xff", b"\xff"] {
            assert!(push(Codec::Proto, body).is_err(), "{body:?}");
        }
        for body in ["", "[", r#"{"series":1}"#, r#"{"series":[{"samples":[{"rawProfile":"!"}]}]}"#] {
            assert!(push(Codec::Json, body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn labels_without_text_are_charged() {
        // 2 MB for each million of labels, which take 48 MB or more.
        let series = |labels: usize| {
            let labels = [0x0a, 0].repeat(labels);
            let length = labels.len() as u32;
            [&[0x0a, length as u8 | 0x80, (length >> 7) as u8][..], &labels].concat()
        };
        let body = |count: usize| series(1000).repeat(count);
        assert_eq!(push(Codec::Proto, &body(100)).expect("fits").len(), 100);
        let error = push(Codec::Proto, &body(5000)).expect_err("10 MB of labels");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let error = push(Codec::Proto, &series(1001)).expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}
