//! Writes an output file: own costs by line, and calls with their costs, summed over all stacks.

use std::collections::BTreeMap;
use std::io::Write;

use flamelet_profile::{Profile, Result};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use crate::frames::{FrameTable, WrittenFrame, value_type};
use crate::output::Output;

/// A function by module, file and name.
type Key<'a> = (&'a str, &'a str, &'a str);

#[derive(Default)]
struct FunctionCosts<'a> {
    own: BTreeMap<i64, Vec<i64>>,
    /// Call counts and costs, by the line of the call and the called function.
    calls: BTreeMap<(i64, Key<'a>), (u64, Vec<i64>)>,
}

/// Writes every value of the profile as an event.
pub(crate) fn write(profile: &Profile, Output { out, notes, .. }: Output<'_>) -> Result<()> {
    notes.dropped_labels(profile);
    notes.dropped_timeline(profile);
    notes.dropped_places(profile, "addresses");
    if profile.comments().any(|comment| !comment.starts_with("callgrind: cmd ")) {
        notes.dropped_comments(profile);
    }
    notes.push("the number of calls is unknown: each sample counts as one call".into());
    let width = profile.sample_types().len();
    let stacks = stacks(profile);
    let mut functions: BTreeMap<Key<'_>, FunctionCosts<'_>> = BTreeMap::new();
    let mut negative = 0u64;
    for (sample, stack) in profile.samples().zip(&stacks.by_sample) {
        negative += u64::from(sample.values.iter().any(|&value| value < 0));
        let frames: Vec<&WrittenFrame> = stack.iter().map(|&frame| &stacks.frames[frame as usize]).collect();
        add_sample(&mut functions, &frames, sample.values, width);
    }
    if negative > 0 {
        notes.push(format!("callgrind has no negative costs: {negative} samples count as 0"));
    }
    write_header(profile, out)?;
    let mut names = NameTables::default();
    for (&(module, file, name), costs) in &functions {
        writeln!(out, "ob={}", names.objects.short(module))?;
        writeln!(out, "fl={}", names.files.short(file))?;
        writeln!(out, "fn={}", names.functions.short(name))?;
        write_function(out, costs, &mut names)?;
        writeln!(out)?;
    }
    let totals: Vec<i64> = (0..width).map(|index| profile.total(index).max(0)).collect();
    writeln!(out, "totals:{}", spaced(&totals))?;
    Ok(())
}

struct WrittenStacks {
    frames: Vec<WrittenFrame>,
    /// Root first.
    by_sample: Vec<Vec<u32>>,
}

fn stacks(profile: &Profile) -> WrittenStacks {
    let mut table = FrameTable::with_lines(profile);
    let mut stack = Vec::new();
    let by_sample = profile
        .samples()
        .map(|sample| {
            table.stack(sample.stack, &mut stack);
            stack.clone()
        })
        .collect();
    WrittenStacks { frames: table.frames().to_vec(), by_sample }
}

fn key(frame: &WrittenFrame) -> Key<'_> {
    (&frame.module, &frame.file, &frame.name)
}

fn add_sample<'a>(
    functions: &mut BTreeMap<Key<'a>, FunctionCosts<'a>>,
    frames: &[&'a WrittenFrame],
    values: &[i64],
    width: usize,
) {
    let add = |into: &mut Vec<i64>| {
        into.resize(width, 0);
        into.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add((*value).max(0)));
    };
    let Some(leaf) = frames.last() else { return };
    add(functions.entry(key(leaf)).or_default().own.entry(leaf.line).or_default());
    // A call that recursion repeats in one stack must count once; otherwise it would cost more than the total.
    let mut seen = HashSet::default();
    for pair in frames.windows(2) {
        let (caller, callee) = (pair[0], pair[1]);
        if seen.insert((key(caller), key(callee))) {
            let calls = &mut functions.entry(key(caller)).or_default().calls;
            let entry = calls.entry((caller.line, key(callee))).or_default();
            entry.0 += 1;
            add(&mut entry.1);
        }
    }
}

fn write_header(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "# callgrind format\nversion: 1\ncreator: flamelet")?;
    for comment in profile.comments() {
        if let Some(command) = comment.strip_prefix("callgrind: cmd ") {
            writeln!(out, "cmd: {command}")?;
        }
    }
    writeln!(out, "positions: line")?;
    let event = |index| {
        let (kind, unit) = value_type(profile, index);
        let word = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
        if unit.is_empty() || unit == "count" { word(kind) } else { format!("{}_{}", word(kind), word(unit)) }
    };
    let events: Vec<_> = (0..profile.sample_types().len()).map(event).collect();
    writeln!(out, "events: {}\n", events.join(" "))?;
    Ok(())
}

fn write_function(out: &mut dyn Write, costs: &FunctionCosts<'_>, names: &mut NameTables) -> Result<()> {
    for (line, values) in &costs.own {
        writeln!(out, "{}{}", (*line).max(0), spaced(values))?;
    }
    for ((line, (module, file, name)), (calls, values)) in &costs.calls {
        writeln!(out, "cob={}", names.objects.short(module))?;
        writeln!(out, "cfi={}", names.files.short(file))?;
        writeln!(out, "cfn={}", names.functions.short(name))?;
        writeln!(out, "calls={calls} 0")?;
        writeln!(out, "{}{}", (*line).max(0), spaced(values))?;
    }
    Ok(())
}

fn spaced(values: &[i64]) -> String {
    values.iter().map(|value| format!(" {value}")).collect()
}

#[derive(Default)]
struct NameTables {
    objects: WrittenNames,
    files: WrittenNames,
    functions: WrittenNames,
}

/// Gives each name a number, and writes the name only on first use.
#[derive(Default)]
struct WrittenNames(HashMap<String, usize>);

impl WrittenNames {
    fn short(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "???" } else { name };
        if let Some(number) = self.0.get(name) {
            return format!("({number})");
        }
        let number = self.0.len() + 1;
        self.0.insert(name.into(), number);
        format!("({number}) {}", name.replace(['\n', '\r'], " "))
    }
}
