//! Rules that need more than a list of functions.

use flamelet_profile::{Profile, unit};
use rustc_hash::FxHashMap;

use super::about::Subject;
use super::facts::Facts;
use super::places::{CodePlace, Matches};
use super::scan::OTHER_CALLS;
use crate::by::add;
use crate::report::sum;
use crate::verdict::GUESSES;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub(super) struct Detected {
    pub(super) value: i64,
    /// The base of its share, if that is not the total of the profile.
    pub(super) base: Option<i64>,
    /// Details to add to the rule's title.
    pub(super) detail: String,
    /// Why this finding matters, and what helps here, if that is not what the rule says.
    pub(super) why: Option<String>,
    pub(super) helps: Option<String>,
    pub(super) places: FxHashMap<CodePlace, i64>,
}

/// One thing that makes a profile poor.
struct Doubt {
    what: String,
    why: &'static str,
    helps: String,
}

pub(super) fn poor_profile(facts: &Facts<'_>) -> Option<Detected> {
    let mut doubts: Vec<Doubt> = [few_samples(facts), few_names(facts)].into_iter().flatten().collect();
    if doubts.is_empty() {
        doubts.extend(none_is_yours(facts));
    }
    doubts.extend(lost_samples(facts));
    doubts.extend(cut_stacks(facts));
    let list = |text: &dyn Fn(&Doubt) -> String| {
        let mut texts: Vec<String> = Vec::new();
        for text in doubts.iter().map(text) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts.join("; ")
    };
    (!doubts.is_empty()).then(|| Detected {
        detail: list(&|doubt| doubt.what.clone()),
        why: Some(list(&|doubt| doubt.why.to_owned())),
        helps: Some(list(&|doubt| doubt.helps.clone())),
        ..Detected::default()
    })
}

fn few_samples(facts: &Facts<'_>) -> Option<Doubt> {
    let what = match facts.observations {
        0 => "it is empty".to_owned(),
        1 => "it has 1 sample".to_owned(),
        few if (few as f64) < GUESSES => format!("it has {few} samples"),
        _ => return None,
    };
    let (why, helps) = match facts.observations {
        0 if facts.about == Subject::Time => (
            "there is no CPU time to explain",
            "profile for longer, under load; `flamelet record --off-cpu` shows where a program waits",
        ),
        _ => ("with few samples, percentages are mostly chance", "profile for longer, under load"),
    };
    Some(Doubt { what, why, helps: helps.to_owned() })
}

fn few_names(facts: &Facts<'_>) -> Option<Doubt> {
    let what = match facts.share(facts.unnamed) {
        share if share > 0.99 => "none of its functions has a name".to_owned(),
        share if share > 0.3 => format!("{:.0} % of it is in functions without names", share * 100.0),
        _ => return None,
    };
    let noted =
        remedy_of_recorder(facts, RUNTIME_NAMES).or_else(|| remedy_of_recorder(facts, "functions of "));
    let helps = noted.unwrap_or_else(|| match facts.is_rust {
        true => "symbols: `debug = \"limited\"` in the release profile, and no `strip`".to_owned(),
        false => "symbols: the debug package of an installed program, `-g` for one that you build, the switch with \
                  which a runtime names its code"
            .to_owned(),
    });
    Some(Doubt { what, why: "functions without names cannot be told apart", helps })
}

/// The part of the recorder's note about functions of a runtime; that about a file names the file.
const RUNTIME_NAMES: &str = " functions without names";

/// Returns what the recorder noted about getting the rest of the `kind` that is missing, which is more precise than a guess:
/// `93 % of the samples have Java functions without names: start java with …`.
fn remedy_of_recorder(facts: &Facts<'_>, kind: &str) -> Option<String> {
    facts.report.profile.comments().find_map(|comment| {
        let (share, rest) = comment.split_once(" % of the ")?;
        let (what, remedy) = rest.split_once(": ")?;
        let is_note = share.bytes().all(|byte| byte.is_ascii_digit()) && what.contains(kind);
        let file = what.split_once("functions of ").and_then(|(_, rest)| rest.strip_suffix(" without names"));
        let remedy = file.map_or_else(|| remedy.to_owned(), |file| format!("for {file}, {remedy}"));
        is_note.then_some(remedy)
    })
}

