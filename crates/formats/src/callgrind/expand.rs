//! Expands a call graph into stacks.
//!
//! A function's costs are distributed to its callers in proportion to what their calls cost (by the first event),
//! theirs to their callers, and so on up to functions without callers. The resulting contexts are expanded from the
//! roots, heaviest first, until their weight is negligible; a call back into a function of the same stack is not
//! followed again. The remainder of a function's costs then goes to the stack of its heaviest callers, so own costs
//! always add up exactly.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use flamelet_profile::{Budget, LabelSetId, Line, LocationId};

use super::graph::{CostPlace, Edge, Graph};
use crate::assembly::Assembly;

/// Contexts below this share of the total are not expanded.
const MIN_SHARE: f64 = 1e-4;
/// If less than this share of a function's costs has no caller, it is rounding.
const MIN_ROOTLESS: f64 = 0.05;
/// The maximum number of contexts, and their maximum depth.
const MAX_CONTEXTS: usize = 50_000;
const MAX_DEPTH: u32 = 256;

/// A function as called by the context `parent`.
struct Context {
    function: usize,
    parent: Option<(usize, usize)>,
    depth: u32,
    /// The share of all executions of the function that this context stands for.
    part: f64,
}

#[derive(PartialEq)]
struct Queued {
    weight: f64,
    context: usize,
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equal weights the older context comes first, so that the result does not depend on the heap.
        self.weight.total_cmp(&other.weight).then(other.context.cmp(&self.context))
    }
}

/// Adds the samples of `graph` to `assembly`, whose columns are the events in order.
pub(super) fn expand(
    graph: &Graph,
    names: &[String],
    addresses: bool,
    labels: LabelSetId,
    assembly: &mut Assembly,
) {
    let shares = Shares::of(graph);
    let budget = assembly.budget().clone();
    let mut unfolding =
        Unfolding { graph, shares: &shares, budget: &budget, contexts: Vec::new(), queue: BinaryHeap::new() };
    unfolding.run();
    let contexts = unfolding.contexts;
    let mut writer = StackWriter {
        graph,
        names,
        addresses,
        labels,
        assembly,
        spent: Spent::of(graph),
        call_sites: vec![None; graph.edges.len()],
        own_places: graph.nodes.iter().map(|node| vec![None; node.own.len()]).collect(),
    };
    for at in (0..contexts.len()).take_while(|_| budget.check().is_ok()) {
        writer.context(&contexts, at);
    }
    for function in (0..graph.functions.len()).take_while(|_| budget.check().is_ok()) {
        writer.rest(function, &shares);
    }
}

/// The call graph, with the share of each function's costs that each caller accounts for.
struct Shares {
    /// Calls from each function (edge numbers), without calls to itself.
    callees: Vec<Vec<usize>>,
    /// By edge.
    share: Vec<f64>,
    /// By function: own costs and those of everything called.
    inclusive: Vec<f64>,
    /// By function: the share of its costs that no caller accounts for. A thread's first function costs everything
    /// the thread does, while the call that started it cost next to nothing.
    rootless: Vec<f64>,
    /// By function: the call of the caller that accounts for most.
    heaviest_caller: Vec<Option<usize>>,
    total: f64,
}

