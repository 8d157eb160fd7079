// @ts-check
// The boxes of a flame graph as laid out in Rust: in columns, each box after its parent.

/**
 * @typedef {object} NameColumns
 * @property {string[]} names @property {number[]} keys @property {number[]} krate
 * @property {string[]} crates @property {number[]} hues @property {number[]} file @property {string[]} files
 * @property {number[]} owner the row of `owners` @property {string[]} owners @property {string[]} owner_kinds
 * @property {number[]} chains the rows that stand for chains of frames @property {number[]} starts the rows of std and libc that start threads
 *
 * @typedef {{new: number[], base: number[]}} Sides
 *
 * @typedef {NameColumns & {zoom: number, cutoff: number, narrower: number, diff: boolean,
 *   parent: number[], name: number[], weight: number[], own: number[],
 *   sides?: Sides, own_sides?: Sides, notes?: string[], held?: number[][]}} FlamePayload
 */

/** A flame graph that can be drawn. */
export class Picture {
  /** @param {FlamePayload} payload */
  constructor(payload) {
    this.data = payload;
    const count = payload.parent.length;
    this.count = count;
    this.parent = Int32Array.from(payload.parent);
    this.name = Int32Array.from(payload.name);
    this.weight = Float64Array.from(payload.weight);
    this.own = Float64Array.from(payload.own);
    this.x = new Float64Array(count);
    this.depth = new Int32Array(count);
    /** The x where the next child of each box starts. */
    const next = new Float64Array(count);
    let rows = 0;
    for (let at = 0; at < count; at++) {
      const parent = this.parent[at];
      if (parent >= 0) {
        this.x[at] = next[parent];
        this.depth[at] = this.depth[parent] + 1;
        next[parent] += this.weight[at];
      }
      next[at] = this.x[at];
      rows = Math.max(rows, this.depth[at] + 1);
    }
    this.rows = rows;
    this.chains = new Set(payload.chains);
    this.zoom = payload.zoom;
    this.diff = payload.diff;
    /** @type {Int32Array[] | null} */
    this.byRow = null;
  }

  /** @param {number} at @returns {string} */
  nameOf(at) {
    const name = this.name[at];
    return name < 0 ? "all" : this.data.names[name];
  }

  /** @param {number} at */
  crateOf(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.crates[this.data.krate[name]];
  }

  /** @param {number} at @returns {number} the row of the palette */
  hueOf(at) {
    const name = this.name[at];
    return name < 0 ? -1 : this.data.hues[name];
  }

  /** Whether a box stands for a chain of frames. @param {number} at */
  isChain(at) {
    return this.chains.has(this.name[at]);
  }

  /** Whose code a box is, in one word. @param {number} at */
  ownerKind(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.owner_kinds[this.data.owner[name]];
  }

  /** Whose code a box is: `serde_json 1.0.149`. @param {number} at */
  ownerOf(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.owners[this.data.owner[name]];
  }

  /** @param {number} at */
  fileOf(at) {
    const name = this.name[at];
    const file = name < 0 ? -1 : this.data.file[name];
    return file < 0 ? "" : this.data.files[file];
  }

  /** The value of a box; signed in a diff. @param {number} at */
  valueOf(at) {
    const sides = this.data.sides;
    return sides ? { now: sides.new[at], base: sides.base[at] } : { now: this.weight[at], base: 0 };
  }

  /** The own value of a box. @param {number} at */
  ownOf(at) {
    const sides = this.data.own_sides;
    return sides ? { now: sides.new[at], base: sides.base[at] } : { now: this.own[at], base: 0 };
  }

  /** The keys from the root to a box; the root itself has none. @param {number} at @returns {number[]} */
  pathOf(at) {
    const keys = [];
    for (let box = at; box >= 0 && this.parent[box] >= 0; box = this.parent[box]) {
      keys.push(this.data.keys[this.name[box]]);
    }
    return keys.reverse();
  }

  /** The box at the end of a path, or the last one on it that exists. @param {number[]} keys @returns {number} */
  find(keys) {
    let box = 0;
    for (const key of keys) {
      const next = this.childrenOf(box).find((child) => this.data.keys[this.name[child]] === key);
      if (next === undefined) break;
      box = next;
    }
    return box;
  }

  /** @param {number} at @returns {number[]} heaviest first */
  childrenOf(at) {
    const found = [];
    const row = this.rowsOfBoxes()[this.depth[at] + 1] ?? new Int32Array();
    for (const box of row) if (this.parent[box] === at) found.push(box);
    return found;
  }

  /** The boxes of each row from left to right. @returns {Int32Array[]} */
  rowsOfBoxes() {
    if (this.byRow) return this.byRow;
    const counts = new Int32Array(this.rows);
    for (let at = 0; at < this.count; at++) counts[this.depth[at]]++;
    const rows = Array.from(counts, (count) => new Int32Array(count));
    counts.fill(0);
    for (let at = 0; at < this.count; at++) rows[this.depth[at]][counts[this.depth[at]]++] = at;
    this.byRow = rows;
    return rows;
  }

  /** Whether `inner` is `outer` or one of its descendants. @param {number} outer @param {number} inner */
  standsOn(outer, inner) {
    let box = inner;
    while (box > outer) box = this.parent[box];
    return box === outer;
  }

  /** The box at position `x` of a row, or -1. @param {number} row @param {number} x @param {number} slack */
  boxAt(row, x, slack) {
    const boxes = this.rowsOfBoxes()[row];
    if (!boxes || boxes.length === 0) return -1;
    let low = 0;
    let high = boxes.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.x[boxes[middle]] <= x) low = middle;
      else high = middle - 1;
    }
    const box = boxes[low];
    return x >= this.x[box] - slack && x <= this.x[box] + this.weight[box] + slack ? box : -1;
  }

  /** The folded boxes with a matching frame, of a picture that knows what they hold. @param {RegExp} pattern @returns {number[]} */
  holding(pattern) {
    const named = this.data.names.map((name) => pattern.test(name));
    const found = (this.data.held ?? []).map((names, at) => (names.some((name) => named[name]) ? at : -1));
    return found.filter((at) => at >= 0);
  }

  /**
   * The boxes that match, and the weight of all stacks with a match. Relies on boxes coming after their parents.
   * @param {RegExp} pattern
   */
  matches(pattern) {
    const named = this.data.names.map((name) => pattern.test(name));
    const hit = new Uint8Array(this.count);
    const covered = new Uint8Array(this.count);
    let weight = 0;
    let boxes = 0;
    for (let at = 0; at < this.count; at++) {
      const parent = this.parent[at];
      covered[at] = parent >= 0 ? covered[parent] : 0;
      if (this.name[at] < 0 || !named[this.name[at]]) continue;
      hit[at] = 1;
      boxes++;
      if (!covered[at]) weight += this.weight[at];
      covered[at] = 1;
    }
    return { hit, weight, boxes };
  }
}