fn none_is_yours(facts: &Facts<'_>) -> Option<Doubt> {
    // An interpreter has libraries, which may look like yours.
    const HARDLY_ANY: f64 = 0.1;
    let share = facts.share(facts.with_yours);
    if facts.with_yours != 0 && (facts.interpreter.is_none() || share > HARDLY_ANY) {
        return None;
    }
    Some(match &facts.interpreter {
        Some(name) => Doubt {
            what: format!("it shows {name} itself, and not the program that {name} runs"),
            why: "costs of the interpreter do not say which of your functions cause them",
            helps: remedy_of_recorder(facts, RUNTIME_NAMES).unwrap_or_else(|| {
                "a profiler of that language, whose file flamelet can open (`flamelet convert --help`)"
                    .to_owned()
            }),
        },
        None => Doubt {
            what: "none of it is known to be your code".to_owned(),
            why: "costs are charged to your functions, and it is not known which those are",
            helps: "`--mine REGEX`, with a part of the names or files of your functions".to_owned(),
        },
    })
}

fn lost_samples(facts: &Facts<'_>) -> Option<Doubt> {
    let quality = facts.report.profile.quality.as_ref()?;
    let all = quality.samples.saturating_add(quality.lost).max(1);
    let lost = quality.lost as f64 / all as f64;
    (lost > 0.1).then(|| Doubt {
        what: format!("{:.0} % of the samples were lost", lost * 100.0),
        why: "what ran while samples were lost is missing",
        helps: "a lower rate".to_owned(),
    })
}

fn cut_stacks(facts: &Facts<'_>) -> Option<Doubt> {
    let quality = facts.report.profile.quality.as_ref()?;
    let cut = quality.truncated as f64 / quality.samples.max(1) as f64;
    (cut > 0.2).then(|| Doubt {
        what: format!("{:.0} % of the stacks are cut off", cut * 100.0),
        why: "callers above the cut are missing",
        helps: remedy_of_recorder(facts, "stacks")
            .unwrap_or_else(|| "see `flamelet info`, which says what cut them".to_owned()),
    })
}

/// The comment of a profile whose program checks its arithmetic for overflow, which only its binary shows.
pub const OVERFLOW_CHECKS: &str = "flamelet: the program checks arithmetic for overflow";

/// Reports overflow checks. What they cost is not known: they are part of every function.
pub(super) fn overflow_checks(facts: &Facts<'_>) -> Option<Detected> {
    let mut comments = facts.report.profile.comments();
    comments.any(|comment| comment == OVERFLOW_CHECKS).then(Detected::default)
}

/// Reports memory that grew from moment to moment, in a profile that a service made of several moments.
pub(super) fn steady_growth(facts: &Facts<'_>) -> Option<Detected> {
    let Matches { value, places } = &facts.memory.steady_growth;
    // The error of a sampled sum is the square root of its samples: nine are three standard deviations.
    let samples = *value as f64 / facts.report.profile.header.period.max(1) as f64;
    (samples >= 9.0).then(|| Detected {
        value: *value,
        base: Some(facts.memory.grown_bytes),
        detail: bytes(*value),
        places: places.clone(),
        ..Detected::default()
    })
}

pub(super) fn temporary(facts: &Facts<'_>) -> Option<Detected> {
    part(&facts.memory.temporary, facts.memory.allocated_objects, |value, base| {
        format!("{value} of {base} were freed before anything else was allocated")
    })
}

/// Reports bytes that were allocated and never written, which only DHAT counts.
pub(super) fn unwritten(facts: &Facts<'_>) -> Option<Detected> {
    part(&facts.memory.unwritten, facts.memory.allocated_bytes, |value, base| {
        format!("{} of {} were never written", bytes(value), bytes(base))
    })
}

/// Reports a part of `base`, if there is any, in the words of `detail`.
fn part(found: &Matches, base: i64, detail: impl FnOnce(i64, i64) -> String) -> Option<Detected> {
    let Matches { value, places } = found;
    (base > 0 && *value > 0).then(|| Detected {
        value: *value,
        base: Some(base),
        detail: detail(*value, base),
        places: places.clone(),
        ..Detected::default()
    })
}

/// Less than this is the program itself, its stacks and its libraries.
const UNNOTICED: i64 = 64 << 20;

/// Reports resident memory that no live block explains.
pub(super) fn fragmentation(facts: &Facts<'_>) -> Option<Detected> {
    let (resident, live) = (facts.memory.resident?, facts.memory.live_bytes);
    let idle = resident.saturating_sub(live);
    (live > 0 && idle >= UNNOTICED).then(|| Detected {
        value: idle,
        base: Some(resident),
        detail: format!("{} are resident, and live blocks hold {}", bytes(resident), bytes(live)),
        ..Detected::default()
    })
}

fn bytes(value: i64) -> String {
    unit::label(value, "bytes")
}

