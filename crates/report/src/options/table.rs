//! Every option of a report, defined once. The flags of the command, the command line and the shell of `flamelet
//! pprof`, and the filters of the page are generated from this table.

use flamelet_profile::unit::are_compatible;
use flamelet_profile::{Error, ErrorKind, Granularity, Result};

use super::ReportKind::{
    Callgrind, Check, Diff, Disasm, Dot, Explain, Flame, Heap, List, Peek, Proto, Raw, Tags, Top, TopProto,
    Traces, Tree,
};
use super::{ReportKind, ReportOptions, Sort};
use OptionSlot::{Count, Number, Share, Switch, Text, Unit};

/// An option of reports.
#[derive(Debug)]
pub struct ReportOption {
    /// The name in pprof's spelling: `show_from`, `nodecount`.
    pub name: &'static str,
    /// The name with dashes between its words, if pprof writes them as one word.
    pub alias: Option<&'static str>,
    /// The one-letter form.
    pub letter: Option<char>,
    /// The name of the value in the help, such as `REGEX`; empty for a switch.
    pub value_name: &'static str,
    /// A flag without a value that sets the option, and the value it sets: `no_trim` sets `trim` to `false`.
    pub flag: Option<(&'static str, &'static str)>,
    /// Values that are also flags in pprof: `-cum` is `-sort=cum`.
    pub choices: &'static [&'static str],
    /// The section of the help; empty for options without a section.
    pub section: &'static str,
    /// The reports that accept it.
    pub reports: &'static [ReportKind],
    /// What it does, in one line.
    pub help: &'static str,
    slot: OptionSlot,
}

/// Where the value is stored, and which values are allowed.
#[derive(Clone, Copy, Debug)]
enum OptionSlot {
    Text(fn(&mut ReportOptions) -> &mut String),
    Unit(fn(&mut ReportOptions) -> &mut String),
    Switch(fn(&mut ReportOptions) -> &mut bool),
    Number(fn(&mut ReportOptions) -> &mut f64),
    /// From 0 to 1.
    Share(fn(&mut ReportOptions) -> &mut f64),
    Count(fn(&mut ReportOptions) -> &mut Option<usize>),
    Granularity(fn(&mut ReportOptions) -> &mut Option<Granularity>),
    Sort(fn(&mut ReportOptions) -> &mut Sort),
}

/// The section of the options that select samples and frames, which are also the page's filters.
pub const FILTER: &str = "Filter";
const GROUPING: &str = "Grouping";
const VALUES: &str = "Values";
const TRIM: &str = "Trim";
const SYMBOLS: &str = "Symbols";

// Which reports accept an option.
const EVERY: &[ReportKind] = &[
    Top, TopProto, Tree, Dot, Peek, List, Disasm, Traces, Tags, Raw, Callgrind, Proto, Flame, Heap, Diff,
    Check, Explain,
];
const GROUPED: &[ReportKind] = &[Top, TopProto, Tree, Dot, Peek, Traces, Flame, Heap, Diff, Check];
const WITH_PATHS: &[ReportKind] =
    &[Top, TopProto, Tree, Dot, Peek, List, Traces, Callgrind, Flame, Heap, Diff, Check, Explain];
const OF_ONE_TYPE: &[ReportKind] = &[
    Top, TopProto, Tree, Dot, Peek, List, Disasm, Traces, Tags, Raw, Callgrind, Flame, Diff, Check, Explain,
];
const COMPUTED: &[ReportKind] =
    &[Top, TopProto, Tree, Dot, Peek, List, Disasm, Traces, Tags, Callgrind, Diff, Check];
const SCALED: &[ReportKind] = &[Top, TopProto, Tree, Dot, Peek, List, Disasm, Traces, Tags, Callgrind];
const SORTED: &[ReportKind] = &[Top, TopProto, Tree, Dot, Peek, Diff];
const COUNTED: &[ReportKind] = &[Top, TopProto, Tree, Dot, Heap, Diff];
const TRIMMED: &[ReportKind] = &[Top, TopProto, Tree, Dot];

