(() => {
"use strict";
// rebuild.js
// Other trees out of a whole one, for a page that was saved to a file and has no server to ask: callers
// instead of callees, and the two halves of a sandwich.


/** @typedef {import("./picture.js").FlamePayload} FlamePayload */
/** @typedef {{name: number, weight: number, own: number, now: number, base: number, ownNow: number, ownBase: number, children: Map<number, Node>}} Node */

/** @param {number} name @returns {Node} */
function newNode(name) {
  return { name, weight: 0, own: 0, now: 0, base: 0, ownNow: 0, ownBase: 0, children: new Map() };
}

/**
 * What the stacks weigh that end in a box. A box whose children were left out of the file counts what they
 * weigh as its own: the saved page says so.
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
 * @param {(names: number[]) => number[] | null} route the names to walk for a stack; nothing to leave it out
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

/** The tree from the leaves to the roots. @param {Picture} picture */
function invertedPicture(picture) {
  return regrouped(picture, (names) => names.reverse(), -1);
}

/**
 * What a function calls, or what calls it, from its outermost call on.
 * @param {Picture} picture @param {string} pivot @param {boolean} callers
 */
function pivotPicture(picture, pivot, callers) {
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
// state.js
// Everything that the page shows follows from its address, so back, reload and sharing work.

/**
 * @typedef {{kind: string, text: string}} Filter
 * @typedef {object} State
 * @property {string} view      which view
 * @property {string} type      the sample type by its kind; empty for the profile's default
 * @property {Filter[]} filters what the chips say, in the order they were added
 * @property {string} zoom      the path of name keys from the root to the box that fills the width
 * @property {string} query     the search, a regular expression
 * @property {string} pivot     the function that sandwich and source are about
 * @property {string} time      a span of the timeline in nanoseconds, `from-to`
 * @property {string} profile   which of several profiles
 * @property {string} base      the profile to compare with
 * @property {boolean} inverted callers instead of callees
 * @property {boolean} upward   the root at the bottom
 * @property {string} sort      the column that the table is sorted by
 * @property {string} fold      what Rust names are folded: `generics`, `runtime`, both with a comma
 * @property {string} colour    `crate`, `heat` or `diff`; empty for what suits
 */

const FILTER_KINDS = ["focus", "ignore", "hide", "show", "showfrom", "tagfocus", "tagignore", "tagroot"];

/** @type {Readonly<State>} */
const FIRST_STATE = Object.freeze({
  view: "flame",
  type: "",
  filters: [],
  zoom: "",
  query: "",
  pivot: "",
  time: "",
  profile: "",
  base: "",
  inverted: false,
  upward: false,
  sort: "flat",
  fold: "",
  colour: "",
});

const STATE_TEXTS = /** @type {const} */ ([
  ["type", "type"],
  ["zoom", "z"],
  ["query", "q"],
  ["pivot", "fn"],
  ["time", "t"],
  ["profile", "p"],
  ["base", "base"],
  ["sort", "sort"],
  ["fold", "fold"],
  ["colour", "colour"],
]);

/** @param {string} hash @returns {State} */
function parseState(hash) {
  const [view, query] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  const params = new URLSearchParams(query);
  const state = { ...FIRST_STATE, filters: /** @type {Filter[]} */ ([]) };
  if (/^[a-z]+$/.test(view)) state.view = view;
  for (const [field, key] of STATE_TEXTS) state[field] = params.get(key) ?? FIRST_STATE[field];
  for (const filter of params.getAll("f")) {
    const [kind, text] = splitOnce(filter, ":");
    if (FILTER_KINDS.includes(kind) && text !== "") state.filters.push({ kind, text });
  }
  state.inverted = params.get("dir") === "callers";
  state.upward = params.get("grow") === "up";
  return state;
}

/** @param {State} state @returns {string} */
function formatState(state) {
  const params = new URLSearchParams();
  for (const [field, key] of STATE_TEXTS) if (state[field] !== FIRST_STATE[field]) params.append(key, state[field]);
  for (const { kind, text } of state.filters) params.append("f", `${kind}:${text}`);
  if (state.inverted) params.append("dir", "callers");
  if (state.upward) params.append("grow", "up");
  const query = params.toString();
  return `#/${state.view}${query === "" ? "" : `?${query}`}`;
}

/** @param {string} text @param {string} separator @returns {[string, string]} */
function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}

/**
 * What the server needs to know about the profile in view: which, and what is left of it.
 * @param {State} state @returns {URLSearchParams}
 */
function dataQuery(state) {
  const params = new URLSearchParams();
  for (const [field, key] of STATE_TEXTS) {
    const data = ["type", "time", "profile", "base", "fold"].includes(field);
    if (data && state[field] !== "") params.append(key, state[field]);
  }
  for (const { kind, text } of state.filters) params.append("f", `${kind}:${text}`);
  return params;
}

/** A name as a regular expression that matches it alone. @param {string} name */
function exactPattern(name) {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

/**
 * A search as people type it: without capitals, case does not matter. Nothing for no search.
 * @param {string} query @returns {RegExp | null}
 */
function searchPattern(query) {
  if (query === "") return null;
  return new RegExp(query, query === query.toLowerCase() ? "i" : "");
}

/** @param {string} path @returns {number[]} */
function zoomKeys(path) {
  return path === "" ? [] : path.split(".").map((key) => parseInt(key, 36));
}

/** @param {number[]} keys @returns {string} */
function zoomPath(keys) {
  return keys.map((key) => key.toString(36)).join(".");
}
// provider.js
// Where the page's data comes from: a server, or the file that the page was saved in.


/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./picture.js").NameColumns} NameColumns
 * @typedef {import("./picture.js").FlamePayload} FlamePayload
 * @typedef {import("./picture.js").Sides} Sides
 *
 * @typedef {{kind: string, unit: string, total: number, base_total: number, missing?: boolean}} SampleType
 * @typedef {Record<string, any> & {title: string, types: SampleType[], default_type: number}} About
 * @typedef {{id: string, name: string, detail: string}} Entry
 * @typedef {{about: About | null, entries: Entry[], live: boolean, code: boolean, warnings: string[]}} Opened
 * @typedef {NameColumns & {count: number, total: number, diff: boolean, name: number[], flat: number[],
 *   cum: number[], flat_sides?: Sides, cum_sides?: Sides}} Functions
 * @typedef {{name: string, key: number, hue: number, weight: number, own: number, leaf: boolean}} TreeRow
 * @typedef {{weight: number, total: number}} Matched
 * @typedef {{direction: "callees" | "callers", pivot: string, zoom: string, width: number}} FlameQuery
 */

/** Asks the server. */
class ServerData {
  constructor() {
    this.saved = false;
    /** Answers that were given before, by address; the server's answers only change with the address. */
    this.answers = new Map();
  }

  /** @param {string} path @param {URLSearchParams} query @param {AbortSignal} [signal] */
  async ask(path, query, signal) {
    const address = `api/${path}?${query}`;
    if (this.answers.has(address)) return this.answers.get(address);
    const answer = await answerOf(fetch(address, { signal }));
    if (this.answers.size > 40) this.answers.delete(this.answers.keys().next().value);
    this.answers.set(address, answer);
    return answer;
  }

  /** @param {State} state @returns {Promise<Opened>} */
  async open(state) {
    const query = new URLSearchParams();
    if (state.profile !== "") query.set("p", state.profile);
    if (state.base !== "") query.set("base", state.base);
    return answerOf(fetch(`api/open?${query}`));
  }

  /** @param {State} state @param {FlameQuery} wanted @param {AbortSignal} [signal] @returns {Promise<Picture>} */
  async flame(state, wanted, signal) {
    const query = dataQuery(state);
    query.set("dir", wanted.direction);
    if (wanted.pivot !== "") query.set("fn", wanted.pivot);
    if (wanted.zoom !== "") query.set("z", wanted.zoom);
    query.set("w", String(Math.ceil(wanted.width / 100) * 100));
    return new Picture(await this.ask("flame", query, signal));
  }

  /** @param {State} state @param {string} path @returns {Promise<TreeRow[]>} */
  async children(state, path) {
    const query = dataQuery(state);
    if (state.inverted) query.set("dir", "callers");
    query.set("z", path);
    return this.ask("children", query);
  }

  /** @param {State} state @param {string} sort @param {string} search @returns {Promise<Functions>} */
  async functions(state, sort, search) {
    const query = dataQuery(state);
    query.set("sort", sort);
    if (search !== "") query.set("q", search);
    return this.ask("functions", query);
  }

  /** @param {State} state @returns {Promise<Matched>} */
  async matched(state) {
    const query = dataQuery(state);
    query.set("q", state.query);
    return this.ask("search", query);
  }

  /** @param {string} what @param {State} state @param {Record<string, string>} [more] */
  async data(what, state, more = {}) {
    const query = dataQuery(state);
    for (const [key, value] of Object.entries(more)) query.set(key, value);
    return this.ask(what, query);
  }

  /** @param {number} seconds @returns {Promise<Entry>} */
  async take(seconds) {
    return answerOf(fetch(`api/take?seconds=${seconds}`, { method: "POST", headers: { "X-Flamelet": "1" } }));
  }
}

/** @param {Promise<Response>} request */
async function answerOf(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new Error("flamelet does not answer any more. Is it still running in the terminal?");
  }
  if (response.ok) return response.json();
  const text = (await response.text()).trim();
  throw new Error(text === "" ? `the server answered ${response.status}` : text);
}

/** Reads what the file holds. */
class SavedData {
  /** @param {{about: About, first: number, inverted: boolean, icicle: boolean, pictures: {sample_type: number, flame: FlamePayload, functions: Functions}[]}} saved */
  constructor(saved) {
    this.saved = true;
    this.content = saved;
    /** @type {Map<string, Picture>} */
    this.pictures = new Map();
  }

  /** @returns {Promise<Opened>} */
  async open() {
    const kept = new Set(this.content.pictures.map((picture) => picture.sample_type));
    const about = { ...this.content.about, default_type: this.content.first };
    about.types = about.types.map((type, at) => ({ ...type, missing: !kept.has(at) }));
    return { about, entries: [], live: false, code: false, warnings: [] };
  }

  /** @param {State} state */
  part(state) {
    const at = this.content.about.types.findIndex((type) => type.kind === state.type);
    const wanted = at < 0 ? this.content.first : at;
    return this.content.pictures.find((picture) => picture.sample_type === wanted) ?? this.content.pictures[0];
  }

  /** @param {string} key @param {() => Picture} make @returns {Picture} */
  kept(key, make) {
    const known = this.pictures.get(key) ?? make();
    if (this.pictures.size > 12) this.pictures.clear();
    this.pictures.set(key, known);
    return known;
  }

  /** @param {State} state @param {FlameQuery} wanted @returns {Promise<Picture>} */
  async flame(state, wanted) {
    const part = this.part(state);
    const whole = this.kept(`${part.sample_type}`, () => new Picture(part.flame));
    const callers = wanted.direction === "callers";
    let picture = whole;
    if (wanted.pivot !== "") {
      picture = this.kept(`${part.sample_type} ${callers} ${wanted.pivot}`, () => pivotPicture(whole, wanted.pivot, callers));
    } else if (callers) {
      picture = this.kept(`${part.sample_type} callers`, () => invertedPicture(whole));
    }
    picture.zoom = picture.find(zoomKeys(wanted.zoom));
    return picture;
  }

  /** @param {State} state @param {string} path @returns {Promise<TreeRow[]>} */
  async children(state, path) {
    const direction = state.inverted ? "callers" : "callees";
    const picture = await this.flame(state, { direction, pivot: "", zoom: "", width: 0 });
    return picture.childrenOf(picture.find(zoomKeys(path))).map((box) => ({
      name: picture.nameOf(box),
      key: picture.data.keys[picture.name[box]],
      hue: picture.hueOf(box),
      weight: picture.weight[box],
      own: picture.own[box],
      leaf: picture.own[box] >= picture.weight[box],
    }));
  }

  /** @param {State} state @param {string} sort @param {string} search @returns {Promise<Functions>} */
  async functions(state, sort, search) {
    const all = this.part(state).functions;
    const pattern = searchPattern(search);
    const rows = all.name.map((_, at) => at).filter((at) => !pattern || pattern.test(all.names[all.name[at]]));
    const change = (/** @type {number} */ at) => (all.cum_sides ? Math.abs(all.cum_sides.new[at] - all.cum_sides.base[at]) : 0);
    rows.sort((a, b) => {
      if (sort === "name") return all.names[all.name[a]] < all.names[all.name[b]] ? -1 : 1;
      if (sort === "cum") return all.cum[b] - all.cum[a];
      if (sort === "change") return change(b) - change(a);
      return all.flat[b] - all.flat[a] || all.cum[b] - all.cum[a];
    });
    const pick = (/** @type {number[]} */ column) => rows.map((at) => column[at]);
    const sides = (/** @type {Sides | undefined} */ both) => both && { new: pick(both.new), base: pick(both.base) };
    return { ...all, name: pick(all.name), flat: pick(all.flat), cum: pick(all.cum), flat_sides: sides(all.flat_sides), cum_sides: sides(all.cum_sides) };
  }

  /** @param {State} state @returns {Promise<Matched>} */
  async matched(state) {
    const picture = await this.flame(state, { direction: "callees", pivot: "", zoom: "", width: 0 });
    const pattern = searchPattern(state.query);
    return { weight: pattern ? picture.matches(pattern).weight : 0, total: picture.weight[0] ?? 0 };
  }

  /** @returns {Promise<never>} */
  async data() {
    throw new Error("This view needs the profile itself: open it with `flamelet view`.");
  }

  /** @returns {Promise<never>} */
  async take() {
    throw new Error("A saved page cannot take profiles.");
  }
}
// main.js
// Starts the page: with the data that stands in it, or with a server to ask.


const savedElement = document.getElementById("flamelet-data");
const provider = savedElement ? new SavedData(JSON.parse(savedElement.textContent ?? "")) : new ServerData();
const root = document.getElementById("app");
if (root) void new App(root, provider).start();
})();
