// @ts-check
// Memory in use and allocated, by size, by lifetime and by allocating function.

import { h, replaceContent } from "./dom.js";
import { HEAP_QUESTIONS } from "./state.js";
import { VirtualTable, barCell } from "./table.js";
import { changeLabel, exactLabel, grouped, shareLabel, valueLabel } from "./units.js";
import { changeCell, nameCell } from "./view-top.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./picture.js").NameColumns} NameColumns */
/** @typedef {{text: string, filter: string, values: number[], base: number[]}} HeapClass */
/** @typedef {NameColumns & {count: number, name: number[], inner: number[], values: number[][], base: number[][], temporary: number[]}} HeapSites */
/** @typedef {{sizes: HeapClass[], lifetimes: HeapClass[], sites: HeapSites}} HeapData */
/** A pair of sample types that count the same memory: rows of the profile's types, -1 where there is none. */
/** @typedef {{id: string, title: string, objects: number, space: number}} HeapPair */

/** The titles of the pairs, in the order in which they are shown. @type {Record<string, string>} */
const PAIR_TITLES = { inuse: "Live", growth: "Grown", peak: "At the peak", freed: "Freed", alloc: "Allocated" };

/**
 * The sample types in pairs: `inuse_objects` and `inuse_space` are one.
 * @param {{kind: string, unit: string}[]} types @returns {HeapPair[]}
 */
export function heapPairs(types) {
  /** @type {Map<string, HeapPair>} */
  const pairs = new Map();
  types.forEach(({ kind, unit }, at) => {
    const id = kind.replace(/_(objects|space|bytes|count)$/, "");
    const pair = pairs.get(id) ?? { id, title: PAIR_TITLES[id] ?? id, objects: -1, space: -1 };
    if (unit === "bytes") pair.space = at;
    else pair.objects = at;
    pairs.set(id, pair);
  });
  const order = Object.keys(PAIR_TITLES);
  const rank = (/** @type {HeapPair} */ pair) => (order.includes(pair.id) ? order.indexOf(pair.id) : order.length);
  return [...pairs.values()].filter((pair) => pair.space >= 0).sort((a, b) => rank(a) - rank(b));
}

/** @param {App} app */
export function heapView(app) {
  const left = h("div.heap-side", { tabindex: 0 });
  /** @type {HeapData | null} */
  let data = null;
  /** @type {number[]} */
  let order = [];
  const nameOf = (/** @type {number} */ row) => (data ? data.sites.names[data.sites.name[order[row]]] : "");
  const openSite = (/** @type {number} */ row) => app.set({ view: "sandwich", pivot: nameOf(row) });
  const table = new VirtualTable({
    columns: [],
    label: "Functions that allocate",
    cells: (row) => (data ? siteCells(app, data.sites, order[row]) : []),
    sort: (column) => app.set({ sort: column }, { replace: true }),
    open: openSite,
    menu: (row, event) => app.functionMenu(nameOf(row), event),
    select: (row) => (app.chosen = nameOf(row)),
  });
  const footer = h("div.table-footer");
  let shown = "nothing yet";
  return {
    element: h("div.heap", {}, left, h("div.table-holder", {}, table.element, footer)),
    controls: [],
    /** @param {State} state */
    async update(state) {
      if (app.dataKey() !== shown) {
        const answer = /** @type {HeapData | null} */ (await app.waitFor(app.provider.data("heap", state)));
        if (answer === null) return;
        [data, shown] = [answer, app.dataKey()];
        replaceContent(left, totalsPart(app), classPart(app, "Lifetime", answer.lifetimes), classPart(app, "Sizes", answer.sizes), morePart(app, answer));
      }
      if (!data) return;
      const columns = siteColumns(app, data.sites);
      const sorted = columns.some((column) => column.id === state.sort) ? state.sort : columns[0].id;
      order = sortedSites(app, data.sites, sorted);
      table.setColumns(columns, sorted);
      table.setCount(order.length);
      const smaller = data.sites.count - order.length;
      footer.textContent = `${grouped(order.length)} allocating functions (the innermost one outside the standard library)${smaller > 0 ? `; ${grouped(smaller)} smaller ones are not listed` : ""}`;
    },
    printed: (/** @type {boolean} */ on) => table.printed(on),
    focus: () => table.scroller.focus(),
  };
}

/** @param {App} app */
const pairsOf = (app) => heapPairs(app.opened.about?.types ?? []);

