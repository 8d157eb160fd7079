// @ts-check
// Other trees out of a whole one, for a page that was saved to a file and has no server to ask: with chains of frames
// as one box, callers instead of callees, and the two halves of a sandwich.

import { Picture } from "./picture.js";
import { zoomPath } from "./state.js";

/** @typedef {import("./picture.js").FlamePayload} FlamePayload */
/** `chain` is the row of the owner of a chain of frames, -1 for a function. */
/** @typedef {{name: number, chain: number, held: Set<number>, frames: [number, number], weight: number, own: number, now: number, base: number, ownNow: number, ownBase: number, children: Map<number, Node>}} Node */
/** A box on the way along a stack; `held` are the names of a chain's frames. @typedef {{name: number, chain: number, held: number[], frames: number}} Step */

/** @param {Step} step @returns {Node} */
function newNode({ name, chain, frames }) {
  return { name, chain, held: new Set(), frames: [frames, frames], weight: 0, own: 0, now: 0, base: 0, ownNow: 0, ownBase: 0, children: new Map() };
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

/** Finds the chains of frames in stacks, as `crates/report/src/stacks/chains.rs` does. */
class ChainFinder {
  /** @param {FlamePayload} data */
  constructor(data) {
    this.data = data;
    const kinds = data.owner.map((owner) => data.owner_kinds[owner]);
    const starts = new Set(data.starts);
    this.yours = kinds.map((kind) => kind === "yours");
    this.unknown = kinds.map((kind) => kind === "unknown");
    this.starts = kinds.map((kind, name) => kind === "runtime" || starts.has(name));
    this.ranks = kinds.map((kind) => (kind === "runtime" || kind === "dependency" ? 2 : kind === "std" ? 1 : 0));
    /** The steps that lead to chains, by the row of their owner. @type {number[]} */
    this.keys = data.owners.map((label) => chainKey(chainName(label)));
  }

  /** How many frames from the root on may belong to chains. @param {number[]} names root first */
  reach(names) {
    const last = names.findLastIndex((name) => this.yours[name]);
    if (last >= 0) return last;
    let reach = 0;
    for (let at = 0; at < names.length && !this.unknown[names[at]]; at++) if (this.starts[names[at]]) reach = at + 1;
    return reach;
  }

  /**
   * The boxes on the way through frames of a stack.
   * @param {number[]} names root first @param {number[]} places the frames, as places in `names`, in the order of the way
   * @param {boolean} callers whether the way leads to the root @param {Set<string>} opened the paths of chains that are open
   * @returns {Step[]}
   */
  steps(names, places, callers, opened) {
    const reach = this.reach(names);
    const folds = (/** @type {number} */ place) => place < reach && !this.yours[names[place]] && !this.unknown[names[place]];
    /** @type {Step[]} */
    const steps = [];
    const keys = [];
    for (let at = 0; at < places.length; at++) {
      let end = at;
      while (end < places.length && folds(places[end])) end++;
      const held = places.slice(at, end).map((place) => names[place]);
      const chain = held.length > 1 ? this.ownerOf(held, callers) : -1;
      if (chain >= 0 && !opened.has(zoomPath([...keys, this.keys[chain]]))) {
        steps.push({ name: -1, chain, held, frames: held.length });
        keys.push(this.keys[chain]);
        at = end - 1;
        continue;
      }
      // An opened chain is a box for each of its frames.
      for (let one = at; one < Math.max(end, at + 1); one++) {
        steps.push({ name: names[places[one]], chain: -1, held: [], frames: 1 });
        keys.push(this.data.keys[names[places[one]]]);
      }
      at = Math.max(end, at + 1) - 1;
    }
    return steps;
  }

  /** The row of the owner that a chain is named by. @param {number[]} names @param {boolean} callers */
  ownerOf(names, callers) {
    let best = names[0];
    for (const name of names) if (this.ranks[name] > this.ranks[best] || (callers && this.ranks[name] === this.ranks[best])) best = name;
    return this.data.owner[best];
  }
}

/** An owner without its version. @param {string} label */
function chainName(label) {
  return label.split(" ")[0];
}

/** @param {string} name */
function chainKey(name) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash << 1) | (hash >>> 31)) >>> 0;
}

/**
 * @param {Picture} picture a whole tree of callees
 * @param {(names: number[]) => number[] | null} route the frames to walk for a stack, as places in `names`; nothing to leave it out
 * @param {{root: number, callers: boolean, folds: Set<string> | null}} how `folds` has the paths of opened chains; nothing for no chains
 * @returns {Picture}
 */
