//! Who uses how much: services, and crates across all of them, in CPU cores and money.

use std::collections::HashMap;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, Error, Profile, Result, unit};
use flamelet_report::by::{Grouping, by};
use flamelet_report::{Owners, Report};
use serde::Serialize;

use super::asked::Asked;
use crate::reader::Reader;

/// The hours of a month: 365 days, in twelve parts.
const MONTH: f64 = 730.0;
const SECOND: f64 = 1e9;

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// When the first profile begins, in nanoseconds since 1970.
    #[serde(serialize_with = "super::json::as_moment")]
    pub from: i64,
    /// When the last one ends. Cores are CPU time divided by the time in between.
    #[serde(serialize_with = "super::json::as_moment")]
    pub to: i64,
    /// The cores of all services.
    pub cores: f64,
    /// What they cost in a month, if a price is given.
    pub cost_per_month: Option<f64>,
    /// The services, the largest first.
    pub services: Vec<ServiceUsage>,
    /// What groups consist of: `function`, `crate`, ….
    pub by: Option<&'static str>,
    /// Groups across all services, the largest first.
    pub groups: Vec<GroupUsage>,
    /// What had to be left out.
    pub notes: Vec<String>,
}

/// What a service uses.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceUsage {
    /// The service.
    pub service: String,
    /// Its CPU time in seconds.
    pub cpu_seconds: f64,
    /// Its CPU time divided by the length of the range.
    pub cores: f64,
    /// Its share of the fleet.
    pub share: f64,
    /// What it costs in a month, if a price is given.
    pub cost_per_month: Option<f64>,
    /// The most expensive function of its own code, with the code of others that it calls.
    pub function: Option<String>,
    /// The share that this function has of the service.
    pub function_share: f64,
}

/// What a group uses in all services together.
#[derive(Clone, Debug, Serialize)]
pub struct GroupUsage {
    /// The function, the crate, or what it is grouped by.
    pub name: String,
    /// Whose code it is.
    pub owner: &'static str,
    /// Its CPU time in seconds.
    pub cpu_seconds: f64,
    /// Its CPU time divided by the length of the range.
    pub cores: f64,
    /// Its share of the fleet.
    pub share: f64,
    /// What it costs in a month, if a price is given.
    pub cost_per_month: Option<f64>,
    /// How many services use it.
    pub services: usize,
}

/// What is summed up across all services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// Functions, each without what it calls.
    Function,
    /// What `flamelet top --by` sums up by.
    Group(Grouping),
}

impl UsageBy {
    const FUNCTION: &str = "function";

    /// Reads a name: `function`, `crate`, ….
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text == Self::FUNCTION {
            return Ok(Self::Function);
        }
        text.parse()
            .map(Self::Group)
            .map_err(|why: String| Error::invalid(format!("{why}, function, service")))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Function => Self::FUNCTION,
            Self::Group(wanted) => {
                Grouping::ALL.iter().find(|(_, known)| *known == wanted).map_or("", |(name, _)| *name)
            }
        }
    }
}

/// How to sum up.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageOptions {
    /// Also sum up by this across all services.
    pub by: Option<UsageBy>,
    /// What a core costs in an hour.
    pub price: Option<f64>,
}

/// Sums up the CPU time of each service. `prepare` filters a profile and says whose code its functions are; it has to
/// keep their files and lines.
pub fn usage<E: From<Error>>(
    reader: &Reader,
    asked: &Asked<'_>,
    options: &UsageOptions,
    mut prepare: impl FnMut(Profile) -> std::result::Result<(Report, Owners), E>,
) -> std::result::Result<Usage, E> {
    let mut sums = UsageSums {
        span: None,
        services: Vec::new(),
        groups: HashMap::new(),
        notes: Vec::new(),
        budget: Budget::new(asked.limits),
    };
    let reader = &reader.with_logs(&Budget::new(asked.limits))?;
    for service in asked.services(reader)? {
        let (profile, notes) = reader.profile(&asked.query(&service), &Budget::new(asked.limits))?;
        sums.notes.extend(notes);
        let Some(profile) = profile else { continue };
        sums.see(&profile, asked.to);
        let (report, owners) = prepare(profile)?;
        sums.add(service, &report, &owners, options)?;
    }
    Ok(sums.finish(options))
}

/// What was summed up so far; CPU time is in seconds.
struct UsageSums {
    span: Option<(i64, i64)>,
    services: Vec<ServiceUsage>,
    groups: HashMap<String, GroupUsage>,
    notes: Vec<String>,
    /// For what is kept of all services.
    budget: Budget,
}

