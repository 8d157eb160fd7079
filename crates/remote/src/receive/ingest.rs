//! The parameters of Pyroscope's older `/ingest`.

use flamelet_profile::{Error, Result, moment};

/// The path of the older receiver.
pub const INGEST_PATH: &str = "/ingest";

const SECOND: i64 = 1_000_000_000;

/// What the parameters of `/ingest` say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingest {
    /// The name of the application, without the labels in braces.
    pub service: String,
    /// The labels in braces after the name.
    pub labels: Vec<(String, String)>,
    /// The start, in nanoseconds since 1970.
    pub from: Option<i64>,
    /// The end.
    pub until: Option<i64>,
    /// `pprof`, `folded`, `jfr`, …; empty if the sender does not say.
    pub format: String,
    /// `samples`, `bytes`, `objects`, …; empty if the sender does not say.
    pub units: String,
    /// Samples a second; 100 if the sender does not say.
    pub sample_rate: i64,
}

impl Ingest {
    /// Reads the parameters; `now` is in nanoseconds since 1970.
    pub fn read(parameters: &[(String, String)], now: i64) -> Result<Self> {
        let find = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| &**value);
        let name = find("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::invalid("the parameter name is missing"))?;
        let (service, labels) = name_and_labels(name)?;
        let time = |name: &str| find(name).map(|text| ingest_time(text, now)).transpose();
        let rate = find("sampleRate").map_or(Ok(100), str::parse);
        let sample_rate = rate.ok().filter(|rate| (1..=SECOND).contains(rate));
        Ok(Self {
            service,
            labels,
            from: time("from")?,
            until: time("until")?,
            format: find("format").unwrap_or_default().to_owned(),
            units: find("units").unwrap_or_default().to_owned(),
            sample_rate: sample_rate
                .ok_or_else(|| Error::invalid("sampleRate is not a number of samples a second"))?,
        })
    }
}

/// Senders write seconds, milliseconds, microseconds or nanoseconds; their size says which.
fn ingest_time(text: &str, now: i64) -> Result<i64> {
    let Ok(number) = text.parse::<i64>() else { return moment::parse(text, now) };
    // Of a time in this century.
    let units =
        [(100_000_000_000, SECOND), (100_000_000_000_000, 1_000_000), (100_000_000_000_000_000, 1000)];
    let scale = units.into_iter().find(|&(limit, _)| number < limit).map_or(1, |(_, scale)| scale);
    Ok(number.saturating_mul(scale))
}

/// Splits `app.cpu{region=eu,version="2"}`. The ending `.cpu` and the like belong to the name, as in Pyroscope.
fn name_and_labels(text: &str) -> Result<(String, Vec<(String, String)>)> {
    let Some((name, rest)) = text.split_once('{') else { return Ok((text.trim().to_owned(), Vec::new())) };
    let inner = rest.strip_suffix('}').ok_or_else(|| Error::invalid("name: the closing brace is missing"))?;
    let mut labels = Vec::new();
    for part in inner.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| Error::invalid("name: a label is not written as key=value"))?;
        labels.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
    }
    Ok((name.trim().to_owned(), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingest_reads_its_parameters() {
        let parameters = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split('&').filter_map(|part| part.split_once(':'));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let all = "name:shop.cpu{region=eu,version=\"2\"}&from:1700000000&until:1700000010000&format:folded&sampleRate:99";
        let read = Ingest::read(&parameters(all), 0).expect("read");
        assert_eq!((&*read.service, &*read.format, read.sample_rate), ("shop.cpu", "folded", 99));
        assert_eq!((read.from, read.until), (Some(1_700_000_000 * SECOND), Some(1_700_000_010 * SECOND)));
        assert_eq!(read.labels, [("region".into(), "eu".into()), ("version".into(), "2".into())]);
        for bad in [
            "format:pprof",
            "name:a{b",
            "name:a{b}",
            "name:a&from:soon",
            "name:a&sampleRate:0",
            "name:a&sampleRate:x",
        ] {
            assert!(Ingest::read(&parameters(bad), 0).is_err(), "{bad}");
        }
    }
}
