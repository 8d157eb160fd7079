// @ts-check
// The source of the page's data: a server, or the file that the page was saved in.

import { Picture } from "./picture.js";
import { foldedPicture, invertedPicture, pivotPicture } from "./rebuild.js";
import { WAIT_QUESTIONS, dataQuery, openPaths, searchPattern, showsEverything, zoomKeys } from "./state.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./picture.js").NameColumns} NameColumns
 * @typedef {import("./picture.js").FlamePayload} FlamePayload
 * @typedef {import("./picture.js").Sides} Sides
 *
 * @typedef {{kind: string, unit: string, total: number, base_total: number, per_sample: number, missing?: boolean}} SampleType
 * @typedef {Record<string, any> & {title: string, types: SampleType[], default_type: number}} About
 * @typedef {{id: string, name: string, detail: string, kind: string, service: string, written_millis: number}} Entry
 * @typedef {{about: About | null, entries: Entry[], live: boolean, past?: boolean, services?: string[], live_heap: string[], live_waits: string[], requests: boolean, let_go: number, code: boolean, no_code: string, mine: string[]}} Opened
 * @typedef {{sample_type: number, flame: FlamePayload, functions: Functions, graph: object, labels: object[], heap?: object, summary?: object}} SavedPicture
 * @typedef {{about: About, first: number, inverted: boolean, icicle: boolean, everything: boolean, pictures: SavedPicture[], judged?: object, timeline?: object, heatmap?: object}} Saved
 * @typedef {NameColumns & {count: number, total: number, diff: boolean, name: number[], flat: number[],
 *   cum: number[], flat_sides?: Sides, cum_sides?: Sides, flat_real?: boolean[], cum_real?: boolean[]}} Functions `flat_real` and `cum_real`: whether the change is more than noise
 * @typedef {{name: string, key: number, hue: number, owner: string, weight: number, own: number, new: number, base: number, leaf: boolean}} TreeRow
 * @typedef {{weight: number, folded: number, total: number}} Matched `folded` is what matches only in frames that are folded
 * @typedef {{direction: "callees" | "callers", pivot: string, zoom: string, width: number}} FlameQuery
 */

/** The profiles of each service, the newest first. @param {Entry[]} entries @returns {[string, Entry[]][]} */
export function byService(entries) {
  /** @type {Map<string, Entry[]>} */
  const services = new Map();
  for (const entry of [...entries].reverse()) services.set(entry.service, [...(services.get(entry.service) ?? []), entry]);
  return [...services];
}

/** The name of a profile below the heading of its service. @param {Entry} entry */
export function nameInService(entry) {
  return entry.service === "" ? entry.name : entry.name.slice(entry.service.length + 1);
}

/** When a profile was written, and how large it is. @param {Entry} entry */
export function entryDetail(entry) {
  const written = entry.written_millis > 0 ? `${new Date(entry.written_millis).toLocaleString()} · ` : "";
  return `${written}${entry.detail}`;
}

/** Gets the data from the server. */
export class ServerData {
  constructor() {
    this.saved = false;
    /** Earlier answers by URL; the server always gives the same answer to the same URL. */
    this.answers = new Map();
  }

  /** Sends a request once; callers that make the same request meanwhile share its answer. @param {string} path @param {URLSearchParams} query @param {AbortSignal} [signal] */
  async ask(path, query, signal) {
    const address = `api/${path}?${query}`;
    const known = this.answers.get(address);
    if (known) return known;
    const answer = answerOf(fetch(address, { signal }));
    if (this.answers.size > 40) this.answers.delete(this.answers.keys().next().value);
    this.answers.set(address, answer);
    try {
      return await answer;
    } catch (error) {
      this.answers.delete(address);
      throw error;
    }
  }

  /** What the page starts with. @returns {Partial<State>} */
  firstState() {
    return {};
  }

  /** Whether there is anything for a view. */
  has() {
    return true;
  }

  /** @param {State} state @returns {Promise<Opened>} */
  async open(state) {
    const query = new URLSearchParams();
    if (state.profile !== "") query.set("p", state.profile);
    if (state.base !== "") query.set("base", state.base);
    if (state.time !== "") query.set("t", state.time);
    return answerOf(fetch(`api/open?${query}`));
  }

  /** @param {State} state @param {FlameQuery} wanted @param {AbortSignal} [signal] @returns {Promise<Picture>} */
  async flame(state, wanted, signal) {
    return new Picture(await this.ask("flame", flameQuery(state, wanted), signal));
  }