/// The options, in the order of the help.
#[rustfmt::skip]
pub static OPTIONS: &[ReportOption] = &[
    option("focus", Text(|o| &mut o.filters.focus)).value("REGEX").of(FILTER, EVERY)
        .help("Keep samples with a matching frame"),
    option("ignore", Text(|o| &mut o.filters.ignore)).value("REGEX").of(FILTER, EVERY)
        .help("Drop samples with a matching frame"),
    option("hide", Text(|o| &mut o.filters.hide)).value("REGEX").of(FILTER, EVERY)
        .help("Remove matching frames"),
    option("show", Text(|o| &mut o.filters.show)).value("REGEX").of(FILTER, EVERY)
        .help("Remove frames that do not match"),
    option("show_from", Text(|o| &mut o.filters.show_from)).value("REGEX").of(FILTER, EVERY)
        .help("Remove the callers of the outermost matching frame"),
    option("prune_from", Text(|o| &mut o.filters.prune_from)).value("REGEX").of(FILTER, EVERY)
        .help("Remove the callees of the innermost matching frame"),
    option("tagfocus", Text(|o| &mut o.filters.tag_focus)).alias("tag-focus").value("TAG").of(FILTER, EVERY)
        .help("Keep samples with a matching label: a regex, key=regex, or a range such as 128kb:512kb"),
    option("tagignore", Text(|o| &mut o.filters.tag_ignore)).alias("tag-ignore").value("TAG").of(FILTER, EVERY)
        .help("Drop samples with a matching label"),
    option("tagshow", Text(|o| &mut o.filters.tag_show)).alias("tag-show").value("REGEX").of(FILTER, EVERY)
        .help("Keep only labels with a matching key"),
    option("taghide", Text(|o| &mut o.filters.tag_hide)).alias("tag-hide").value("REGEX").of(FILTER, EVERY)
        .help("Remove labels with a matching key"),

    option("granularity", OptionSlot::Granularity(|o| &mut o.granularity)).value("HOW").of(GROUPING, GROUPED)
        .choices(&["functions", "filefunctions", "files", "lines", "addresses"])
        .help("Group by functions, filefunctions, files, lines or addresses"),
    option("noinlines", Switch(|o| &mut o.no_inlines)).alias("no-inlines").of(GROUPING, EVERY)
        .help("Count inlined functions as part of their caller"),
    option("showcolumns", Switch(|o| &mut o.show_columns)).alias("show-columns").of(GROUPING, EVERY)
        .help("Show column numbers after line numbers"),
    option("fold_generics", Switch(|o| &mut o.folding.generics)).of(GROUPING, EVERY)
        .help("Remove type parameters from Rust names"),
    option("fold_runtime", Switch(|o| &mut o.folding.runtime)).of(GROUPING, EVERY)
        .help("Fold other code's frames that lead to yours, such as the async runtime's, into one"),
    option("crate", Switch(|o| &mut o.folding.crates)).of(GROUPING, EVERY)
        .help("Show crates instead of functions"),
    option("tagroot", Text(|o| &mut o.tag_root)).alias("tag-root").value("KEYS").of(GROUPING, EVERY)
        .help("Add these labels (separated by commas) as frames at the root"),
    option("tagleaf", Text(|o| &mut o.tag_leaf)).alias("tag-leaf").value("KEYS").of(GROUPING, EVERY)
        .help("Add these labels (separated by commas) as frames at the leaf"),
    option("call_tree", Switch(|o| &mut o.call_tree)).of(GROUPING, &[Dot, Callgrind])
        .help("Write a call tree instead of a call graph"),

    option("sample_index", Text(|o| &mut o.sample_index)).letter('i').value("TYPE").of(VALUES, OF_ONE_TYPE)
        .choices(&["inuse_space", "inuse_objects", "alloc_space", "alloc_objects", "contentions"])
        .help("The sample type, by name or number [default: the profile's]"),
    option("mean", Switch(|o| &mut o.mean)).of(VALUES, COMPUTED)
        .help("Divide each value by that of the first sample type (the count)"),
    option("relative_percentages", Switch(|o| &mut o.relative_percentages)).of(VALUES, COMPUTED)
        .help("Show percentages of the filtered total"),
    option("divide_by", Number(|o| &mut o.divide_by)).value("X").of(VALUES, SCALED)
        .help("Divide all values by this number"),
    option("unit", Unit(|o| &mut o.unit)).value("UNIT").of(VALUES, SCALED)
        .help("The unit of all values; minimum picks the unit of the smallest value"),

    option("sort", OptionSlot::Sort(|o| &mut o.sort)).value("cum|flat").of(TRIM, SORTED).flag("cum", "cum")
        .choices(&["cum", "flat"])
        .help("Sort by cumulative cost (cum: with callees) instead of own cost (flat)"),
    option("nodecount", Count(|o| &mut o.node_count)).letter('n').alias("node-count").value("N").of(TRIM, COUNTED)
        .help("Show this many entries; 0 shows all"),
    option("nodefraction", Share(|o| &mut o.node_fraction)).alias("node-fraction").value("F").of(TRIM, TRIMMED)
        .help("Hide entries below this fraction of the total"),
    option("edgefraction", Share(|o| &mut o.edge_fraction)).alias("edge-fraction").value("F").of(TRIM, &[Tree, Dot])
        .help("Hide calls below this fraction of the total"),
    option("trim", Switch(|o| &mut o.trim)).of(TRIM, TRIMMED).flag("no_trim", "false")
        .help("Show all entries, however small"),
    option("reverse", Switch(|o| &mut o.reverse)).of(TRIM, &[Top, Tree])
        .help("Show the least expensive entries first"),
    option("drop_negative", Switch(|o| &mut o.drop_negative)).of(TRIM, &[Top, TopProto, Tree, Dot, Peek])
        .help("Leave out negative entries"),

    option("source_path", Text(|o| &mut o.source_path)).value("PATHS").of(SYMBOLS, WITH_PATHS)
        .help("Folders with source files, separated by colons; shown paths are relative to them"),
    option("trim_path", Text(|o| &mut o.trim_path)).value("PATHS").of(SYMBOLS, WITH_PATHS)
        .help("Prefixes to remove from source paths, separated by colons"),
    option("intel_syntax", Switch(|o| &mut o.intel_syntax)).of(SYMBOLS, &[Disasm])
        .help("Show instructions in Intel syntax"),

    option("compact_labels", Switch(|o| &mut o.compact_labels)).of("", &[Top, Tree, Dot, Peek, Traces])
        .help("Leave out the heading's lines about the file"),
];

