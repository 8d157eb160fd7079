//! The store of a collector as Pyroscope's query calls see it.

use std::collections::{BTreeSet, HashMap};

use flamelet_profile::{Budget, Limits, Profile, Result};
use flamelet_remote::querier::{EachLabels, EachTotal, Keep, Measured, Source, Span};

use crate::block::BlockTables;
use crate::query::{Measures, Query};
use crate::reader::Reader;
use crate::series::{Labels, SERVICE, SPAN, Series, TRACE};

const MILLISECOND: i64 = 1_000_000;

/// What a call may take: 512 MiB.
const CALL: Limits = Limits::of_memory(512 << 20);

/// All services, or one.
pub(crate) struct Fleet {
    pub(crate) reader: Reader,
    pub(crate) service: Option<String>,
}

impl Fleet {
    fn query<'a>(&'a self, source_name: &'a str, span: Span) -> Query<'a> {
        let mut parts = source_name.splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        Query {
            service: self.service.as_deref(),
            name,
            period: parts.next().zip(parts.next()),
            from: span.from.saturating_mul(MILLISECOND),
            to: span.to.saturating_mul(MILLISECOND),
            keep: None,
            select: None,
        }
    }
}

/// Returns the labels of a series, with the name of its service.
fn labels_of(series: &Series) -> Vec<(&str, &str)> {
    let own = std::iter::once((SERVICE, &*series.service));
    own.chain(series.labels.iter().map(|(name, value)| (&**name, &**value))).collect()
}

impl Source for Fleet {
    fn service(&self) -> &str {
        self.service.as_deref().unwrap_or_default()
    }

    fn only(&self, service: &str) -> Option<Box<dyn Source + '_>> {
        let is_new = self.service.is_none();
        is_new.then(|| Box::new(Self { reader: self.reader.clone(), service: Some(service.to_owned()) }) as _)
    }

    fn measured(&self, span: Span) -> Result<Vec<Measured>> {
        let found = self.reader.measured(&self.query("", span), &Budget::new(CALL))?;
        let measured = found.map(|(name, Measures { values, period })| Measured {
            // Profiles of this name with another period have another type.
            source_name: [&*name, &*period.0, &*period.1].join(":"),
            name,
            values,
            period,
        });
        Ok(measured.collect())
    }

    fn profile(&self, source_name: &str, span: Span, keep: &Keep<'_>) -> Result<Option<Profile>> {
        let keep = |labels: &[(&str, &str)]| keep(labels);
        let query = Query { keep: Some(&keep), ..self.query(source_name, span) };
        Ok(self.reader.profile(&query, &Budget::new(CALL))?.0)
    }

    fn totals(&self, source_name: &str, span: Span, each: &mut EachTotal<'_>) -> Result<()> {
        let budget = Budget::new(CALL);
        let query = self.query(source_name, span);
        let mut parts = self.reader.parts(&query, &budget)?;
        let Some(measures) = parts.measures(&query) else { return Ok(()) };
        parts.each(&query, &budget, |tables| block_totals(tables, &query, &measures, &budget, each))
    }

    fn label_sets(&self, source_name: &str, span: Span, each: &mut EachLabels<'_>) -> Result<()> {
        let budget = Budget::new(CALL);
        let query = self.query(source_name, span);
        let mut parts = self.reader.parts(&query, &budget)?;
        let Some(measures) = parts.measures(&query) else { return Ok(()) };
        let mut seen: BTreeSet<(usize, String, Labels)> = BTreeSet::new();
        parts.each_series(&query, &budget, |series| {
            for (_, series) in series.iter().filter(|(_, series)| query.wants(series, None, None)) {
                let Some(column) = measures.column(series) else { continue };
                if seen.insert((column, series.service.clone(), series.labels.clone())) {
                    budget.charge(
                        series.labels.iter().map(|(name, value)| name.len() + value.len() + 96).sum(),
                    )?;
                    each(&labels_of(series), Some(column));
                }
            }
            Ok(())
        })
    }

    fn extent(&self) -> Result<Option<Span>> {
        let query = self.query("", Span { from: 0, to: i64::MAX / MILLISECOND });
        let extent = self.reader.extent(&query, &Budget::new(CALL))?;
        Ok(extent.map(|(from, to)| Span { from: from / MILLISECOND, to: to / MILLISECOND }))
    }
}

/// The time of a profile, and labels of samples in it.
type Profiled<'a> = (i64, Vec<(&'a str, &'a str)>);

