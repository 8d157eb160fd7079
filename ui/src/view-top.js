// @ts-check
// The table of functions.

import { h } from "./dom.js";
import { withoutArguments, withoutGenerics } from "./names.js";
import { VirtualTable, barCell } from "./table.js";
import { relativeChange } from "./view-flame.js";
import { changeLabel, exactLabel, grouped, isNoise, shareLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./provider.js").Functions} Functions */
/** @typedef {import("./table.js").Column} Column */

/** @type {Column[]} */
const PLAIN_COLUMNS = [
  { id: "flat", title: "Self", hint: "the cost of the function itself", number: true, sortable: true },
  { id: "flatshare", title: "Self %", number: true },
  { id: "cum", title: "Total", hint: "the function and everything it called", number: true, sortable: true },
  { id: "cumshare", title: "Total %", number: true },
  { id: "name", title: "Function", sortable: true },
];

/** @type {Column[]} */
const DIFF_COLUMNS = [
  { id: "flat", title: "Self now", number: true, sortable: true },
  { id: "flatchange", title: "Self change", number: true },
  { id: "cum", title: "Total now", number: true, sortable: true },
  { id: "change", title: "Total change", number: true, sortable: true },
  { id: "relative", title: "Change %", hint: "relative to the value before; “noise” is a change that chance can explain", number: true },
  { id: "name", title: "Function", sortable: true },
];

/** @type {Column[]} */
const NARROW_COLUMNS = [
  { id: "cum", title: "Total %", number: true, sortable: true },
  { id: "name", title: "Function" },
];

/** @type {Column[]} */
const NARROW_DIFF_COLUMNS = [
  { id: "change", title: "Change", number: true, sortable: true },
  { id: "name", title: "Function" },
];

/** @param {App} app @param {{narrow: boolean, open: (name: string) => void}} options */
export function functionTable(app, options) {
  /** @type {Functions | null} */
  let rows = null;
  const nameOf = (/** @type {number} */ row) => (rows ? rows.names[rows.name[row]] : "");
  const table = new VirtualTable({
    columns: options.narrow ? NARROW_COLUMNS : PLAIN_COLUMNS,
    label: "Functions",
    cells: (row) => (rows ? functionCells(app, rows, row, options.narrow) : []),
    sort: (column) => app.set({ sort: column }, { replace: true }),
    open: (row) => options.open(nameOf(row)),
    menu: (row, event) => app.functionMenu(nameOf(row), event),
    select: (row) => {
      app.chosen = nameOf(row);
      if (options.narrow) options.open(nameOf(row));
    },
  });
  const footer = h("div.table-footer");
  const element = h("div.table-holder", {}, table.element, footer);
  let shown = "nothing yet";
  return {
    element,
    /** @param {State} state */
    async update(state) {
      const known = (app.isDiff() ? DIFF_COLUMNS : PLAIN_COLUMNS).some((column) => column.id === state.sort && column.sortable);
      const sort = options.narrow ? (app.isDiff() ? "change" : "cum") : known ? state.sort : "flat";
      const search = app.pattern(state.query) === null ? "" : state.query;
      const wanted = JSON.stringify([app.dataKey(), sort, search]);
      if (wanted === shown) return;
      const answer = await app.waitFor(app.provider.functions(state, sort, search));
      if (answer === null) return;
      shown = wanted;
      rows = answer;
      if (options.narrow) table.setColumns(rows.diff ? NARROW_DIFF_COLUMNS : NARROW_COLUMNS, sort);
      else table.setColumns(rows.diff ? DIFF_COLUMNS : PLAIN_COLUMNS, sort);
      table.setCount(rows.name.length);
      const left = rows.count - rows.name.length;
      footer.textContent = left > 0 ? `${grouped(rows.name.length)} of ${grouped(rows.count)} functions; search to see others` : `${grouped(rows.count)} functions`;
    },
    /** The function to show before one is selected. */
    heaviest: () => (rows ? heaviestOfYours(rows) : ""),
    printed: (/** @type {boolean} */ on) => table.printed(on),
    focus: () => table.scroller.focus(),
  };
}

/** The function of yours with the largest cost of its own; of others if none is yours. @param {Functions} rows @returns {string} */
export function heaviestOfYours(rows) {
  const isYours = (/** @type {number} */ row) => rows.owner_kinds[rows.owner[rows.name[row]]] === "yours";
  const all = rows.name.map((_, row) => row);
  const yours = all.filter(isYours);
  const best = (yours.length > 0 ? yours : all).reduce((most, row) => (most < 0 || rows.flat[row] > rows.flat[most] ? row : most), -1);
  return best < 0 ? "" : rows.names[rows.name[best]];
}

/** @param {App} app @param {Functions} rows @param {number} row @param {boolean} narrow @returns {HTMLElement[]} */
function functionCells(app, rows, row, narrow) {
  const { unit, per_sample: perSample } = app.sampleType();
  const all = app.total() || 1;
  const name = nameCell(rows.names[rows.name[row]], rows.hues[rows.name[row]], narrow ? NARROW_NAME : WIDE_NAME);
  const [flat, cum] = [rows.flat[row], rows.cum[row]];
  if (narrow && rows.diff && rows.cum_sides) return [changeCell(rows.cum_sides.base[row], rows.cum_sides.new[row], unit, perSample, rows.cum_real?.[row]), name];
  if (narrow) return [barCell(shareLabel(cum, all), cum / all, exactLabel(cum, unit)), name];
  if (rows.diff && rows.flat_sides && rows.cum_sides) {
    const [flatNow, flatBase] = [rows.flat_sides.new[row], rows.flat_sides.base[row]];
    const [cumNow, cumBase] = [rows.cum_sides.new[row], rows.cum_sides.base[row]];
    return [
      h("div", { text: valueLabel(flatNow, unit), title: exactLabel(flatNow, unit) }),
      changeCell(flatBase, flatNow, unit, perSample, rows.flat_real?.[row]),
      h("div", { text: valueLabel(cumNow, unit), title: exactLabel(cumNow, unit) }),
      changeCell(cumBase, cumNow, unit, perSample, rows.cum_real?.[row]),
      h("div.soft", { text: cumBase !== cumNow && !isReal(cumBase, cumNow, perSample, rows.cum_real?.[row]) ? "noise" : relativeChange(cumBase, cumNow) }),
      name,
    ];
  }
  return [
    h("div", { text: valueLabel(flat, unit), title: exactLabel(flat, unit) }),
    barCell(shareLabel(flat, all), flat / all),
    h("div", { text: valueLabel(cum, unit), title: exactLabel(cum, unit) }),
    barCell(shareLabel(cum, all), cum / all),
    name,
  ];
}

/** Whether a change is more than noise: by the verdict of `flamelet diff` where there is one. @param {number} base @param {number} now @param {number} perSample @param {boolean} [verdict] */
export function isReal(base, now, perSample, verdict) {
  return verdict ?? !isNoise(base, now, perSample);
}

/** A change, in colour if it is more than noise. @param {number} base @param {number} now @param {string} unit @param {number} perSample @param {boolean} [verdict] what `flamelet diff` says, if known */
export function changeCell(base, now, unit, perSample, verdict) {
  const change = now - base;
  const noise = !isReal(base, now, perSample, verdict);
  const look = noise ? ".soft" : change > 0 ? ".more" : ".less";
  return h(`div${look}`, { text: changeLabel(change, unit), title: exactLabel(change, unit) + (noise && change !== 0 ? ", within noise" : "") });
}

/** How many letters of a name there is room for in a table, and in a narrow one. */
const WIDE_NAME = 100;
const NARROW_NAME = 30;

/**
 * A name for a row of a list: without arguments and type parameters if it is longer than `most` letters, as those of C++
 * push the function itself out of sight.
 * @param {string} name @param {number} most @returns {string}
 */
export function listName(name, most) {
  return name.length <= most ? name : withoutArguments(withoutGenerics(name));
}

/** @param {string} name @param {number} hue @param {number} [most] how many letters there is room for */
export function nameCell(name, hue, most = WIDE_NAME) {
  return h("div", { title: name }, h("span.dot", { style: { background: `var(--h${hue < 0 ? 24 : hue})` } }), h("span", { text: listName(name, most) }));
}

/** @param {App} app */
export function topView(app) {
  const table = functionTable(app, { narrow: false, open: (name) => app.set({ view: "sandwich", pivot: name }) });
  return { element: table.element, controls: [], update: table.update, printed: table.printed, focus: table.focus };
}