/// Reports all system calls, and names the most expensive ones.
pub(super) fn system_calls(facts: &Facts<'_>) -> Option<Detected> {
    let all = sum(facts.calls.values().map(|calls| calls.value));
    let mut calls: Vec<_> = facts.calls.iter().collect();
    calls.sort_by(|a, b| b.1.value.cmp(&a.1.value).then_with(|| a.0.cmp(b.0)));
    let shares = calls.iter().map(|(name, calls)| (name, facts.share(calls.value) * 100.0));
    let named = shares.filter(|&(name, share)| name.as_str() != OTHER_CALLS && share >= 0.5).take(3);
    let detail = named.map(|(name, share)| format!("{name} {share:.0} %")).collect::<Vec<_>>().join(", ");
    let places = calls.first().map(|(_, calls)| calls.places.clone()).unwrap_or_default();
    Some(Detected { value: all, detail, places, ..Detected::default() })
}

pub(super) fn one_busy_thread(facts: &Facts<'_>) -> Option<Detected> {
    let by_name = || {
        let threads = facts.threads.iter();
        threads.map(|((process, name), total)| (process.clone(), name.clone(), *total)).collect()
    };
    let threads = timeline_threads(&facts.report.profile).unwrap_or_else(by_name);
    let (process, name, value) = threads.iter().max_by(|a, b| (a.2, &b.1).cmp(&(b.2, &a.1)))?;
    // The programs that a script starts are no threads that could take over some of the work.
    let beside = threads.iter().filter(|(other, ..)| other == process).count();
    let is_known = beside >= 3 && !["", "<unknown>"].contains(&name.as_str());
    let all = sum(threads.iter().map(|(.., total)| *total));
    (is_known && all > 0 && *value as f64 >= 0.8 * all as f64).then(|| Detected {
        value: *value,
        base: Some(all),
        detail: format!("{name}, one of {beside} threads"),
        ..Detected::default()
    })
}

/// Returns the process, the name and the total of each thread that the timeline knows: threads of a pool may share a
/// name, and a thread may change its own.
fn timeline_threads(profile: &Profile) -> Option<Vec<(String, String, i64)>> {
    let timeline = profile.timeline.as_ref().filter(|timeline| !timeline.events.is_empty())?;
    let mut threads: FxHashMap<(u64, u64), (&str, i64)> = FxHashMap::default();
    for event in &timeline.events {
        let thread = timeline.threads.get(event.thread.index())?;
        let (name, total) = threads.entry((thread.pid, thread.tid)).or_default();
        *name = profile.string(thread.name);
        add(total, event.value);
    }
    let threads = threads.into_iter();
    Some(threads.map(|((pid, _), (name, total))| (pid.to_string(), name.to_owned(), total)).collect())
}

/// Waits that add up to less than this, in nanoseconds, are not worth a word: 100 ms since the start, or 2 % of the time that
/// was watched.
const SLIGHT: i64 = 100_000_000;

/// Reports waits by the places that cause them, unless they are slight.
fn waited(facts: &Facts<'_>, Matches { value, places }: &Matches) -> Option<Detected> {
    let watched = facts.report.profile.header.duration_nanos;
    let least = if watched > 0 { watched / 50 } else { SLIGHT };
    let is_time = facts.report.unit() == "nanoseconds";
    (is_time && *value >= least && !places.is_empty()).then(|| Detected {
        value: *value,
        base: Some(*value),
        detail: unit::label(*value, "nanoseconds"),
        places: places.clone(),
        ..Detected::default()
    })
}

pub(super) fn contended_lock(facts: &Facts<'_>) -> Option<Detected> {
    waited(facts, &facts.waits.taken)
}

pub(super) fn lock_holder(facts: &Facts<'_>) -> Option<Detected> {
    waited(facts, &facts.waits.held)
}

/// Reports the one place where requests spend most of their awaiting.
pub(super) fn dominant_await(facts: &Facts<'_>) -> Option<Detected> {
    // Where it is known which requests were slow, those count.
    let of_slow = &facts.waits.of_slow.all;
    let is_slow = waited(facts, of_slow).is_some();
    let all = if is_slow { of_slow } else { &facts.waits.awaits.all };
    let (place, &value) =
        all.places.iter().max_by_key(|(place, value)| (**value, std::cmp::Reverse(**place)))?;
    let found = Matches { value, places: [(*place, value)].into_iter().collect() };
    let found = waited(facts, &found)?;
    let whose = if is_slow { ", of requests slower than the p99 of their route" } else { "" };
    let detail = format!("{} of {}{whose}", found.detail, unit::label(all.value, "nanoseconds"));
    Some(Detected { base: Some(all.value), detail, ..found })
}

