//! What to read of a store.

use flamelet_remote::selector::Selector;

use crate::series::{SERVICE, SPAN, Series, TRACE, order};

/// Labels of samples, as (name, value).
pub(crate) type LabelRefs<'a> = [(&'a str, &'a str)];

/// Decides by their labels whether samples are wanted; `service_name` is among them.
pub(crate) type Keep<'a> = dyn Fn(&LabelRefs<'_>) -> bool + 'a;

/// What to read.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The service; all if it is `None`.
    pub service: Option<&'a str>,
    /// Pyroscope's name of the profile: `process_cpu`, `memory`, ….
    pub name: &'a str,
    /// The kind and the unit of the period, which belong to the type of a profile in Pyroscope; any if it is `None`.
    pub period: Option<(&'a str, &'a str)>,
    /// The start of the range, in nanoseconds since 1970. A profile belongs to a range if it begins in it.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// Which samples to keep; all if it is `None`.
    pub keep: Option<&'a Keep<'a>>,
    /// Which series to read; all if it is `None`. Blocks whose manifests have none of them are not opened.
    pub select: Option<&'a Selector>,
}

impl<'a> Query<'a> {
    /// Asks for all samples of a service between two moments, in nanoseconds since 1970.
    pub fn new(service: &'a str, name: &'a str, from: i64, to: i64) -> Self {
        Self { service: Some(service), name, period: None, from, to, keep: None, select: None }
    }

    pub(crate) fn wants_time(&self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }

    pub(crate) fn wants_period(&self, period: (&str, &str)) -> bool {
        self.period.is_none_or(|wanted| wanted == period)
    }

    /// Returns whether samples of a series are wanted.
    pub(crate) fn wants(&self, series: &Series, trace: Option<&str>, span: Option<&str>) -> bool {
        let is_of_service = self.service.is_none_or(|service| service == series.service);
        let is_of_period = self.wants_period((&series.period_kind, &series.period_unit));
        if !is_of_service || !is_of_period || series.name != self.name {
            return false;
        }
        let label = |name: &str| match name {
            SERVICE => Some(&*series.service),
            TRACE => trace,
            SPAN => span,
            _ => series.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value),
        };
        if self.select.is_some_and(|select| !select.matches(label)) {
            return false;
        }
        let Some(keep) = self.keep else { return true };
        let own = [(SERVICE, &*series.service)];
        let ids = [(TRACE, trace), (SPAN, span)];
        let ids = ids.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let labels = series.labels.iter().map(|(name, value)| (&**name, &**value));
        keep(&own.into_iter().chain(labels).chain(ids).collect::<Vec<_>>())
    }
}

/// Writes the condition of a selector that a label has a value.
pub(crate) fn condition(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// What the profiles of one name measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measures {
    /// The values, as (kind, unit), in the order of pprof.
    pub(crate) values: Vec<(String, String)>,
    pub(crate) period: (String, String),
}

impl Measures {
    /// Adds a value, unless it is known, and sets the period.
    pub(crate) fn add(&mut self, (kind, unit): (&str, &str), (period, period_unit): (&str, &str)) {
        if !self.values.iter().any(|value| value.0 == kind && value.1 == unit) {
            self.values.push((kind.to_owned(), unit.to_owned()));
            self.values.sort_by(|a, b| order(&a.0).cmp(&order(&b.0)).then_with(|| a.1.cmp(&b.1)));
        }
        self.period = (period.to_owned(), period_unit.to_owned());
    }

    /// Returns the number of the value that a series has.
    pub(crate) fn column(&self, series: &Series) -> Option<usize> {
        self.values.iter().position(|(kind, unit)| *kind == series.kind && *unit == series.unit)
    }
}