/** The totals. @param {App} app */
function totalsPart(app) {
  const types = app.opened.about?.types ?? [];
  const diff = app.isDiff();
  const fact = (/** @type {HeapPair} */ pair) => {
    const [space, objects] = [types[pair.space], types[pair.objects]];
    const change = diff ? h("div", {}, `${changeLabel(space.total - space.base_total, space.unit)} since the base`) : null;
    const count = objects ? h("div.soft", { text: `${grouped(objects.total)} objects` }) : null;
    return h("div.heap-total", {}, h("div.soft", { text: pair.title }), h("div.heap-figure", { text: valueLabel(space.total, space.unit), title: exactLabel(space.total, space.unit) }), count, change);
  };
  const pairs = pairsOf(app);
  const [live, allocated] = ["inuse", "alloc"].map((id) => pairs.find((pair) => pair.id === id));
  const kept = live && allocated && !diff ? h("div.heap-total", {}, h("div.soft", { text: "Kept" }), h("div.heap-figure", { text: shareLabel(types[live.space].total, types[allocated.space].total) }), h("div.soft", { text: "of what was allocated" })) : null;
  return h("div.heap-totals", {}, ...pairs.map(fact), kept);
}

/** Classes of sizes or lifetimes, with a bar for each. @param {App} app @param {string} title @param {HeapClass[]} classes */
function classPart(app, title, classes) {
  if (classes.length === 0) return null;
  const types = app.opened.about?.types ?? [];
  const { per_sample: perSample } = app.sampleType();
  const pairs = pairsOf(app);
  const diff = app.isDiff();
  const heads = pairs.flatMap((pair) => [h("th", { text: pair.title, scope: "col" }), ...(pairs.length === 1 && pair.objects >= 0 ? [h("th.number", { text: "Objects", scope: "col" })] : [])]);
  const most = pairs.map((pair) => Math.max(1, ...classes.map((one) => Math.abs(one.values[pair.space]))));
  const row = (/** @type {HeapClass} */ one) => {
    const keep = h("button.link", { text: one.text, title: "Keep only these", onclick: () => app.addFilter("tagfocus", one.filter) });
    const cells = pairs.flatMap((pair, at) => {
      const { unit } = types[pair.space];
      const [value, base] = [one.values[pair.space], one.base[pair.space]];
      const cell = diff ? changeCell(base, value, unit, perSample) : barCell(valueLabel(value, unit), Math.abs(value) / most[at], exactLabel(value, unit));
      return [h("td.number", {}, cell), ...(pairs.length === 1 && pair.objects >= 0 ? [h("td.number", { text: grouped(one.values[pair.objects]) })] : [])];
    });
    return h("tr", {}, h("th", { scope: "row" }, keep), ...cells);
  };
  return h("section.heap-classes", {}, h("h2", { text: title }), h("table", {}, h("thead", {}, h("tr", {}, h("th", { text: title === "Sizes" ? "from" : "", scope: "col" }), ...heads)), h("tbody", {}, ...classes.map(row))));
}

/** Links to other profiles of the same memory. @param {App} app @param {HeapData} data */
function morePart(app, data) {
  const { entries, about, live_heap: questions } = app.opened;
  const others = entries.filter((entry) => entry.id !== about?.id && /heap|alloc|lifetime|growth|freed|peak|inuse/.test(`${entry.name} ${entry.kind}`));
  const links = others.slice(-8).map((entry) => h("li", {}, h("button.link", { text: entry.name, onclick: () => app.set({ profile: entry.id, type: "", base: "", zoom: "", time: "" }) })));
  const asks = questions.map((what) => h("li", {}, h("button.link", { text: HEAP_QUESTIONS[what], onclick: () => app.take(10, what) })));
  const hint = data.lifetimes.length === 0 && links.length + asks.length === 0;
  if (hint) return h("p.soft", { text: "Lifetimes, growth, frees and the peak are separate profiles: lifetime, growth, freed and peak under /debug/pprof/ of a service with flamelet. Open them together with this one." });
  const list = (/** @type {string} */ title, /** @type {HTMLElement[]} */ items) => (items.length > 0 ? h("section", {}, h("h2", { text: title }), h("ul.heap-more", {}, ...items)) : null);
  return h("div", {}, list("Other profiles", links), list("Take a profile", asks));
}