pub(super) fn undersized_pool(facts: &Facts<'_>) -> Option<Detected> {
    let found = waited(facts, &facts.waits.awaits.pools)?;
    Some(Detected { base: Some(facts.waits.awaits.all.value), ..found })
}

/// Reports polls that took long, and what held them up.
pub(super) fn blocked_executor(facts: &Facts<'_>) -> Option<Detected> {
    let found = waited(facts, &facts.waits.polls)?;
    let mut causes: Vec<_> = facts.waits.causes.iter().collect();
    causes.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let share = |value: i64| value as f64 * 100.0 / found.value as f64;
    let causes: Vec<String> =
        causes.iter().map(|(cause, value)| format!("{cause} {:.0} %", share(**value))).collect();
    Some(Detected { detail: format!("{} by {}", found.detail, causes.join(", ")), ..found })
}

/// Reports a pool of threads of which one does most of the work. Threads of a pool belong to the same process and have the
/// same name, but for a number. A process' main thread is none of them: threads without a name of their own are called
/// like it.
pub(super) fn worker_imbalance(facts: &Facts<'_>) -> Option<Detected> {
    let profile = &facts.report.profile;
    let timeline = profile.timeline.as_ref()?;
    let mut pools: FxHashMap<(u64, &str), FxHashMap<u32, i64>> = FxHashMap::default();
    for event in &timeline.events {
        let thread = timeline.threads.get(event.thread.index())?;
        if thread.pid != 0 && thread.pid == thread.tid {
            continue;
        }
        let name = profile.string(thread.name).trim_end_matches(|letter: char| letter.is_ascii_digit());
        let workers = pools.entry((thread.pid, name)).or_default();
        add(workers.entry(event.thread.index() as u32).or_default(), event.value);
    }
    let all = sum(timeline.events.iter().map(|event| event.value));
    let ((_, name), workers) =
        pools.iter().max_by_key(|(pool, workers)| (sum(workers.values().copied()), **pool))?;
    let (total, most) = (sum(workers.values().copied()), workers.values().copied().max()?);
    let is_a_pool = workers.len() >= 3 && !name.is_empty() && total as f64 >= 0.5 * all as f64;
    (is_a_pool && most as f64 >= 0.7 * total as f64).then(|| Detected {
        value: most,
        base: Some(total),
        detail: format!("one of {} threads called {name:?}", workers.len()),
        ..Detected::default()
    })
}

/// Reports a function of yours with much of the time, nearly all of it in at most three of its lines.
pub(super) fn few_lines(facts: &Facts<'_>) -> Option<Detected> {
    let mut functions: FxHashMap<_, Vec<_>> = FxHashMap::default();
    for (place, &value) in facts.places.iter().filter(|(place, _)| place.line > 0) {
        functions.entry(place.function).or_default().push((*place, value));
    }
    let total = |lines: &[(_, i64)]| sum(lines.iter().map(|(_, value)| *value));
    let (_, mut lines) =
        functions.into_iter().max_by_key(|(function, lines)| (total(lines), std::cmp::Reverse(*function)))?;
    let all = total(&lines);
    lines.sort_by_key(|(place, value)| (std::cmp::Reverse(*value), *place));
    let top: Vec<_> = lines.iter().take(3).copied().collect();
    let is_clear =
        facts.share(all) >= 0.15 && lines.len() > 2 * top.len() && total(&top) as f64 >= 0.8 * all as f64;
    is_clear.then(|| Detected {
        value: total(&top),
        detail: format!("{} of {} lines", top.len(), lines.len()),
        places: top.into_iter().collect(),
        ..Detected::default()
    })
}

/// Reports at most three functions of yours that hold four fifths of the memory.
pub(super) fn few_owners(facts: &Facts<'_>) -> Option<Detected> {
    // What was allocated, freed or added since is not what is held.
    let kind = facts.report.value_name();
    if ["alloc", "freed", "temporary", "growth"].iter().any(|start| kind.starts_with(start)) {
        return None;
    }
    let mut functions: FxHashMap<_, i64> = FxHashMap::default();
    for (place, &value) in &facts.places {
        add(functions.entry(CodePlace { line: 0, ..*place }).or_default(), value);
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(place, value)| (std::cmp::Reverse(*value), *place));
    functions.truncate(3);
    let value = sum(functions.iter().map(|(_, value)| *value));
    (facts.share(value) >= 0.8).then(|| Detected {
        value,
        places: functions.into_iter().collect(),
        ..Detected::default()
    })
}