impl Shares {
    fn of(graph: &Graph) -> Self {
        let count = graph.functions.len();
        let (mut callers, mut callees) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut inclusive: Vec<f64> = graph
            .nodes
            .iter()
            .map(|node| node.own.iter().map(|(_, costs)| costs.first().copied().unwrap_or(0) as f64).sum())
            .collect();
        let total = inclusive.iter().sum();
        for (number, edge) in graph.edges.iter().enumerate().filter(|(_, edge)| edge.caller != edge.callee) {
            callers[edge.callee].push(number);
            callees[edge.caller].push(number);
            inclusive[edge.caller] += cost(edge);
        }
        let mut share = vec![0.0; graph.edges.len()];
        let mut rootless = vec![1.0; count];
        for (function, edges) in callers.iter().enumerate().filter(|(_, edges)| !edges.is_empty()) {
            let sum: f64 = edges.iter().map(|&number| cost(&graph.edges[number])).sum();
            let calls: f64 = edges.iter().map(|&number| graph.edges[number].calls as f64).sum();
            let missing = if inclusive[function] > 0.0 { 1.0 - sum / inclusive[function] } else { 0.0 };
            rootless[function] = if missing > MIN_ROOTLESS { missing } else { 0.0 };
            for &number in edges {
                let edge = &graph.edges[number];
                let part = if sum > 0.0 { cost(edge) / sum } else { edge.calls as f64 / calls.max(1.0) };
                share[number] = part * (1.0 - rootless[function]);
            }
        }
        let heavier = |a: &&usize, b: &&usize| share[**a].total_cmp(&share[**b]);
        let heaviest_caller = callers.iter().map(|edges| edges.iter().max_by(heavier).copied()).collect();
        Self { callees, share, inclusive, rootless, heaviest_caller, total }
    }
}

fn cost(edge: &Edge) -> f64 {
    edge.inclusive.first().copied().unwrap_or(0) as f64
}

struct Unfolding<'a> {
    graph: &'a Graph,
    shares: &'a Shares,
    budget: &'a Budget,
    contexts: Vec<Context>,
    queue: BinaryHeap<Queued>,
}

impl Unfolding<'_> {
    fn run(&mut self) {
        for function in 0..self.graph.functions.len() {
            let part = self.shares.rootless[function];
            if part > 0.0 {
                self.push(Context { function, parent: None, depth: 0, part });
            }
        }
        while let Some(Queued { context, .. }) = self.queue.pop() {
            self.unfold(context);
        }
    }

    fn unfold(&mut self, at: usize) {
        let Context { function, depth, part, .. } = self.contexts[at];
        let callees = self.shares.callees[function].len();
        if depth >= MAX_DEPTH || self.contexts.len() >= MAX_CONTEXTS || !self.budget.can_work(callees) {
            return;
        }
        for &edge in &self.shares.callees[function] {
            let callee = self.graph.edges[edge].callee;
            let part = part * self.shares.share[edge];
            // The cheap check comes first: most calls weigh nothing.
            if self.weighs(callee, part) && !self.is_open(at, callee) {
                self.push(Context { function: callee, parent: Some((at, edge)), depth: depth + 1, part });
            }
        }
    }

    /// Returns whether `function` is already in the stack of the context `at`.
    fn is_open(&self, at: usize, function: usize) -> bool {
        self.budget.can_work(self.contexts[at].depth as usize);
        let mut next = Some(at);
        while let Some(at) = next {
            if self.contexts[at].function == function {
                return true;
            }
            next = self.contexts[at].parent.map(|(parent, _)| parent);
        }
        false
    }

    fn weighs(&self, function: usize, part: f64) -> bool {
        let weight = part * self.shares.inclusive[function];
        weight >= self.shares.total * MIN_SHARE && weight > 0.0
    }

    fn push(&mut self, context: Context) {
        if !self.weighs(context.function, context.part) || self.contexts.len() >= MAX_CONTEXTS {
            return;
        }
        let weight = context.part * self.shares.inclusive[context.function];
        self.queue.push(Queued { weight, context: self.contexts.len() });
        self.contexts.push(context);
    }
}

/// How much of each cost has been written, so that rounding errors do not accumulate.
struct Spent {
    parts: Vec<f64>,
    costs: Vec<Vec<Box<[u64]>>>,
}

impl Spent {
    fn of(graph: &Graph) -> Self {
        let zeros = |costs: &[u64]| vec![0; costs.len()].into_boxed_slice();
        Self {
            parts: vec![0.0; graph.nodes.len()],
            costs: graph.nodes.iter().map(|node| node.own.iter().map(|(_, c)| zeros(c)).collect()).collect(),
        }
    }
}