const fn option(name: &'static str, slot: OptionSlot) -> ReportOption {
    let flag = if let OptionSlot::Switch(_) = slot { Some((name, "true")) } else { None };
    ReportOption {
        name,
        alias: None,
        letter: None,
        value_name: "",
        flag,
        choices: &[],
        section: "",
        reports: &[],
        help: "",
        slot,
    }
}

impl ReportOption {
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    const fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }

    const fn value(mut self, name: &'static str) -> Self {
        self.value_name = name;
        self
    }

    const fn of(mut self, section: &'static str, reports: &'static [ReportKind]) -> Self {
        (self.section, self.reports) = (section, reports);
        self
    }

    const fn flag(mut self, flag: &'static str, value: &'static str) -> Self {
        self.flag = Some((flag, value));
        self
    }

    const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Returns the option with this name, however its words are separated: `show_from`, `show-from`, `showfrom`.
    pub fn named(name: &str) -> Option<&'static Self> {
        let joined = |name: &str| name.replace(['_', '-'], "");
        OPTIONS.iter().find(|option| joined(option.name) == joined(name))
    }

    /// Returns the option that has `choice` among its choices.
    pub fn with_choice(choice: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.choices.contains(&choice))
    }

    /// Returns whether the option is a switch.
    pub fn is_switch(&self) -> bool {
        matches!(self.slot, OptionSlot::Switch(_))
    }

    /// Parses and sets a value. The error says what is wrong with the value, and does not repeat it.
    pub fn set(&self, options: &mut ReportOptions, text: &str) -> Result<()> {
        match self.slot {
            OptionSlot::Text(slot) | OptionSlot::Unit(slot) => text.clone_into(slot(options)),
            OptionSlot::Switch(slot) => *slot(options) = parse_switch(text)?,
            OptionSlot::Number(slot) => *slot(options) = number(text)?,
            OptionSlot::Share(slot) => *slot(options) = share(text)?,
            OptionSlot::Count(slot) => *slot(options) = count(text)?,
            OptionSlot::Granularity(slot) => *slot(options) = Some(text.parse()?),
            OptionSlot::Sort(slot) => *slot(options) = sort(text)?,
        }
        Ok(())
    }

    /// Rejects what [`set`](Self::set) rejects, and unknown units, which pprof accepts and ignores.
    pub fn check(&self, text: &str) -> Result<()> {
        match self.slot {
            OptionSlot::Unit(_) => unit(text),
            _ => self.set(&mut ReportOptions::default(), text),
        }
    }

    /// Returns the value in the form that [`set`](Self::set) parses.
    pub fn get(&self, options: &ReportOptions) -> String {
        let options = &mut options.clone();
        match self.slot {
            OptionSlot::Text(slot) | OptionSlot::Unit(slot) => slot(options).clone(),
            OptionSlot::Switch(slot) => slot(options).to_string(),
            OptionSlot::Number(slot) | OptionSlot::Share(slot) => slot(options).to_string(),
            OptionSlot::Count(slot) => slot(options).map_or("-1".to_owned(), |count| count.to_string()),
            OptionSlot::Granularity(slot) => slot(options).unwrap_or_default().name().to_owned(),
            OptionSlot::Sort(slot) => if *slot(options) == Sort::Cum { "cum" } else { "flat" }.to_owned(),
        }
    }

    /// Returns the default value for `report`, if the help should mention it.
    pub fn default_for(&self, report: ReportKind) -> Option<String> {
        match self.slot {
            OptionSlot::Switch(_) | OptionSlot::Sort(_) => None,
            OptionSlot::Count(_) => Some(match report.usual_node_count() {
                0 => "all".to_owned(),
                count => count.to_string(),
            }),
            OptionSlot::Granularity(_) => Some(report.usual_granularity().name().to_owned()),
            _ => Some(self.get(&ReportOptions::default())).filter(|value| !value.is_empty()),
        }
    }
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::Incompatible, message)
}

