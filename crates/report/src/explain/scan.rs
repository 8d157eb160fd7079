//! One walk along all stacks, for all rules: stacks that look the same to every rule are added up.

use std::num::Saturating;

use flamelet_profile::{FunctionId, Line, Location, LocationId, Profile};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::about::{Subject, about};
use super::functions::Functions;
use super::places::{CodePlace, is_charged};
use crate::by::{add, path_of};
use crate::report::Report;
use crate::stacks::FrameTable;
use crate::stacks::walk::{OpenFrame, Visitor, walk};

/// What a rule looks for in each stack.
#[derive(Clone, Copy)]
pub(super) enum StackPattern<'r> {
    Anywhere(&'r Functions),
    Both(&'r Functions, &'r Functions),
    Leaf(&'r Functions),
    LeafWithout(&'r Functions, &'r Functions),
    Innermost(&'r Functions),
    Nothing,
}

/// What rules see in a stack.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct StackFindings {
    /// The rules that match: one bit each.
    pub(super) rules: u64,
    /// The innermost frame of yours.
    pub(super) place: Option<CodePlace>,
    /// The innermost kernel entry function of a system call.
    pub(super) call: Option<FunctionId>,
    pub(super) has_yours: bool,
    /// The innermost frame has no name.
    pub(super) is_unnamed: bool,
}

/// Returns what rules see in the stacks of `report`, and what those cost. There are at most 64 rules.
pub(super) fn scan(
    report: &Report,
    owners: &Owners,
    wanted: &[StackPattern<'_>],
) -> FxHashMap<StackFindings, i64> {
    let profile = &report.profile;
    let (table, looks) = looks(profile, owners, about(report), wanted);
    let both = wanted.iter().enumerate().filter(|(_, wanted)| matches!(wanted, StackPattern::Both(..)));
    let both = both.fold(0, |bits, (bit, _)| bits | 1 << bit);
    let mut scan = Scan { looks: &looks, both, path: Vec::new(), sums: FxHashMap::default() };
    walk(profile, &table, looks.len(), report.values_of_samples(), &mut scan);
    scan.sums
}

/// Which rules a function matches: one bit each.
#[derive(Clone, Copy, Default)]
struct Masks {
    anywhere: u64,
    /// The other function of rules that look for two.
    other: u64,
    leaf: u64,
    /// What must not be inlined next to the leaf of rules that look for one.
    leaf_other: u64,
    innermost: u64,
}

/// What rules see in one frame; and, added up from the root, in a stack that ends there.
#[derive(Clone, Copy, Default)]
struct FrameMatches {
    masks: Masks,
    place: Option<CodePlace>,
    call: Option<FunctionId>,
    has_yours: bool,
    is_unnamed: bool,
}

impl FrameMatches {
    /// Returns what rules see in a stack that ends in `frame`, called by `self`.
    fn with(self, frame: &Self, is_inlined: bool) -> Self {
        let masks = Masks {
            anywhere: self.masks.anywhere | frame.masks.anywhere,
            other: self.masks.other | frame.masks.other,
            leaf: if is_inlined { self.masks.leaf | frame.masks.leaf } else { frame.masks.leaf },
            leaf_other: if is_inlined {
                self.masks.leaf_other | frame.masks.leaf_other
            } else {
                frame.masks.leaf_other
            },
            // That of the function the code is compiled into, not of one that was inlined there.
            innermost: if is_inlined { self.masks.innermost } else { frame.masks.innermost },
        };
        Self {
            masks,
            place: frame.place.or(self.place),
            call: frame.call.or(self.call),
            has_yours: self.has_yours || frame.has_yours,
            is_unnamed: if is_inlined { self.is_unnamed } else { frame.is_unnamed },
        }
    }
}

struct Scan<'l> {
    looks: &'l [FrameMatches],
    /// The rules that look for two functions: one bit each.
    both: u64,
    path: Vec<FrameMatches>,
    sums: FxHashMap<StackFindings, i64>,
}

impl Visitor<Saturating<i64>> for Scan<'_> {
    fn enter(
        &mut self,
        _: &[OpenFrame<Saturating<i64>>],
        frame: &OpenFrame<Saturating<i64>>,
        is_inlined: bool,
    ) {
        let above = self.path.last().copied().unwrap_or_default();
        self.path.push(above.with(&self.looks[frame.entry as usize], is_inlined));
    }

    fn end(&mut self, _: &OpenFrame<Saturating<i64>>, weight: Saturating<i64>) {
        let FrameMatches { masks, place, call, has_yours, is_unnamed } =
            self.path.last().copied().unwrap_or_default();
        let rules =
            masks.anywhere & (masks.other | !self.both) | masks.leaf & !masks.leaf_other | masks.innermost;
        add(
            self.sums.entry(StackFindings { rules, place, call, has_yours, is_unnamed }).or_default(),
            weight.0,
        );
    }

    fn end_empty(&mut self, weight: Saturating<i64>) {
        add(
            self.sums.entry(StackFindings { is_unnamed: true, ..StackFindings::default() }).or_default(),
            weight.0,
        );
    }

    fn leave(&mut self, _: &OpenFrame<Saturating<i64>>) {
        self.path.pop();
    }
}