struct StackWriter<'a> {
    graph: &'a Graph,
    names: &'a [String],
    addresses: bool,
    labels: LabelSetId,
    assembly: &'a mut Assembly,
    spent: Spent,
    /// Locations of calls by edge, and of own costs by function and place, filled in on first use.
    call_sites: Vec<Option<LocationId>>,
    own_places: Vec<Vec<Option<LocationId>>>,
}

impl StackWriter<'_> {
    /// Writes a context's share of its function's own costs.
    fn context(&mut self, contexts: &[Context], at: usize) {
        let mut stack = Vec::new();
        let mut next = contexts[at].parent;
        while let Some((parent, edge)) = next {
            stack.push(self.call_site(edge));
            next = contexts[parent].parent;
        }
        let function = contexts[at].function;
        let part = (self.spent.parts[function] + contexts[at].part).min(1.0);
        self.spent.parts[function] = part;
        self.write(function, &stack, part);
    }

    /// Writes what is left of a function's own costs, below its heaviest callers.
    fn rest(&mut self, function: usize, shares: &Shares) {
        let mut stack = Vec::new();
        let mut open = vec![function];
        let mut next = shares.heaviest_caller[function];
        while let Some(edge) = next.filter(|&edge| shares.share[edge] > 0.0) {
            let caller = self.graph.edges[edge].caller;
            if open.contains(&caller) || open.len() > MAX_DEPTH as usize {
                break;
            }
            open.push(caller);
            stack.push(self.call_site(edge));
            next = shares.heaviest_caller[caller];
        }
        self.write(function, &stack, 1.0);
    }

    /// Writes own costs until the share `part` of them is spent. `callers` are innermost first.
    fn write(&mut self, function: usize, callers: &[LocationId], part: f64) {
        if !self.assembly.budget().can_work(callers.len() + self.graph.nodes[function].own.len()) {
            return;
        }
        let mut stack = vec![LocationId::default(); callers.len() + 1];
        stack[1..].copy_from_slice(callers);
        for (index, (place, costs)) in self.graph.nodes[function].own.iter().enumerate() {
            let mut row = None;
            for (column, &cost) in costs.iter().enumerate() {
                let upto = if part >= 1.0 { cost } else { (cost as f64 * part) as u64 };
                let due = upto.saturating_sub(self.spent.costs[function][index][column]);
                if due == 0 {
                    continue;
                }
                self.spent.costs[function][index][column] += due;
                let row = *row.get_or_insert_with(|| {
                    stack[0] = *self.own_places[function][index].get_or_insert_with(|| {
                        location(self.graph, self.names, self.addresses, function, *place, self.assembly)
                    });
                    self.assembly.row(&stack, self.labels)
                });
                self.assembly.add(row, column, i64::try_from(due).unwrap_or(i64::MAX));
            }
        }
    }

    fn call_site(&mut self, number: usize) -> LocationId {
        if let Some(known) = self.call_sites[number] {
            return known;
        }
        let edge = &self.graph.edges[number];
        let own_file = self.graph.functions[edge.caller].file;
        // The caller is shown in its own file: a call inside inlined code has a line number of another file.
        let line = if edge.place.file == own_file { edge.place.line } else { 0 };
        let place = CostPlace { file: own_file, line, address: edge.place.address };
        let site = location(self.graph, self.names, self.addresses, edge.caller, place, self.assembly);
        self.call_sites[number] = Some(site);
        site
    }
}

fn location(
    graph: &Graph,
    names: &[String],
    addresses: bool,
    function: usize,
    place: CostPlace,
    assembly: &mut Assembly,
) -> LocationId {
    let key = graph.functions[function];
    let text = |id: u32| match &*names[id as usize] {
        "???" => "",
        known => known,
    };
    let module =
        Some(text(key.object)).filter(|object| !object.is_empty()).map(|object| assembly.module(object));
    let function = Some(assembly.builder.named_function(&names[key.name as usize], text(place.file)));
    let address = if addresses { place.address } else { 0 };
    assembly.builder.location(module, address, &[Line { function, line: i64::from(place.line), column: 0 }])
}
