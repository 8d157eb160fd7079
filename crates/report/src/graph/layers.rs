//! A layered layout: callers above callees, few crossings, long edges routed around the boxes between.

use std::cmp::Ordering;

/// The size of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The positions of boxes and edges.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// The centre of each box.
    pub(crate) boxes: Vec<(f64, f64)>,
    /// For each edge, the points it passes, from caller to callee.
    pub(crate) paths: Vec<Vec<(f64, f64)>>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A call between two boxes. The heavier it is, the closer they are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxCall {
    pub(crate) caller: usize,
    pub(crate) callee: usize,
    pub(crate) weight: f64,
}

/// The gaps between boxes of a layer and between layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    pub(crate) boxes: f64,
    pub(crate) layers: f64,
}

/// An even number: the last sweep goes up, which centres callers above their callees.
const SWEEPS: usize = 12;

/// Lays out boxes of these sizes.
pub(crate) fn place(sizes: &[Size], calls: &[BoxCall], gaps: Gaps) -> Placed {
    let edges: Vec<(usize, usize)> = calls.iter().map(|call| (call.caller, call.callee)).collect();
    let edges = &edges;
    if sizes.is_empty() {
        return Placed::default();
    }
    let weights: Vec<f64> = calls.iter().map(|call| call.weight).collect();
    let downward = break_cycles(sizes.len(), edges, &weights);
    let layer_of = layers(sizes.len(), &downward);
    let mut grid = Grid::new(sizes, &downward, &weights, &layer_of, gaps);
    grid.order();
    grid.spread();
    grid.finish(sizes, edges, &downward)
}

/// Returns the edges as (upper, lower): calls back to a caller are reversed, so that all edges go down. A search along the
/// calls starts at boxes without a caller, then at those that call the most more than they are called, so that of a
/// cycle a light call is reversed.
fn break_cycles(boxes: usize, edges: &[(usize, usize)], weights: &[f64]) -> Vec<(usize, usize)> {
    let mut outgoing = vec![Vec::new(); boxes];
    let mut has_caller = vec![false; boxes];
    let mut surplus = vec![0.0; boxes];
    for (at, (&(caller, callee), weight)) in edges.iter().zip(weights).enumerate() {
        outgoing[caller].push(at);
        has_caller[callee] = true;
        surplus[caller] += weight;
        surplus[callee] -= weight;
    }
    #[derive(Clone, Copy, PartialEq)]
    enum NodeVisit {
        New,
        Open,
        Done,
    }
    let mut state = vec![NodeVisit::New; boxes];
    let mut downward = edges.to_vec();
    let mut roots: Vec<usize> = (0..boxes).collect();
    roots.sort_by(|&a, &b| {
        has_caller[a].cmp(&has_caller[b]).then_with(|| match has_caller[a] {
            true => surplus[b].total_cmp(&surplus[a]),
            false => Ordering::Equal,
        })
    });
    for root in roots {
        if state[root] != NodeVisit::New {
            continue;
        }
        state[root] = NodeVisit::Open;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&edge) = outgoing[*node].get(*next) else {
                state[*node] = NodeVisit::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let (caller, callee) = edges[edge];
            match state[callee] {
                NodeVisit::Open => downward[edge] = (callee, caller),
                NodeVisit::New => {
                    state[callee] = NodeVisit::Open;
                    path.push((callee, 0));
                }
                NodeVisit::Done => {}
            }
        }
    }
    downward
}