impl UsageSums {
    fn see(&mut self, profile: &Profile, to: i64) {
        let (start, length) = (profile.header.time_nanos, profile.header.duration_nanos);
        // A profile may claim any length.
        let end = start.saturating_add(length).min(to.max(start));
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
    }

    fn add(
        &mut self,
        service: String,
        report: &Report,
        owners: &Owners,
        options: &UsageOptions,
    ) -> Result<()> {
        if !unit::are_compatible(report.unit(), "seconds") {
            self.notes.push(format!("{service}: left out, because {} is not CPU time", report.value_name()));
            return Ok(());
        }
        let nanos = unit::ratio(report.unit(), "nanoseconds");
        let seconds = |value: i64| value as f64 * nanos / SECOND;
        // What the filters left.
        let total = report.profile().total(report.value_index());
        let yours = by(report, Grouping::Yours, owners);
        let first = yours.rows.first();
        self.services.push(ServiceUsage {
            service,
            cpu_seconds: seconds(total),
            cores: 0.0,
            share: 0.0,
            cost_per_month: None,
            function: first.map(|row| row.name.clone()),
            function_share: first.map_or(0.0, |row| row.flat as f64 / total.max(1) as f64),
        });
        let groups: Vec<(String, &'static str, i64)> = match options.by {
            None => Vec::new(),
            Some(UsageBy::Function) => functions(report, owners),
            Some(UsageBy::Group(grouping)) => {
                let rows = by(report, grouping, owners).rows.into_iter();
                rows.map(|row| (row.name, row.owner, row.flat)).collect()
            }
        };
        for (name, owner, value) in groups.into_iter().filter(|(_, _, value)| *value != 0) {
            if !self.groups.contains_key(&name) {
                self.budget
                    .charge(hash_entry(size_of::<(String, GroupUsage)>()) + 2 * (name.len() + ALLOCATION))?;
            }
            let group = self.groups.entry(name.clone()).or_insert_with(|| GroupUsage {
                name,
                owner,
                cpu_seconds: 0.0,
                cores: 0.0,
                share: 0.0,
                cost_per_month: None,
                services: 0,
            });
            group.cpu_seconds += seconds(value);
            group.services += 1;
        }
        Ok(())
    }

    fn finish(self, options: &UsageOptions) -> Usage {
        let (from, to) = self.span.unwrap_or_default();
        let wall = to.saturating_sub(from) as f64 / SECOND;
        let cores = |seconds: f64| if wall > 0.0 { seconds / wall } else { 0.0 };
        let cost = |cores: f64| options.price.map(|price| cores * price * MONTH);
        let all: f64 = self.services.iter().map(|service| service.cpu_seconds).sum();
        let share = |seconds: f64| if all > 0.0 { seconds / all } else { 0.0 };
        let mut services = self.services;
        for row in &mut services {
            (row.cores, row.share) = (cores(row.cpu_seconds), share(row.cpu_seconds));
            row.cost_per_month = cost(row.cores);
        }
        let mut groups: Vec<GroupUsage> = self.groups.into_values().collect();
        for row in &mut groups {
            (row.cores, row.share) = (cores(row.cpu_seconds), share(row.cpu_seconds));
            row.cost_per_month = cost(row.cores);
        }
        services
            .sort_by(|a, b| b.cpu_seconds.total_cmp(&a.cpu_seconds).then_with(|| a.service.cmp(&b.service)));
        groups.sort_by(|a, b| b.cpu_seconds.total_cmp(&a.cpu_seconds).then_with(|| a.name.cmp(&b.name)));
        let by = options.by.map(UsageBy::name);
        let cores = cores(all);
        Usage { from, to, cores, cost_per_month: cost(cores), services, by, groups, notes: self.notes }
    }
}

/// Returns the functions of a profile with their owners and their own cost; code without a name counts for its file.
fn functions(report: &Report, owners: &Owners) -> Vec<(String, &'static str, i64)> {
    let profile = report.profile();
    let mut sums: HashMap<&str, (&'static str, i64)> = HashMap::new();
    for sample in profile.samples() {
        let Some(&leaf) = profile.stack(sample.stack).first() else { continue };
        let function = profile.lines(leaf).iter().find_map(|line| line.function);
        let (name, owner) = match function {
            Some(id) => (profile.string(profile.function(id).name), owners.of_function(id)),
            None => {
                let mapping = profile.location(leaf).mapping;
                let file = mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
                (if file.is_empty() { "unknown" } else { file }, owners.of_mapping(mapping))
            }
        };
        let sum = sums.entry(name).or_insert((owner.kind(), 0));
        sum.1 = sum.1.saturating_add(sample.values[report.value_index()]);
    }
    sums.into_iter().map(|(name, (owner, value))| (name.to_owned(), owner, value)).collect()
}
