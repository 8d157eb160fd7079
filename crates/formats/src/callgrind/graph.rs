//! The call graph of one thread, as in the file.

use flamelet_profile::Budget;
use flamelet_profile::budget::{ALLOCATION, hash_entry};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// A name in the file, of an object, a source file or a function; 0 means not given.
pub(super) type NameId = u32;

/// A function: its object, its file and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionKey {
    pub(super) object: NameId,
    pub(super) file: NameId,
    pub(super) name: NameId,
}

/// Where in a function a cost arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CostPlace {
    pub(super) file: NameId,
    pub(super) line: u32,
    pub(super) address: u64,
}

/// The costs of one place or call, one per event.
pub(super) type Costs = Box<[u64]>;

pub(super) fn add_costs(into: &mut [u64], from: &[u64]) {
    into.iter_mut().zip(from).for_each(|(a, b)| *a = a.saturating_add(*b));
}

/// A function's own costs.
#[derive(Debug, Default)]
pub(super) struct OwnCosts {
    pub(super) own: Vec<(CostPlace, Costs)>,
    own_index: HashMap<CostPlace, usize, FxBuildHasher>,
}

/// The calls from one function to another.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) caller: usize,
    pub(super) callee: usize,
    pub(super) calls: u64,
    pub(super) inclusive: Costs,
    /// Where the most expensive of the calls is made.
    pub(super) place: CostPlace,
    dearest: u64,
}

/// What a function, a place with costs of its own and a call cost, including the tables used to build stacks.
const FUNCTION: usize = size_of::<FunctionKey>()
    + size_of::<OwnCosts>()
    + hash_entry(size_of::<(FunctionKey, usize)>())
    + 8 * size_of::<Vec<usize>>();
const PLACE: usize =
    size_of::<(CostPlace, Costs)>() + hash_entry(size_of::<(CostPlace, usize)>()) + 4 * ALLOCATION;
const EDGE: usize = size_of::<Edge>() + hash_entry(size_of::<((usize, usize), usize)>()) + 4 * ALLOCATION;

/// Functions and calls.
#[derive(Debug)]
pub(super) struct Graph {
    budget: Budget,
    pub(super) functions: Vec<FunctionKey>,
    pub(super) nodes: Vec<OwnCosts>,
    pub(super) edges: Vec<Edge>,
    function_index: HashMap<FunctionKey, usize, FxBuildHasher>,
    edge_index: HashMap<(usize, usize), usize, FxBuildHasher>,
}

impl Graph {
    /// Creates an empty graph.
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            functions: Vec::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
            function_index: HashMap::default(),
            edge_index: HashMap::default(),
        }
    }

    /// Returns the number of a function; when there is no room, that of the first one.
    pub(super) fn function(&mut self, key: FunctionKey) -> usize {
        if let Some(&known) = self.function_index.get(&key) {
            return known;
        }
        if !self.budget.has_room(FUNCTION) && !self.functions.is_empty() {
            return 0;
        }
        self.functions.push(key);
        self.nodes.push(OwnCosts::default());
        self.function_index.insert(key, self.functions.len() - 1);
        self.functions.len() - 1
    }

    /// Adds to a function's own costs.
    pub(super) fn add_own(&mut self, function: usize, place: CostPlace, costs: &[u64]) {
        let node = &mut self.nodes[function];
        match node.own_index.get(&place) {
            Some(&at) => add_costs(&mut node.own[at].1, costs),
            // Charged twice: the costs already spent are stored as well.
            None if self.budget.has_room(PLACE + 2 * size_of_val(costs)) => {
                node.own_index.insert(place, node.own.len());
                node.own.push((place, costs.into()));
            }
            None => {}
        }
    }

    /// Adds calls and their cost, including everything below them.
    pub(super) fn add_calls(
        &mut self,
        caller: usize,
        callee: usize,
        calls: u64,
        place: CostPlace,
        costs: &[u64],
    ) {
        let first = costs.first().copied().unwrap_or(0);
        let Some(&at) = self.edge_index.get(&(caller, callee)) else {
            if self.budget.has_room(EDGE + size_of_val(costs)) {
                self.edge_index.insert((caller, callee), self.edges.len());
                self.edges.push(Edge {
                    caller,
                    callee,
                    calls,
                    inclusive: costs.into(),
                    place,
                    dearest: first,
                });
            }
            return;
        };
        let edge = &mut self.edges[at];
        edge.calls = edge.calls.saturating_add(calls);
        add_costs(&mut edge.inclusive, costs);
        if first > edge.dearest {
            (edge.dearest, edge.place) = (first, place);
        }
    }
}
