//! Units of values, formatted for people: `1536 bytes` is `1.50kB`, `90 seconds` is `90s`.
//!
//! The names, factors and roundings are those of `go tool pprof`, so that figures can be compared by eye.

/// A unit of a [`Family`]: its name for display, the names it has in files, and its size.
struct Unit {
    name: &'static str,
    aliases: &'static [&'static str],
    factor: f64,
}

/// Units that can be converted into each other.
struct Family {
    default: (&'static str, f64),
    units: &'static [Unit],
}

const fn unit(name: &'static str, aliases: &'static [&'static str], factor: f64) -> Unit {
    Unit { name, aliases, factor }
}

const KIB: f64 = 1024.0;

static FAMILIES: &[Family] = &[
    Family {
        default: ("B", 1.0),
        units: &[
            unit("B", &["b", "byte"], 1.0),
            unit("kB", &["kb", "kbyte", "kilobyte"], KIB),
            unit("MB", &["mb", "mbyte", "megabyte"], KIB * KIB),
            unit("GB", &["gb", "gbyte", "gigabyte"], KIB * KIB * KIB),
            unit("TB", &["tb", "tbyte", "terabyte"], KIB * KIB * KIB * KIB),
            unit("PB", &["pb", "pbyte", "petabyte"], KIB * KIB * KIB * KIB * KIB),
        ],
    },
    Family {
        default: ("s", 1e9),
        units: &[
            unit("ns", &["ns", "nanosecond"], 1.0),
            unit("us", &["μs", "us", "microsecond"], 1e3),
            unit("ms", &["ms", "millisecond"], 1e6),
            unit("s", &["s", "sec", "second"], 1e9),
            unit("hrs", &["hour", "hr"], 3600e9),
        ],
    },
    Family {
        default: ("GCU", 1.0),
        units: &[
            unit("n*GCU", &["nanogcu"], 1e-9),
            unit("u*GCU", &["microgcu"], 1e-6),
            unit("m*GCU", &["milligcu"], 1e-3),
            unit("GCU", &["gcu"], 1.0),
            unit("k*GCU", &["kilogcu"], 1e3),
            unit("M*GCU", &["megagcu"], 1e6),
            unit("G*GCU", &["gigagcu"], 1e9),
            unit("T*GCU", &["teragcu"], 1e12),
            unit("P*GCU", &["petagcu"], 1e15),
        ],
    },
];

impl Family {
    fn find(&self, name: &str) -> Option<&Unit> {
        let name = name.to_lowercase();
        let name = if name.len() > 2 { name.strip_suffix('s').unwrap_or(&name) } else { &name };
        self.units.iter().find(|unit| unit.aliases.contains(&name))
    }

    /// Returns the largest unit in which `value` is at least 1.
    fn fitting(&self, value: f64) -> (&'static str, f64) {
        let fits = self.units.iter().rev().find(|unit| value / unit.factor >= 1.0);
        fits.map_or(self.default, |unit| (unit.name, unit.factor))
    }
}

/// Returns `value` in another unit, and the name of that unit. `auto` and `minimum` pick the unit that fits; a unit
/// that says nothing (`count`) has an empty name.
pub fn scale<'a>(value: i64, from: &str, to: &'a str) -> (f64, &'a str) {
    let magnitude = value.unsigned_abs() as f64;
    let sign = if value < 0 { -1.0 } else { 1.0 };
    for family in FAMILIES {
        let Some(unit) = family.find(from) else { continue };
        let base = magnitude * unit.factor;
        let (name, factor) = match to {
            "minimum" | "auto" => family.fitting(base),
            _ => family.find(to).map_or(family.default, |unit| (unit.name, unit.factor)),
        };
        return (sign * base / factor, name);
    }
    let name = if matches!(to, "count" | "sample" | "unit" | "minimum" | "auto") { "" } else { to };
    (value as f64, name)
}

/// Formats `value` for people, in the unit `to`.
pub fn label_in(value: i64, from: &str, to: &str) -> String {
    let (scaled, unit) = scale(value, from, to);
    let text = format!("{scaled:.2}");
    match text.strip_suffix(".00").unwrap_or(&text) {
        "0" | "-0" => "0".into(),
        number => format!("{number}{unit}"),
    }
}

/// Formats `value` for people, in the unit that fits.
pub fn label(value: i64, unit: &str) -> String {
    label_in(value, unit, "auto")
}

/// Formats the share of `value` in `total`, six characters wide: `12.34%`, `  100%`, ` 0.12%`.
pub fn percentage(value: i64, total: i64) -> String {
    let share = if total == 0 { 0.0 } else { (value as f64 / total as f64).abs() * 100.0 };
    if (99.95..=100.05).contains(&share) {
        "  100%".into()
    } else if share >= 1.0 {
        format!("{share:5.2}%")
    } else {
        format!("{:>5}%", two_significant_digits(share))
    }
}

/// Formats like C's `%.2g`: two significant digits, no trailing zeros, an exponent below 0.0001.
fn two_significant_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let exponent = format!("{value:.1e}");
    let (digits, power) = exponent.split_once('e').expect("formatted with an exponent");
    let power: i32 = power.parse().expect("an exponent is a number");
    if power < -4 {
        let digits = digits.strip_suffix(".0").unwrap_or(digits);
        return format!("{digits}e-{:02}", -power);
    }
    let text = format!("{value:.*}", (1 - power).max(0) as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_string()
}

/// Returns whether values of one unit can be given in the other.
pub fn are_compatible(one: &str, other: &str) -> bool {
    one == other || FAMILIES.iter().any(|family| family.find(one).is_some() && family.find(other).is_some())
}

/// Returns how many `to` one `from` is, for compatible units; 1 for others.
pub fn ratio(from: &str, to: &str) -> f64 {
    let family = FAMILIES.iter().find_map(|family| Some((family.find(from)?, family.find(to)?)));
    family.map_or(1.0, |(from, to)| from.factor / to.factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_pprof_prints_them() {
        assert_eq!(label(1536, "bytes"), "1.50kB");
        assert_eq!(label(10_000_000, "nanoseconds"), "10ms");
        assert_eq!(label(90, "seconds"), "90s");
        assert_eq!(label(7200, "s"), "2hrs");
        assert_eq!(label(42, "count"), "42");
        assert_eq!(label(-2048, "bytes"), "-2kB");
        assert_eq!(label(0, "nanoseconds"), "0");
        assert_eq!(label_in(1, "mb", "kb"), "1024kB");
        assert_eq!(label_in(1500, "ms", "bogus"), "1.50s");
        assert_eq!(label(3, "requests"), "3");
    }

    #[test]
    fn shares_keep_two_digits() {
        assert_eq!(percentage(1, 8), "12.50%");
        assert_eq!(percentage(9996, 10000), "  100%");
        assert_eq!(percentage(1, 800), " 0.12%");
        assert_eq!(percentage(1, 10_000), " 0.01%");
        assert_eq!(percentage(0, 10), "    0%");
        assert_eq!(percentage(1, 3_000_000), "3.3e-05%");
        assert_eq!(percentage(5, 0), "    0%");
    }
}