  /** The boxes of a picture that are folded and hold a match of the search. @param {State} state @param {FlameQuery} wanted what the picture is an answer to @returns {Promise<number[]>} */
  async holding(state, wanted) {
    const query = flameQuery(state, wanted);
    query.set("q", state.query);
    return this.ask("holding", query);
  }

  /** @param {State} state @param {string} path @returns {Promise<TreeRow[]>} */
  async children(state, path) {
    const query = dataQuery(state);
    if (state.inverted) query.set("dir", "callers");
    for (const open of openPaths(state)) query.append("open", open);
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

  /** What the requests of a live service spend their time on, now. @returns {Promise<any>} */
  async requests() {
    return answerOf(fetch("api/requests"));
  }

  /** @param {number} seconds @param {string} what the endpoint of the profile; nothing for the CPU @returns {Promise<Entry>} */
  async take(seconds, what) {
    const query = new URLSearchParams({ seconds: String(seconds) });
    if (what !== "") query.set(what in WAIT_QUESTIONS ? "wait" : "heap", what);
    return answerOf(fetch(`api/take?${query}`, { method: "POST", headers: { "X-Flamelet": "1" } }));
  }

  /** How much CPU time was used over the history. @param {number} parts @param {string} service @returns {Promise<import("./picker.js").Course>} */
  async course(parts, service) {
    return answerOf(fetch(`api/course?${new URLSearchParams({ buckets: String(parts), s: service })}`));
  }

  /** The labels that can be selected in the history. @param {string} service @returns {Promise<import("./labels.js").LabelValues[]>} */
  async labels(service) {
    return answerOf(fetch(`api/labels?${new URLSearchParams({ s: service })}`));
  }

  /** Adds a range of the history to the profiles. @param {number} from in milliseconds since 1970 @param {number} to @param {string} service @param {string} select a label selector @returns {Promise<Entry>} */
  async range(from, to, service, select) {
    const query = new URLSearchParams({ from: String(from), to: String(to), s: service, sel: select });
    return answerOf(fetch(`api/range?${query}`, { method: "POST", headers: { "X-Flamelet": "1" } }));
  }
}

/** @param {State} state @param {FlameQuery} wanted */
function flameQuery(state, wanted) {
  const query = dataQuery(state);
  query.set("dir", wanted.direction);
  if (wanted.pivot !== "") query.set("fn", wanted.pivot);
  if (wanted.zoom !== "") query.set("z", wanted.zoom);
  for (const path of openPaths(state)) query.append("open", path);
  query.set("w", String(Math.ceil(wanted.width / 100) * 100));
  return query;
}

/** @param {Promise<Response>} request */
async function answerOf(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new Error("No answer from flamelet. Is it still running in the terminal?");
  }
  if (response.ok) return response.json();
  const text = (await response.text()).trim();
  throw new Error(text === "" ? `the server answered ${response.status}` : text);
}

/** Gets the data from the saved page itself. */
export class SavedData {
  /** @param {Saved} saved */
  constructor(saved) {
    this.saved = true;
    this.content = saved;
    /** @type {Map<string, Picture>} */
    this.pictures = new Map();
  }

  /** What the page starts with, as whoever saved it chose. @returns {Partial<State>} */
  firstState() {
    return { inverted: this.content.inverted, fold: this.content.everything ? "all" : "" };
  }

  /** @returns {Promise<Opened>} */
  async open() {
    const kept = new Set(this.content.pictures.map((picture) => picture.sample_type));
    const about = { ...this.content.about, default_type: this.content.first };
    about.types = about.types.map((type, at) => ({ ...type, missing: !kept.has(at) }));
    return { about, entries: [], live: false, live_heap: [], live_waits: [], requests: false, let_go: 0, code: false, no_code: "", mine: [] };
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
    const folds = showsEverything(state) ? null : new Set(openPaths(state));
    const key = `${part.sample_type} ${callers} ${folds && [...folds]} ${wanted.pivot}`;
    const picture = this.kept(key, () => {
      if (wanted.pivot !== "") return pivotPicture(whole, wanted.pivot, callers, folds);
      if (callers) return invertedPicture(whole, folds);
      return folds ? foldedPicture(whole, folds) : whole;
    });
    picture.zoom = picture.find(zoomKeys(wanted.zoom));
    return picture;
  }