/// Calls `each` with the sums of each profile in a block, by labels.
fn block_totals(
    tables: &BlockTables,
    query: &Query<'_>,
    measures: &Measures,
    budget: &Budget,
    each: &mut EachTotal<'_>,
) -> Result<()> {
    // By time, labels, span and trace: the values of the series that differ in nothing else.
    let mut sums: HashMap<Profiled<'_>, Vec<i64>> = HashMap::new();
    for row in tables.samples.iter().filter(|row| query.wants_time(row.time)) {
        let Some(of) = tables.series(row.series) else { continue };
        let Some(column) = measures.column(of).filter(|_| query.wants(of, None, None)) else { continue };
        let mut labels = labels_of(of);
        labels.extend(row.span.as_deref().map(|span| (SPAN, span)));
        labels.extend(row.trace.as_deref().map(|trace| (TRACE, trace)));
        budget.work(labels.len() + 1)?;
        let sum = sums.entry((row.time, labels)).or_insert_with(|| vec![0; measures.values.len()]);
        sum[column] = sum[column].saturating_add(row.value);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    sums.iter().for_each(|((time, labels), values)| each(time / MILLISECOND, labels, values));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};
    use flamelet_remote::querier::{Codec, answer};

    use super::*;
    use crate::{Collector, Offered, Options, Outside};

    struct Silent;

    impl Outside for Silent {
        fn note(&self, _: &str) {}
    }

    const TYPE: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

    /// Accepts a profile with a sample of 7 for each trace under the name `process_cpu`.
    fn send(
        collector: &Collector,
        service: &str,
        kinds: &[&str],
        period: Option<(&str, &str)>,
        traces: &[&str],
    ) {
        let kinds: Vec<_> = kinds.iter().map(|kind| (*kind, "nanoseconds")).collect();
        let mut builder = ProfileBuilder::new(&kinds);
        if let Some((kind, unit)) = period {
            builder.set_period(kind, unit, 1);
        }
        builder.header_mut().time_nanos = crate::clock::now();
        let frame = builder.named_frame("main");
        let stack = builder.stack(&[frame]);
        for trace in traces {
            let label = builder.text_label(TRACE, trace);
            let labels = if trace.is_empty() { LabelSetId::EMPTY } else { builder.labels(&[label]) };
            builder.sample(stack, labels, &vec![7; kinds.len()]);
        }
        let name = Some("process_cpu".to_owned());
        let bytes = pprof::encode(&builder.finish());
        let offered = Offered { service: service.to_owned(), name, bytes, ..Offered::default() };
        collector.accept(&offered).expect("accepted");
    }

    fn ask(fleet: &Fleet, method: &str, request: &serde_json::Value) -> serde_json::Value {
        let answer = answer(fleet, method, Codec::Json, request.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Returns the texts of a field, wherever it is.
    fn texts(value: &serde_json::Value, field: &str) -> BTreeSet<String> {
        let inner: Vec<&serde_json::Value> = match value {
            serde_json::Value::Array(items) => items.iter().collect(),
            serde_json::Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        };
        let own = value.get(field).and_then(|text| text.as_str()).map(str::to_owned);
        inner.into_iter().flat_map(|inner| texts(inner, field)).chain(own).collect()
    }

    #[test]
    fn a_profile_without_a_period_does_not_hide_the_type_of_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let collector = Collector::open(Options::new(folder.path()), Box::new(Silent)).expect("opened");
        send(&collector, "shop", &["samples", "cpu"], Some(("cpu", "nanoseconds")), &[""]);
        send(&collector, "odd", &["cpu"], None, &[""]);
        send(&collector, "older", &["wall"], Some(("wall", "seconds")), &[""]);
        for when in ["in the log", "in blocks"] {
            let fleet = Fleet { reader: collector.reader(), service: None };
            let types = texts(&ask(&fleet, "ProfileTypes", &serde_json::json!({})), "ID");
            let expected = [
                "process_cpu:cpu:nanoseconds::",
                TYPE,
                "process_cpu:samples:nanoseconds:cpu:nanoseconds",
                "process_cpu:wall:nanoseconds:wall:seconds",
            ];
            assert_eq!(types, BTreeSet::from(expected.map(str::to_owned)), "{when}");
            let total = |type_id: &str| {
                let now = crate::clock::now() / MILLISECOND;
                let request = serde_json::json!({"profileTypeID": type_id, "start": now - 600_000, "end": now + 600_000});
                let flame = ask(&fleet, "SelectMergeStacktraces", &request);
                let mut series = request;
                series["step"] = serde_json::json!(3600);
                series["groupBy"] = serde_json::json!(["service_name"]);
                series["end"] = serde_json::json!(now + 3_600_000);
                let services = texts(&ask(&fleet, "SelectSeries", &series), "value");
                (flame["flamegraph"]["total"].as_str().map(str::to_owned), services)
            };
            let only = |service: &str| (Some("7".to_owned()), BTreeSet::from([service.to_owned()]));
            assert_eq!(total(TYPE), only("shop"), "{when}");
            assert_eq!(total("process_cpu:cpu:nanoseconds::"), only("odd"), "{when}");
            assert_eq!(total("process_cpu:wall:nanoseconds:wall:seconds"), only("older"), "{when}");
            // Each series has its own types, and not those of others.
            let of_odd = serde_json::json!({
                "matchers": [r#"{service_name=~"odd|older"}"#], "labelNames": ["service_name", "__profile_type__"],
            });
            let sets = ask(&fleet, "Series", &of_odd);
            assert_eq!(sets["labelsSet"].as_array().map(Vec::len), Some(2), "{when}: {sets}");
            collector.maintain();
        }
    }

    #[test]
    fn values_over_time_are_those_of_the_selected_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let collector = Collector::open(Options::new(folder.path()), Box::new(Silent)).expect("opened");
        send(&collector, "shop", &["cpu"], Some(("cpu", "nanoseconds")), &["", "one", "one", "two"]);
        for when in ["in the log", "in blocks"] {
            let fleet = Fleet { reader: collector.reader(), service: None };
            let now = crate::clock::now() / MILLISECOND;
            for (selector, expected) in [
                ("{}", 28.0),
                (r#"{trace_id="one"}"#, 14.0),
                (r#"{trace_id=""}"#, 7.0),
                (r#"{trace_id!="one"}"#, 14.0),
            ] {
                let request = serde_json::json!({
                    "profileTypeID": TYPE, "labelSelector": selector, "groupBy": ["trace_id"], "step": 3600,
                    "start": now - 600_000, "end": now + 3_600_000,
                });
                let series = &ask(&fleet, "SelectSeries", &request)["series"];
                assert_eq!(series[0]["points"][0]["value"].as_f64(), Some(expected), "{when}: {selector}");
                assert_eq!(series.as_array().map(Vec::len), Some(1), "{when}: a trace is no series");
            }
            collector.maintain();
        }
    }
}
