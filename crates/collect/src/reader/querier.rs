//! The store of a collector as Pyroscope's query calls see it.

use std::collections::{BTreeSet, HashMap};

use flamelet_profile::{Budget, Limits, Profile, Result};
use flamelet_remote::querier::{EachLabels, EachTotal, Keep, Measured, Source, Span};

use crate::block::BlockTables;
use crate::query::Query;
use crate::reader::Reader;
use crate::series::{SERVICE, SPAN, Series};

const MILLISECOND: i64 = 1_000_000;

/// What a call may take: 512 MiB.
const CALL: Limits = Limits::of_memory(512 << 20);

/// All services, or one.
pub(crate) struct Fleet {
    pub(crate) reader: Reader,
    pub(crate) service: Option<String>,
}

impl Fleet {
    fn query<'a>(&'a self, name: &'a str, span: Span) -> Query<'a> {
        Query {
            service: self.service.as_deref(),
            name,
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
        let measured = found.into_iter().map(|(name, measures)| Measured {
            source_name: name.clone(),
            name,
            values: measures.values,
            period: measures.period,
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
        let measured = parts.measured();
        let Some(measures) = measured.get(source_name) else { return Ok(()) };
        parts.each(&query, &budget, |tables| block_totals(tables, &query, &measures.values, &budget, each))
    }

    fn label_sets(&self, source_name: &str, span: Span, each: &mut EachLabels<'_>) -> Result<()> {
        let budget = Budget::new(CALL);
        let query = self.query(source_name, span);
        let mut seen: BTreeSet<(String, Vec<(String, String)>)> = BTreeSet::new();
        self.reader.parts(&query, &budget)?.each_series(&query, &budget, |series| {
            for (_, series) in series.iter().filter(|(_, series)| series.name == source_name) {
                if seen.insert((series.service.clone(), series.labels.clone())) {
                    budget.charge(
                        series.labels.iter().map(|(name, value)| name.len() + value.len() + 96).sum(),
                    )?;
                    each(&labels_of(series));
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
    values: &[(String, String)],
    budget: &Budget,
    each: &mut EachTotal<'_>,
) -> Result<()> {
    // By time, labels and span: the values of the series that differ in nothing else.
    let mut sums: HashMap<Profiled<'_>, Vec<i64>> = HashMap::new();
    for row in tables.samples.iter().filter(|row| query.wants_time(row.time)) {
        let Some(of) = tables.series(row.series) else { continue };
        let column = values.iter().position(|(kind, unit)| *kind == of.kind && *unit == of.unit);
        let Some(column) = column.filter(|_| query.wants(of, None, None)) else { continue };
        let mut labels = labels_of(of);
        labels.extend(row.span.as_deref().map(|span| (SPAN, span)));
        budget.work(labels.len() + 1)?;
        let sum = sums.entry((row.time, labels)).or_insert_with(|| vec![0; values.len()]);
        sum[column] = sum[column].saturating_add(row.value);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    sums.iter().for_each(|((time, labels), values)| each(time / MILLISECOND, labels, values));
    Ok(())
}