function regrouped(picture, route, how) {
  const ends = endings(picture);
  const finder = new ChainFinder(picture.data);
  const root = newNode({ name: how.root, chain: -1, held: [], frames: 1 });
  for (let at = 0; at < picture.count; at++) {
    if (ends.weight[at] <= 0) continue;
    const names = stackOf(picture, at);
    const places = route(names);
    if (places === null) continue;
    const add = { weight: ends.weight[at], now: ends.now[at], base: ends.base[at] };
    const steps = how.folds ? finder.steps(names, places, how.callers, how.folds) : places.map((place) => ({ name: names[place], chain: -1, held: [], frames: 1 }));
    let node = root;
    addTo(node, add);
    for (const step of steps) {
      const key = step.chain >= 0 ? -1 - step.chain : step.name;
      let next = node.children.get(key);
      if (!next) node.children.set(key, (next = newNode(step)));
      next.frames = [Math.min(next.frames[0], step.frames), Math.max(next.frames[1], step.frames)];
      node = next;
      for (const name of step.held) node.held.add(name);
      addTo(node, add);
    }
    node.own += add.weight;
    node.ownNow += add.now;
    node.ownBase += add.base;
  }
  return new Picture(columnsOf(root, new ChainNames(picture.data)));
}

/** @param {Node} node @param {{weight: number, now: number, base: number}} add */
function addTo(node, add) {
  node.weight += add.weight;
  node.now += add.now;
  node.base += add.base;
}

/** The names of a payload, to which those of chains are added. */
class ChainNames {
  /** @param {FlamePayload} from */
  constructor(from) {
    /** @type {FlamePayload} */
    this.data = { ...from, zoom: 0, parent: [], name: [], weight: [], own: [], held: [] };
    for (const column of /** @type {const} */ (["names", "keys", "krate", "hues", "owner", "file", "chains"])) {
      Object.assign(this.data, { [column]: [...from[column]] });
    }
    /** @type {Map<string, number>} */
    this.rows = new Map();
  }

  /** The row of what a node shows. @param {Node} node */
  rowOf(node) {
    if (node.chain < 0) return node.name;
    const { data } = this;
    const name = chainName(data.owners[node.chain]);
    const [least, most] = node.frames;
    const text = `${name} · ${least === most ? most : `${least} to ${most}`} frames`;
    const known = this.rows.get(text);
    if (known !== undefined) return known;
    const row = data.names.length;
    const like = data.owner.indexOf(node.chain);
    data.names.push(text);
    data.keys.push(chainKey(name));
    data.krate.push(data.krate[like]);
    data.hues.push(data.hues[like]);
    data.owner.push(node.chain);
    data.file.push(-1);
    data.chains.push(row);
    this.rows.set(text, row);
    return row;
  }
}

/** @param {Node} root @param {ChainNames} names @returns {FlamePayload} */
function columnsOf(root, names) {
  const out = names.data;
  const sides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  const ownSides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  /** @type {[Node, number][]} */
  const waiting = [[root, -1]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [node, parent] = next;
    const at = out.parent.length;
    out.parent.push(parent);
    out.name.push(names.rowOf(node));
    out.held?.push([...node.held]);
    out.weight.push(node.weight);
    out.own.push(node.own);
    sides.new.push(node.now);
    sides.base.push(node.base);
    ownSides.new.push(node.ownNow);
    ownSides.base.push(node.ownBase);
    const text = (/** @type {Node} */ child) => (child.chain >= 0 ? out.owners[child.chain] : out.names[child.name]);
    const children = [...node.children.values()].sort((a, b) => a.weight - b.weight || (text(a) < text(b) ? 1 : -1));
    for (const child of children) waiting.push([child, at]);
  }
  const isDiff = out.sides !== undefined;
  delete out.sides;
  delete out.own_sides;
  if (isDiff) Object.assign(out, { sides, own_sides: ownSides });
  return out;
}

/** @param {number} from @param {number} to */
function placesBetween(from, to) {
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
}

/** The same tree with chains of frames as one box. @param {Picture} picture @param {Set<string>} opened the paths of chains that are open */
export function foldedPicture(picture, opened) {
  return regrouped(picture, (names) => placesBetween(0, names.length), { root: -1, callers: false, folds: opened });
}

/** The tree from the leaves to the roots. @param {Picture} picture @param {Set<string> | null} [folds] */
export function invertedPicture(picture, folds = null) {
  return regrouped(picture, (names) => placesBetween(0, names.length).reverse(), { root: -1, callers: true, folds });
}

/**
 * What a function calls, or what calls it, from its outermost call on.
 * @param {Picture} picture @param {string} pivot @param {boolean} callers @param {Set<string> | null} [folds]
 */
export function pivotPicture(picture, pivot, callers, folds = null) {
  const root = picture.data.names.indexOf(pivot);
  return regrouped(
    picture,
    (names) => {
      const at = names.findIndex((name) => picture.data.names[name] === pivot);
      if (at < 0) return null;
      return callers ? placesBetween(0, at).reverse() : placesBetween(at + 1, names.length);
    },
    { root, callers, folds },
  );
}
