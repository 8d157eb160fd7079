// @ts-check
// A layered layout of a call graph: callers above callees, few crossings, no outside program.

/**
 * @typedef {{width: number, height: number}} Size
 * @typedef {{from: number, to: number, weight: number}} Edge
 * @typedef {{x: number, y: number}[]} Places the middle of each node
 */

const LAYER_GAP = 34;
const NODE_GAP = 18;

/**
 * @param {Size[]} sizes @param {Edge[]} edges
 * @param {number[]} [depths] how near to the root each is: where calls go in circles, the one nearer is above
 * @returns {{places: Places, width: number, height: number}}
 */
export function layered(sizes, edges, depths = sizes.map(() => 0)) {
  const forward = withoutCycles(sizes.length, edges, depths);
  const layers = orderedLayers(layersOf(sizes.length, forward), forward);
  return placed(sizes, layers, forward);
}

/** The edges without those that lead back to a caller, heavy ones kept first. @param {number} count @param {Edge[]} edges @param {number[]} depths @returns {Edge[]} */
function withoutCycles(count, edges, depths) {
  /** @type {Edge[]} */
  const kept = [];
  /** @type {number[][]} */
  const next = Array.from({ length: count }, () => []);
  const isBack = (/** @type {Edge} */ edge) => Number(depths[edge.to] < depths[edge.from]);
  for (const edge of [...edges].sort((a, b) => isBack(a) - isBack(b) || b.weight - a.weight)) {
    if (edge.from === edge.to || reaches(next, edge.to, edge.from)) continue;
    next[edge.from].push(edge.to);
    kept.push(edge);
  }
  return kept;
}

/** @param {number[][]} next @param {number} from @param {number} to */
function reaches(next, from, to) {
  const seen = new Set([from]);
  const waiting = [from];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (at === to) return true;
    for (const other of next[at]) {
      if (seen.has(other)) continue;
      seen.add(other);
      waiting.push(other);
    }
  }
  return false;
}

/** Each node one layer below the lowest of its callers. @param {number} count @param {Edge[]} edges @returns {number[][]} */
function layersOf(count, edges) {
  const layer = new Array(count).fill(0);
  for (let round = 0, moved = true; moved && round <= count; round++) {
    moved = false;
    for (const { from, to } of edges) {
      if (layer[to] > layer[from]) continue;
      layer[to] = layer[from] + 1;
      moved = true;
    }
  }
  /** @type {number[][]} */
  const layers = Array.from({ length: Math.max(0, ...layer) + 1 }, () => []);
  layer.forEach((at, node) => layers[at].push(node));
  return layers;
}

/** Puts nodes near what they are tied to, sweeping down and up. @param {number[][]} layers @param {Edge[]} edges */
function orderedLayers(layers, edges) {
  const place = new Map();
  const note = () => layers.forEach((nodes) => nodes.forEach((node, at) => place.set(node, (at + 0.5) / nodes.length)));
  note();
  const pull = (/** @type {number} */ node, /** @type {boolean} */ down) => {
    let [sum, weight] = [0, 0];
    for (const edge of edges) {
      const other = down ? (edge.to === node ? edge.from : -1) : edge.from === node ? edge.to : -1;
      if (other < 0) continue;
      sum += place.get(other) * edge.weight;
      weight += edge.weight;
    }
    return weight > 0 ? sum / weight : place.get(node);
  };
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const nodes of down ? layers : [...layers].reverse()) {
      const pulls = new Map(nodes.map((node) => [node, pull(node, down)]));
      nodes.sort((a, b) => pulls.get(a) - pulls.get(b) || a - b);
      note();
    }
  }
  return layers;
}

/** @param {Size[]} sizes @param {number[][]} layers @param {Edge[]} edges */
function placed(sizes, layers, edges) {
  /** @type {Places} */
  const places = sizes.map(() => ({ x: 0, y: 0 }));
  const widths = layers.map((nodes) => nodes.reduce((sum, node) => sum + sizes[node].width + NODE_GAP, -NODE_GAP));
  const width = Math.max(0, ...widths);
  let y = 0;
  layers.forEach((nodes, at) => {
    const height = Math.max(0, ...nodes.map((node) => sizes[node].height));
    let x = (width - widths[at]) / 2;
    for (const node of nodes) {
      places[node] = { x: x + sizes[node].width / 2, y: y + height / 2 };
      x += sizes[node].width + NODE_GAP;
    }
    y += height + LAYER_GAP;
  });
  straighten(sizes, layers, edges, places, width);
  return { places, width, height: Math.max(0, y - LAYER_GAP) };
}

/** Moves each node towards the middle of its callers, as far as its neighbours allow. @param {Size[]} sizes @param {number[][]} layers @param {Edge[]} edges @param {Places} places @param {number} width */
function straighten(sizes, layers, edges, places, width) {
  for (const nodes of layers.slice(1)) {
    nodes.forEach((node, at) => {
      const callers = edges.filter((edge) => edge.to === node);
      const weight = callers.reduce((sum, edge) => sum + edge.weight, 0);
      if (weight === 0) return;
      const wanted = callers.reduce((sum, edge) => sum + places[edge.from].x * edge.weight, 0) / weight;
      const half = sizes[node].width / 2;
      const before = at > 0 ? nodes[at - 1] : -1;
      const after = at + 1 < nodes.length ? nodes[at + 1] : -1;
      const low = before < 0 ? half : places[before].x + sizes[before].width / 2 + NODE_GAP + half;
      const high = after < 0 ? width - half : places[after].x - sizes[after].width / 2 - NODE_GAP - half;
      places[node].x = Math.max(low, Math.min(high, wanted));
    });
  }
}
