//! Pyroscope's `push.v1.PusherService/Push`.

use flamelet_profile::Result;
use flamelet_profile::protobuf::Fields;

use super::series::{
    MAX_LABELS, MAX_PROFILES, MAX_SERIES, PushedProfile, PushedSeries, add, json, labels_json, list, pair,
    profiles_json, utf8,
};
use crate::querier::Codec;

/// Reads the body of a `push.v1.PusherService/Push`.
pub fn push(codec: Codec, body: &[u8]) -> Result<Vec<PushedSeries>> {
    match codec {
        Codec::Proto => push_proto(body),
        Codec::Json => push_json(body),
    }
}

fn push_proto(body: &[u8]) -> Result<Vec<PushedSeries>> {
    let mut all = Vec::new();
    let mut fields = Fields::new(body);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            add(&mut all, series_proto(value.bytes()?)?, MAX_SERIES, "series")?;
        }
    }
    Ok(all)
}

fn series_proto(message: &[u8]) -> Result<PushedSeries> {
    let mut series = PushedSeries::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => add(&mut series.labels, pair(value.bytes()?)?, MAX_LABELS, "labels of a series")?,
            2 => {
                let profile = profile_proto(value.bytes()?)?;
                add(&mut series.profiles, profile, MAX_PROFILES, "profiles of a series")?;
            }
            _ => {}
        }
    }
    Ok(series)
}

fn profile_proto(message: &[u8]) -> Result<PushedProfile> {
    let mut profile = PushedProfile::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => profile.raw = value.bytes()?.to_vec(),
            2 => profile.id = utf8(value.bytes()?)?,
            _ => {}
        }
    }
    Ok(profile)
}

fn push_json(body: &[u8]) -> Result<Vec<PushedSeries>> {
    let mut all = Vec::new();
    for series in list(&json(body)?, "series")? {
        let series = PushedSeries { labels: labels_json(series)?, profiles: profiles_json(series)? };
        add(&mut all, series, MAX_SERIES, "series")?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

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
}