/// Returns what rules see in the frames of each location.
fn looks(
    profile: &Profile,
    owners: &Owners,
    about: Subject,
    wanted: &[StackPattern<'_>],
) -> (FrameTable, Vec<FrameMatches>) {
    let functions = (0..profile.functions().len()).map(FunctionId::from_index);
    let functions: Vec<FrameMatches> =
        functions.map(|id| look_of(profile, owners, about, wanted, id)).collect();
    let mut looks = Vec::new();
    let mut known: FxHashMap<(Option<FunctionId>, i64, bool), u32> = FxHashMap::default();
    let mut row = |location: &Location, line: Option<&Line>| {
        let function = line.and_then(|line| line.function);
        let is_yours = line.is_none() && owners.of_mapping(location.mapping).is_yours();
        let number = line.filter(|_| function.is_some_and(|id| functions[id.index()].has_yours));
        let number = number.map_or(0, |line| line.line);
        *known.entry((function, number, is_yours)).or_insert_with(|| {
            looks.push(match function.map(|id| functions[id.index()]) {
                Some(look) => FrameMatches {
                    place: look.place.map(|place| CodePlace { line: number, ..place }),
                    ..look
                },
                None => FrameMatches { has_yours: is_yours, is_unnamed: true, ..FrameMatches::default() },
            });
            u32::try_from(looks.len() - 1).unwrap_or(u32::MAX)
        })
    };
    let mut table = FrameTable::with_capacity(profile.locations().len());
    for id in (0..profile.locations().len()).map(LocationId::from_index) {
        let location = profile.location(id);
        match profile.lines(id) {
            [] => table.push([row(location, None)]),
            lines => table.push(lines.iter().map(|line| row(location, Some(line)))),
        }
    }
    (table, looks)
}

fn look_of(
    profile: &Profile,
    owners: &Owners,
    about: Subject,
    wanted: &[StackPattern<'_>],
    id: FunctionId,
) -> FrameMatches {
    let function = profile.function(id);
    let (name, file) = (profile.string(function.name), profile.string(function.filename));
    let is_yours = is_charged(profile, owners, about, id);
    FrameMatches {
        masks: masks(name, file, wanted),
        place: is_yours.then_some(CodePlace { function: id, line: 0 }),
        call: system_call(name).map(|_| id),
        has_yours: is_yours,
        is_unnamed: false,
    }
}

fn masks(name: &str, file: &str, wanted: &[StackPattern<'_>]) -> Masks {
    let path = path_of(name, file);
    let bit = |functions: &Functions, bit: usize| u64::from(functions.has(&path, name)) << bit;
    let mut masks = Masks::default();
    for (at, wanted) in wanted.iter().enumerate() {
        match wanted {
            StackPattern::Anywhere(functions) => masks.anywhere |= bit(functions, at),
            StackPattern::Both(functions, others) => {
                masks.anywhere |= bit(functions, at);
                masks.other |= bit(others, at);
            }
            StackPattern::Leaf(functions) => masks.leaf |= bit(functions, at),
            StackPattern::LeafWithout(functions, others) => {
                masks.leaf |= bit(functions, at);
                masks.leaf_other |= bit(others, at);
            }
            StackPattern::Innermost(functions) => masks.innermost |= bit(functions, at),
            StackPattern::Nothing => {}
        }
    }
    masks
}

/// Every system call whose own function left no frame.
pub(super) const OTHER_CALLS: &str = "";

/// What the functions of some system calls jump to: then only that has a frame.
const JUMPED_TO: &[(&str, &str)] = &[
    ("do_readv", "readv"),
    ("do_writev", "writev"),
    ("do_preadv", "preadv"),
    ("do_pwritev", "pwritev"),
    ("do_sendfile", "sendfile"),
    ("do_epoll_wait", "epoll_wait"),
    ("do_epoll_ctl", "epoll_ctl"),
    ("do_sys_poll", "poll"),
    ("do_futex", "futex"),
    ("do_sys_openat2", "openat"),
    ("__sys_sendto", "sendto"),
    ("__sys_recvfrom", "recvfrom"),
    ("__sys_sendmsg", "sendmsg"),
    ("__sys_recvmsg", "recvmsg"),
    ("__sys_connect", "connect"),
    ("__sys_accept4", "accept4"),
];

/// Returns the system call of a kernel entry function: `read` for `__x64_sys_read`.
pub(super) fn system_call(name: &str) -> Option<&str> {
    if ["do_syscall_64", "entry_SYSCALL_64_after_hwframe", "el0_svc"].contains(&name) {
        return Some(OTHER_CALLS);
    }
    if let Some(&(_, call)) = JUMPED_TO.iter().find(|(function, _)| *function == name) {
        return Some(call);
    }
    ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
}
