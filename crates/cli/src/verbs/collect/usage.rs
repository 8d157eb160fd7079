//! `flamelet top` of all services of a collector: CPU cores, and what they cost.

use std::io::Write;
use std::path::PathBuf;

use flamelet_collect::{Asked, Usage, UsageBy, UsageOptions, usage};
use flamelet_profile::{Budget, Granularity, moment};
use flamelet_remote::selector::Selector;
use flamelet_report::by::Grouping;
use flamelet_report::{Mine, Report, ReportKind, ReportOptions};

use crate::error::{About, Failure, Result};
use crate::job::{self, Job};
use crate::output;
use crate::profiles::SourceOptions;
use crate::profiles::collected::{CollectedPart, part_of, reader_of};
use crate::profiles::history::Range;

/// Rows that are shown unless `-n` says otherwise.
const ROWS: usize = 40;

pub(crate) fn parse_price(text: &str) -> std::result::Result<f64, String> {
    let price: Option<f64> = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "write it as a number, such as 0.03".to_owned())
}

/// The folder of a collector, and a range of time.
pub(crate) struct Fleet {
    folder: PathBuf,
    range: Range,
    select: Option<Selector>,
}

/// Returns the fleet that a question about no service in particular is about. Of a folder with one service, the question
/// is about that service, as long as no price is given.
pub(crate) fn fleet_of(source: &SourceOptions, price: Option<f64>) -> Result<Option<Fleet>> {
    let [only] = &source.sources[..] else { return no_fleet(price) };
    let Some(found) = part_of(only, source.range) else { return no_fleet(price) };
    let CollectedPart { folder, range, select } = found?;
    if source.which.service.is_some() || source.which.profile.as_deref().is_some_and(|name| name != "cpu") {
        return no_fleet(price);
    }
    let services = reader_of(folder)?.services(&Budget::new(source.limits)).about(folder.display())?;
    let is_fleet = services.len() > 1 || price.is_some();
    Ok(is_fleet.then(|| Fleet { folder: folder.to_owned(), range, select }))
}

fn no_fleet(price: Option<f64>) -> Result<Option<Fleet>> {
    match price {
        None => Ok(None),
        Some(_) => Err(Failure::new(
            "--price needs the folder of `flamelet collect`, and neither --service nor --profile",
        )),
    }
}

impl Fleet {
    /// Prints the services, or the groups across all of them.
    pub(crate) fn answer(
        &self,
        job: &Job,
        grouping: Option<Grouping>,
        price: Option<f64>,
        mine: &[String],
    ) -> Result<()> {
        if job.source.has_base() {
            return Err(Failure::new("--base and --diff-base need a service; select one with --service"));
        }
        let name = self.folder.display();
        let (from, to) = (self.range.from.unwrap_or(i64::MIN), self.range.to.unwrap_or(i64::MAX));
        moment::range(from, to).about(&name)?;
        output::check(job.output.as_deref())?;
        let reader = reader_of(&self.folder)?;
        let mine = Mine::parse(mine)?;
        let rows = job.options.node_count;
        // The file of a function shows whose code it is; and no group may be missing from a sum.
        let options = ReportOptions {
            granularity: Some(Granularity::Lines),
            node_count: Some(0),
            ..job.options.clone()
        };
        let select = self.select.as_ref();
        let asked = Asked { service: None, select, from, to, limits: job.source.limits };
        let mut notes = Vec::new();
        let found = usage(&reader, &asked, &options_of(grouping, price), |mut profile| {
            job.source.symbols.apply(&mut profile, &mut notes);
            let report = Report::new(profile, &options, ReportKind::Top)?;
            let owners = mine.owners(report.profile()).0;
            Ok::<_, Failure>((report, owners))
        });
        let mut found = found.about(&name)?;
        notes.iter().chain(&found.notes).for_each(|note| note!("{note}"));
        if found.services.is_empty() {
            return Err(Failure::new(format!("{name}: no service has CPU profiles in this range")));
        }
        let rows = rows.filter(|&rows| rows > 0).unwrap_or(ROWS);
        match job.json {
            true => output::write(job.output.as_deref(), |out| job::write_json(&found, out)),
            false => {
                found.services.truncate(rows);
                found.groups.truncate(rows);
                output::text::write(job.output.as_deref(), |out| write_text(&found, out))
            }
        }
    }
}

fn options_of(grouping: Option<Grouping>, price: Option<f64>) -> UsageOptions {
    UsageOptions { by: grouping.map(UsageBy::Group), price }
}

fn write_text(found: &Usage, out: &mut dyn Write) -> Result<()> {
    let (from, to) = (moment::format(found.from), moment::format(found.to));
    let cost = |cost: Option<f64>| cost.map_or(String::new(), |cost| format!("{cost:12.2}"));
    let head = if found.cost_per_month.is_some() { "  cost/month" } else { "" };
    writeln!(
        out,
        "{:.3} CPU cores from {from} to {to}{}",
        found.cores,
        found.cost_per_month.map_or(String::new(), |cost| format!(", {cost:.2} a month"))
    )?;
    if let Some(by) = found.by {
        writeln!(out, "{:>9}{head}      %  services  {by}", "cores")?;
        for row in &found.groups {
            let (cores, share, cost) = (row.cores, row.share * 100.0, cost(row.cost_per_month));
            writeln!(out, "{cores:9.3}{cost} {share:5.1}%  {:8}  {}", row.services, row.name)?;
        }
        return Ok(());
    }
    writeln!(out, "{:>9}{head}      %  service: most expensive function in its own code", "cores")?;
    for row in &found.services {
        let (cores, share, cost) = (row.cores, row.share * 100.0, cost(row.cost_per_month));
        let function = row.function.as_ref();
        let function = function.map(|name| format!(": {name} ({:.1}%)", row.function_share * 100.0));
        writeln!(out, "{cores:9.3}{cost} {share:5.1}%  {}{}", row.service, function.unwrap_or_default())?;
    }
    Ok(())
}