/** @param {App} app @param {HeapSites} sites @returns {import("./table.js").Column[]} */
function siteColumns(app, sites) {
  const types = app.opened.about?.types ?? [];
  const pairs = pairsOf(app);
  const columns = pairs.flatMap((pair) => {
    const space = { id: types[pair.space].kind, title: pair.title, number: true, sortable: true };
    return [space, ...(pair.objects >= 0 ? [{ id: types[pair.objects].kind, title: "Objects", number: true, sortable: true }] : [])];
  });
  const extra = (/** @type {string} */ id, /** @type {string} */ title, /** @type {string} */ hint) => columns.push(/** @type {any} */ ({ id, title, hint, number: true, sortable: true }));
  if (hasKept(app)) extra("kept", "Kept", "the share of allocated memory that is still in use");
  extra("mean", "Mean size", "average bytes per object");
  if (sites.temporary.length > 0) extra("temporary", "Temporary", "objects freed before their thread allocated anything else");
  return [...columns, { id: "name", title: "Function", sortable: true }];
}

/** @param {App} app */
function hasKept(app) {
  const ids = pairsOf(app).map((pair) => pair.id);
  return !app.isDiff() && ids.includes("inuse") && ids.includes("alloc");
}

/** The value of a site in a column. @param {App} app @param {HeapSites} sites @param {number} at @param {string} column @returns {number} */
function siteFigure(app, sites, at, column) {
  const pairs = pairsOf(app);
  const value = (/** @type {number} */ type) => (type < 0 ? 0 : sites.values[type][at]);
  const share = (/** @type {number} */ part, /** @type {number} */ all) => (all === 0 ? 0 : part / all);
  const of = (/** @type {string} */ id) => pairs.find((pair) => pair.id === id) ?? pairs[0];
  if (column === "kept") return share(value(of("inuse").space), value(of("alloc").space));
  if (column === "mean") {
    const pair = pairs.find((one) => value(one.objects) !== 0) ?? pairs[0];
    return share(value(pair.space), value(pair.objects));
  }
  if (column === "temporary") return share(sites.temporary[at], value(pairs[0].objects));
  const type = (app.opened.about?.types ?? []).findIndex((other) => other.kind === column);
  return app.isDiff() ? value(type) - (sites.base[type]?.[at] ?? 0) : value(type);
}

/** The sites sorted by a column, largest first. @param {App} app @param {HeapSites} sites @param {string} column */
function sortedSites(app, sites, column) {
  const order = sites.name.map((_, at) => at);
  const name = (/** @type {number} */ at) => sites.names[sites.name[at]];
  if (column === "name") return order.sort((a, b) => (name(a) < name(b) ? -1 : 1));
  return order.sort((a, b) => Math.abs(siteFigure(app, sites, b, column)) - Math.abs(siteFigure(app, sites, a, column)));
}

/** @param {App} app @param {HeapSites} sites @param {number} at @returns {HTMLElement[]} */
function siteCells(app, sites, at) {
  const types = app.opened.about?.types ?? [];
  const { per_sample: perSample } = app.sampleType();
  const cells = pairsOf(app).flatMap((pair) => {
    const cellOf = (/** @type {number} */ type) => {
      const [{ unit, total }, value] = [types[type], sites.values[type][at]];
      if (app.isDiff()) return changeCell(sites.base[type][at], value, unit, perSample);
      if (type !== pair.space) return h("div", { text: valueLabel(value, unit) });
      return barCell(valueLabel(value, unit), Math.abs(value) / Math.max(1, Math.abs(total)), `${exactLabel(value, unit)} · ${shareLabel(value, total)}`);
    };
    return [pair.space, pair.objects].filter((type) => type >= 0).map(cellOf);
  });
  const share = (/** @type {string} */ column) => h("div", { text: shareLabel(siteFigure(app, sites, at, column), 1) });
  if (hasKept(app)) cells.push(share("kept"));
  cells.push(h("div", { text: valueLabel(Math.round(siteFigure(app, sites, at, "mean")), "bytes") }));
  if (sites.temporary.length > 0) cells.push(share("temporary"));
  const name = nameCell(sites.names[sites.name[at]], sites.hues[sites.name[at]]);
  const inner = sites.names[sites.inner[at]];
  if (sites.inner[at] !== sites.name[at]) name.append(h("span.soft", { text: `  through ${inner}` }));
  return [...cells, name];
}