/// Returns the layer of each box: one below its lowest caller.
fn layers(boxes: usize, downward: &[(usize, usize)]) -> Vec<usize> {
    let mut waiting = vec![0usize; boxes];
    let mut below = vec![Vec::new(); boxes];
    for &(upper, lower) in downward.iter().filter(|(upper, lower)| upper != lower) {
        waiting[lower] += 1;
        below[upper].push(lower);
    }
    let mut layer = vec![0; boxes];
    let mut ready: Vec<usize> = (0..boxes).filter(|&node| waiting[node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &lower in &below[node] {
            layer[lower] = layer[lower].max(layer[node] + 1);
            waiting[lower] -= 1;
            if waiting[lower] == 0 {
                ready.push(lower);
            }
        }
    }
    layer
}

/// A box, or a point on a long edge.
#[derive(Clone, Debug)]
struct GridCell {
    width: f64,
    x: f64,
    /// Its neighbours in the layers above and below, with weights.
    above: Vec<(usize, f64)>,
    below: Vec<(usize, f64)>,
}

impl GridCell {
    fn neighbours(&self, are_above: bool) -> &[(usize, f64)] {
        if are_above { &self.above } else { &self.below }
    }
}

/// Boxes first, then the points of long edges.
struct Grid {
    cells: Vec<GridCell>,
    layers: Vec<Vec<usize>>,
    heights: Vec<f64>,
    layer_of: Vec<usize>,
    /// For each edge, its cells from the upper to the lower end.
    chains: Vec<Vec<usize>>,
    gaps: Gaps,
}

impl Grid {
    fn new(
        sizes: &[Size],
        downward: &[(usize, usize)],
        weights: &[f64],
        layer_of: &[usize],
        gaps: Gaps,
    ) -> Self {
        let count = layer_of.iter().max().map_or(0, |last| last + 1);
        let cell = |width: f64| GridCell { width, x: 0.0, above: Vec::new(), below: Vec::new() };
        let mut grid = Self {
            cells: sizes.iter().map(|size| cell(size.width)).collect(),
            layers: vec![Vec::new(); count],
            heights: vec![0.0; count],
            layer_of: layer_of.to_vec(),
            chains: Vec::with_capacity(downward.len()),
            gaps,
        };
        for (node, &layer) in layer_of.iter().enumerate() {
            grid.layers[layer].push(node);
            grid.heights[layer] = grid.heights[layer].max(sizes[node].height);
        }
        for (&(upper, lower), &weight) in downward.iter().zip(weights) {
            let mut chain = vec![upper];
            for layer in layer_of[upper] + 1..layer_of[lower] {
                grid.cells.push(cell(8.0));
                grid.layer_of.push(layer);
                grid.layers[layer].push(grid.cells.len() - 1);
                chain.push(grid.cells.len() - 1);
            }
            chain.push(lower);
            for pair in chain.windows(2).filter(|pair| pair[0] != pair[1]) {
                grid.cells[pair[0]].below.push((pair[1], weight));
                grid.cells[pair[1]].above.push((pair[0], weight));
            }
            grid.chains.push(chain);
        }
        grid
    }

    /// Sorts each layer by the mean position of its neighbours, sweeping down and up.
    fn order(&mut self) {
        let mut place = vec![0.0; self.cells.len()];
        for layer in &self.layers {
            layer.iter().enumerate().for_each(|(at, &cell)| place[cell] = at as f64);
        }
        for sweep in 0..SWEEPS {
            let goes_down = sweep % 2 == 0;
            let count = self.layers.len();
            for step in 0..count {
                let layer = if goes_down { step } else { count - 1 - step };
                let key = |cell: usize| {
                    let neighbours = self.cells[cell].neighbours(goes_down).iter();
                    mean(neighbours.map(|&(other, weight)| (place[other], weight))).unwrap_or(place[cell])
                };
                let mut keyed: Vec<(f64, usize)> = self.layers[layer].iter().map(|&c| (key(c), c)).collect();
                keyed.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
                keyed.iter().enumerate().for_each(|(at, &(_, cell))| place[cell] = at as f64);
                self.layers[layer] = keyed.into_iter().map(|(_, cell)| cell).collect();
            }
        }
    }

    /// Moves each cell towards its neighbours, as far as the layer has room, sweeping down and up.
    fn spread(&mut self) {
        for layer in self.layers.clone() {
            let mut x = 0.0;
            for cell in layer {
                self.cells[cell].x = x + self.cells[cell].width / 2.0;
                x += self.cells[cell].width + self.gaps.boxes;
            }
        }
        for sweep in 0..SWEEPS {
            let goes_down = sweep % 2 == 0;
            let mut layers = self.layers.clone();
            if !goes_down {
                layers.reverse();
            }
            for layer in layers {
                let x = |cell: usize| {
                    let neighbours = self.cells[cell].neighbours(goes_down).iter();
                    let middle = mean(neighbours.map(|&(other, weight)| (self.cells[other].x, weight)));
                    middle.unwrap_or(self.cells[cell].x)
                };
                let wanted: Vec<f64> = layer.iter().map(|&cell| x(cell)).collect();
                self.settle(&layer, &wanted);
            }
        }
    }

    /// Places a layer as close to the wanted positions as its order and widths allow: pushed once from the left and
    /// once from the right, then the mean of both.
    fn settle(&mut self, layer: &[usize], wanted: &[f64]) {
        let gap = |a: usize, b: usize| (self.cells[a].width + self.cells[b].width) / 2.0 + self.gaps.boxes;
        let mut from_left = wanted.to_vec();
        for at in 1..layer.len() {
            from_left[at] = from_left[at].max(from_left[at - 1] + gap(layer[at - 1], layer[at]));
        }
        let mut from_right = wanted.to_vec();
        for at in (0..layer.len().saturating_sub(1)).rev() {
            from_right[at] = from_right[at].min(from_right[at + 1] - gap(layer[at], layer[at + 1]));
        }
        for (at, &cell) in layer.iter().enumerate() {
            self.cells[cell].x = (from_left[at] + from_right[at]) / 2.0;
        }
    }

    fn finish(mut self, sizes: &[Size], edges: &[(usize, usize)], downward: &[(usize, usize)]) -> Placed {
        let left = |cell: &GridCell| cell.x - cell.width / 2.0;
        let start = self.cells.iter().map(left).fold(f64::INFINITY, f64::min);
        self.cells.iter_mut().for_each(|cell| cell.x -= start);
        let width = self.cells.iter().map(|cell| cell.x + cell.width / 2.0).fold(0.0, f64::max);
        let mut middle = Vec::with_capacity(self.heights.len());
        let mut y = 0.0;
        for height in &self.heights {
            middle.push(y + height / 2.0);
            y += height + self.gaps.layers;
        }
        let at = |cell: usize| (self.cells[cell].x, middle[self.layer_of[cell]]);
        let paths = self
            .chains
            .iter()
            .zip(edges.iter().zip(downward))
            .map(|(chain, (edge, down))| {
                let mut points: Vec<(f64, f64)> = chain.iter().map(|&cell| at(cell)).collect();
                let last = points.len() - 1;
                points[0].1 += sizes[chain[0]].height / 2.0;
                points[last].1 -= sizes[chain[last]].height / 2.0;
                if edge != down {
                    points.reverse();
                }
                points
            })
            .collect();
        Placed {
            boxes: (0..sizes.len()).map(at).collect(),
            paths,
            width,
            height: (y - self.gaps.layers).max(0.0),
        }
    }
}

/// Returns the weighted mean of values.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) =
        values.fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
    (weights > 0.0).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Size = Size { width: 100.0, height: 30.0 };

    fn placed(boxes: usize, edges: &[(usize, usize)]) -> Placed {
        let call = |&(caller, callee): &(usize, usize)| BoxCall { caller, callee, weight: 1.0 };
        let calls: Vec<BoxCall> = edges.iter().map(call).collect();
        place(&vec![BOX; boxes], &calls, Gaps { boxes: 20.0, layers: 40.0 })
    }

    #[test]
    fn a_chain_of_calls_is_straight() {
        let placed = placed(7, &[(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (3, 6)]);
        let x: Vec<f64> = placed.boxes.iter().map(|place| place.0).collect();
        assert!(x[..4].iter().all(|&x| (x - 170.0).abs() < 0.1), "above the middle of the three: {x:?}");
    }

    /// `main` is called by all of the start, which is also called a little from below.
    #[test]
    fn of_a_cycle_a_light_call_goes_up() {
        let (main, work, start) = (0, 1, 2);
        let call = |caller, callee, weight| BoxCall { caller, callee, weight };
        let calls = [call(start, main, 100.0), call(main, work, 100.0), call(work, start, 3.0)];
        let placed = place(&[BOX; 3], &calls, Gaps { boxes: 20.0, layers: 40.0 });
        let y = |node: usize| placed.boxes[node].1;
        assert!(y(start) < y(main) && y(main) < y(work), "{:?}", placed.boxes);
    }

    #[test]
    fn callers_are_above_and_boxes_do_not_overlap() {
        // A diamond, a long edge, a cycle and a single box.
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (3, 1), (4, 4)];
        let placed = placed(5, &edges);
        let y = |node: usize| placed.boxes[node].1;
        assert!(y(0) < y(1) && y(0) < y(2) && y(1) < y(3) && y(2) < y(3));
        for (one, a) in placed.boxes.iter().enumerate() {
            let (half_width, half_height) = (BOX.width / 2.0, BOX.height / 2.0);
            assert!((half_width..=placed.width - half_width).contains(&a.0), "{a:?} sticks out");
            assert!((half_height..=placed.height - half_height).contains(&a.1), "{a:?} sticks out");
            for b in &placed.boxes[one + 1..] {
                let is_apart = (a.0 - b.0).abs() >= BOX.width || (a.1 - b.1).abs() >= BOX.height;
                assert!(is_apart, "{a:?} and {b:?} overlap");
            }
        }
        assert_eq!(placed.paths.len(), edges.len());
        let back = &placed.paths[5];
        assert!(back[0].1 > back[back.len() - 1].1, "a call back to a caller goes up");
        assert!(placed.paths[4].len() > 2, "a long edge passes the layer between");
    }
}