  /** @param {State} state @param {FlameQuery} wanted @returns {Promise<number[]>} */
  async holding(state, wanted) {
    const pattern = searchPattern(state.query);
    return pattern ? (await this.flame(state, wanted)).holding(pattern) : [];
  }

  /** @param {State} state @param {string} path @returns {Promise<TreeRow[]>} */
  async children(state, path) {
    const direction = state.inverted ? "callers" : "callees";
    const picture = await this.flame(state, { direction, pivot: "", zoom: "", width: 0 });
    return picture.childrenOf(picture.find(zoomKeys(path))).map((box) => ({
      name: picture.nameOf(box),
      key: picture.data.keys[picture.name[box]],
      hue: picture.hueOf(box),
      owner: picture.ownerKind(box),
      weight: picture.weight[box],
      own: picture.own[box],
      new: picture.valueOf(box).now,
      base: picture.valueOf(box).base,
      leaf: picture.own[box] >= picture.weight[box],
    }));
  }

  /** @param {State} state @param {string} sort @param {string} search @returns {Promise<Functions>} */
  async functions(state, sort, search) {
    const all = this.part(state).functions;
    const pattern = searchPattern(search);
    const rows = all.name.map((_, at) => at).filter((at) => !pattern || pattern.test(all.names[all.name[at]]));
    const change = (/** @type {number} */ at) => (all.cum_sides ? Math.abs(all.cum_sides.new[at] - all.cum_sides.base[at]) : 0);
    // Of a difference, the columns show the new side.
    const [flat, cum] = [all.flat_sides?.new ?? all.flat, all.cum_sides?.new ?? all.cum];
    rows.sort((a, b) => {
      if (sort === "name") return all.names[all.name[a]] < all.names[all.name[b]] ? -1 : 1;
      if (sort === "cum") return cum[b] - cum[a];
      if (sort === "change") return change(b) - change(a);
      return flat[b] - flat[a] || cum[b] - cum[a];
    });
    const pick = (/** @type {number[]} */ column) => rows.map((at) => column[at]);
    const marks = (/** @type {boolean[] | undefined} */ column) => column && rows.map((at) => column[at]);
    const sides = (/** @type {Sides | undefined} */ both) => both && { new: pick(both.new), base: pick(both.base) };
    return { ...all, name: pick(all.name), flat: pick(all.flat), cum: pick(all.cum), flat_sides: sides(all.flat_sides), cum_sides: sides(all.cum_sides), flat_real: marks(all.flat_real), cum_real: marks(all.cum_real) };
  }

  /** @param {State} state @returns {Promise<Matched>} */
  async matched(state) {
    const part = this.part(state);
    const whole = this.kept(`${part.sample_type}`, () => new Picture(part.flame));
    const shown = await this.flame(state, { direction: "callees", pivot: "", zoom: "", width: 0 });
    const pattern = searchPattern(state.query);
    const weight = pattern ? whole.matches(pattern).weight : 0;
    return { weight, folded: pattern ? weight - shown.matches(pattern).weight : 0, total: whole.weight[0] ?? 0 };
  }

  /** The saved data for a view, if any. @param {string} what @param {State} state */
  keptFor(what, state) {
    const part = this.part(state);
    const parts = /** @type {Record<string, object | undefined>} */ ({ summary: part.summary, graph: part.graph, tags: part.labels, heap: part.heap, timeline: this.content.timeline, heatmap: this.content.heatmap, judged: this.content.judged });
    return parts[what];
  }

  /** Whether there is data for a view. @param {string} what @param {State} state */
  has(what, state) {
    return this.keptFor(what, state) !== undefined;
  }

  /** @param {string} what @param {State} state @returns {Promise<any>} */
  async data(what, state) {
    const kept = this.keptFor(what, state);
    if (kept === undefined) throw new Error("A saved page does not have this view. Open the profile with `flamelet view`.");
    return kept;
  }

  /** @returns {Promise<never>} */
  async requests() {
    throw new Error("A saved page has no requests.");
  }

  /** @returns {Promise<never>} */
  async take() {
    throw new Error("A saved page cannot take profiles.");
  }

  /** @returns {Promise<never>} */
  async course() {
    throw new Error("A saved page has no history.");
  }

  /** @returns {Promise<never>} */
  async labels() {
    throw new Error("A saved page has no history.");
  }

  /** @returns {Promise<never>} */
  async range() {
    throw new Error("A saved page has no history.");
  }
}