/// Parses the value of a switch, as written by Go and by people.
pub fn parse_switch(text: &str) -> Result<bool> {
    match text {
        "" | "1" | "t" | "true" | "yes" | "y" | "T" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "false" | "no" | "n" | "F" | "FALSE" | "False" => Ok(false),
        _ => Err(wrong("use true or false")),
    }
}

fn number(text: &str) -> Result<f64> {
    text.parse().map_err(|_| wrong("not a number"))
}

fn share(text: &str) -> Result<f64> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| wrong("not a fraction between 0 and 1, such as 0.005"))
}

/// Parses a count; a negative one means the default, as in pprof.
fn count(text: &str) -> Result<Option<usize>> {
    let count: i64 = text.parse().map_err(|_| wrong("not a whole number"))?;
    Ok(usize::try_from(count).ok())
}

fn sort(text: &str) -> Result<Sort> {
    match text {
        "cum" => Ok(Sort::Cum),
        "flat" => Ok(Sort::Flat),
        _ => Err(wrong("use cum or flat")),
    }
}

/// Checks that values can be printed in a unit.
fn unit(text: &str) -> Result<()> {
    let is_general = matches!(text, "minimum" | "auto" | "count" | "sample" | "samples" | "unit");
    if is_general || ["b", "s", "gcu"].iter().any(|known| are_compatible(text, known)) {
        return Ok(());
    }
    Err(wrong("unknown unit; use minimum, ns, us, ms, s, hrs, B, kB, MB, GB, TB, PB or count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<String> {
        let option = ReportOption::named(name).expect(name);
        let mut options = ReportOptions::default();
        option.set(&mut options, text).map(|()| option.get(&options))
    }

    /// Returns a value that is not the default.
    fn other_value(option: &ReportOption) -> &'static str {
        match (option.name, option.flag) {
            ("unit", _) => "ms",
            ("granularity", _) => "lines",
            ("nodecount", _) => "25",
            (_, Some((_, value))) => value,
            _ => "0.25",
        }
    }

    #[test]
    fn values_that_are_set_are_read_back() {
        for option in OPTIONS {
            let usual = option.get(&ReportOptions::default());
            for value in [usual.as_str(), other_value(option)] {
                assert_eq!(read(option.name, value).ok().as_deref(), Some(value), "{}", option.name);
            }
            for choice in option.choices {
                assert_eq!(read(option.name, choice).ok().as_deref(), Some(*choice), "{}", option.name);
            }
        }
    }

    /// An option that shares its field with another would overwrite it.
    #[test]
    fn each_option_has_a_slot_of_its_own() {
        let usual = ReportOptions::default();
        for option in OPTIONS {
            let mut options = ReportOptions::default();
            option.set(&mut options, other_value(option)).expect(option.name);
            let changed = OPTIONS.iter().filter(|other| other.get(&options) != other.get(&usual));
            assert_eq!(changed.map(|other| other.name).collect::<Vec<_>>(), [option.name]);
        }
    }

    #[test]
    fn names_are_unique_however_they_are_spelled() {
        for option in OPTIONS {
            for name in [Some(option.name), option.alias].into_iter().flatten() {
                assert_eq!(ReportOption::named(name).map(|found| found.name), Some(option.name));
                assert!(ReportOption::with_choice(name).is_none(), "{name}");
            }
            assert!(!option.help.is_empty() && !option.reports.is_empty(), "{}", option.name);
            assert!(option.flag.is_some() || !option.value_name.is_empty(), "{}", option.name);
        }
    }

    #[test]
    fn units_are_those_that_values_can_be_given_in() {
        let unit = ReportOption::named("unit").expect("an option");
        for known in ["minimum", "auto", "ns", "milliseconds", "s", "hrs", "B", "kB", "mb", "GB", "count"] {
            assert!(unit.check(known).is_ok(), "{known}");
        }
        for unknown in ["", "parsec", "kilo", "m"] {
            assert!(unit.check(unknown).is_err(), "{unknown}");
            assert_eq!(read("unit", unknown).ok().as_deref(), Some(unknown));
        }
    }

    #[test]
    fn shares_lie_between_nothing_and_all() {
        for (text, value) in [("0", "0"), ("1", "1"), ("0.25", "0.25")] {
            assert_eq!(read("nodefraction", text).ok().as_deref(), Some(value));
        }
        for wrong in ["7", "-0.1", "NaN", "5%", "much"] {
            assert!(read("nodefraction", wrong).is_err(), "{wrong}");
        }
    }
}
