// @ts-check
// Builds other trees from the whole tree, for a saved page that has no server: callers instead of callees, and
// the two halves of a sandwich.

import { Picture } from "./picture.js";

/** @typedef {import("./picture.js").FlamePayload} FlamePayload */
/** @typedef {{name: number, weight: number, own: number, now: number, base: number, ownNow: number, ownBase: number, children: Map<number, Node>}} Node */

/** @param {number} name @returns {Node} */
function newNode(name) {
  return { name, weight: 0, own: 0, now: 0, base: 0, ownNow: 0, ownBase: 0, children: new Map() };
}

/**
 * The weight of the stacks that end in a box. Includes the weight of children that were left out of the file, as
 * the saved page says.
 * @param {Picture} picture
 */
function endings(picture) {
  const weight = Float64Array.from(picture.weight);
  const now = Float64Array.from({ length: picture.count }, (_, at) => picture.valueOf(at).now);
  const base = Float64Array.from({ length: picture.count }, (_, at) => picture.valueOf(at).base);
  for (let at = 0; at < picture.count; at++) {
    const parent = picture.parent[at];
    if (parent < 0) continue;
    const value = picture.valueOf(at);
    weight[parent] -= picture.weight[at];
    now[parent] -= value.now;
    base[parent] -= value.base;
  }
  return { weight, now, base };
}

/** The names of a box's stack, root first. @param {Picture} picture @param {number} at */
function stackOf(picture, at) {
  const names = [];
  for (let box = at; box >= 0; box = picture.parent[box]) if (picture.name[box] >= 0) names.push(picture.name[box]);
  return names.reverse();
}

/**
 * @param {Picture} picture a whole tree of callees
 * @param {(names: number[]) => number[] | null} route the names to follow for a stack, or null to leave it out
 * @param {number} rootName
 * @returns {Picture}
 */
function regrouped(picture, route, rootName) {
  const ends = endings(picture);
  const root = newNode(rootName);
  for (let at = 0; at < picture.count; at++) {
    if (ends.weight[at] <= 0) continue;
    const names = route(stackOf(picture, at));
    if (names === null) continue;
    const add = { weight: ends.weight[at], now: ends.now[at], base: ends.base[at] };
    let node = root;
    addTo(node, add);
    for (const name of names) {
      let next = node.children.get(name);
      if (!next) node.children.set(name, (next = newNode(name)));
      node = next;
      addTo(node, add);
    }
    node.own += add.weight;
    node.ownNow += add.now;
    node.ownBase += add.base;
  }
  return new Picture(columnsOf(root, picture.data));
}

/** @param {Node} node @param {{weight: number, now: number, base: number}} add */
function addTo(node, add) {
  node.weight += add.weight;
  node.now += add.now;
  node.base += add.base;
}

/** @param {Node} root @param {FlamePayload} from @returns {FlamePayload} */
function columnsOf(root, from) {
  /** @type {FlamePayload} */
  const out = { ...from, zoom: 0, parent: [], name: [], weight: [], own: [] };
  const sides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  const ownSides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  /** @type {[Node, number][]} */
  const waiting = [[root, -1]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [node, parent] = next;
    const at = out.parent.length;
    out.parent.push(parent);
    out.name.push(node.name);
    out.weight.push(node.weight);
    out.own.push(node.own);
    sides.new.push(node.now);
    sides.base.push(node.base);
    ownSides.new.push(node.ownNow);
    ownSides.base.push(node.ownBase);
    const children = [...node.children.values()].sort((a, b) => a.weight - b.weight || (from.names[a.name] < from.names[b.name] ? 1 : -1));
    for (const child of children) waiting.push([child, at]);
  }
  delete out.sides;
  delete out.own_sides;
  if (from.sides) Object.assign(out, { sides, own_sides: ownSides });
  return out;
}

/** The inverted tree, from the leaves to the roots. @param {Picture} picture */
export function invertedPicture(picture) {
  return regrouped(picture, (names) => names.reverse(), -1);
}

/**
 * The callees or the callers of a function, starting at its outermost call.
 * @param {Picture} picture @param {string} pivot @param {boolean} callers
 */
export function pivotPicture(picture, pivot, callers) {
  const name = picture.data.names.indexOf(pivot);
  return regrouped(
    picture,
    (names) => {
      const at = names.indexOf(name);
      if (at < 0) return null;
      return callers ? names.slice(0, at).reverse() : names.slice(at + 1);
    },
    name,
  );
}
