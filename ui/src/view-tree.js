// @ts-check
// The call tree as a table with rows that open.

import { h } from "./dom.js";
import { zoomPath } from "./state.js";
import { VirtualTable, barCell } from "./table.js";
import { exactLabel, shareLabel, valueLabel } from "./units.js";
import { changeCell } from "./view-top.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./provider.js").TreeRow & {depth: number, keys: number[], open: boolean}} Row */

/** @type {import("./table.js").Column[]} */
const TREE_COLUMNS = [
  { id: "cum", title: "Total", number: true },
  { id: "cumshare", title: "Total %", number: true },
  { id: "flat", title: "Self", number: true },
  { id: "tree", title: "Function" },
];

/** @type {import("./table.js").Column[]} */
const DIFF_TREE_COLUMNS = [
  { id: "base", title: "Before", number: true },
  { id: "cum", title: "Now", number: true },
  { id: "cumchange", title: "Change", number: true },
  { id: "tree", title: "Function" },
];

/** A row with nearly all of its parent's value is opened together with it. */
const HEAVY = 0.8;

/** @param {App} app */
export function treeView(app) {
  /** @type {Row[]} */
  let rows = [];
  let shown = "nothing yet";
  const table = new VirtualTable({
    columns: TREE_COLUMNS,
    label: "Call tree",
    cells: (row) => treeCells(app, rows[row], () => toggle(row)),
    open: (row) => toggle(row),
    menu: (row, event) => app.functionMenu(rows[row].name, event),
    select: (row) => (app.chosen = rows[row].name),
    level: (row) => ({ level: rows[row].depth + 1, open: rows[row].leaf ? null : rows[row].open }),
    key: (row, key) => {
      if (key === "ArrowRight" && !rows[row].open) toggle(row);
      else if (key === "ArrowLeft" && rows[row].open) toggle(row);
      else if (key === "ArrowLeft") table.select(parentOf(rows, row));
      else return false;
      return true;
    },
  });

  /** @param {number} at */
  async function toggle(at) {
    const row = rows[at];
    if (row.leaf) return;
    row.open = !row.open;
    if (row.open) {
      const opened = await below(row);
      const now = rows.indexOf(row);
      if (now < 0 || !row.open) return;
      rows.splice(now + 1, 0, ...opened);
    } else {
      let end = at + 1;
      while (end < rows.length && rows[end].depth > row.depth) end++;
      rows.splice(at + 1, end - at - 1);
    }
    table.setCount(rows.length);
  }

  /** The children of a row; those with most of its value are opened too. @param {Row} row @returns {Promise<Row[]>} */
  async function below(row) {
    const children = await childrenOf(row.keys, row.depth + 1);
    const heaviest = children[0];
    if (!heaviest || heaviest.leaf || heaviest.weight < HEAVY * row.weight || row.depth > 200) return children;
    heaviest.open = true;
    return [heaviest, ...(await below(heaviest)), ...children.slice(1)];
  }

  /** @param {number[]} keys @param {number} depth @returns {Promise<Row[]>} */
  async function childrenOf(keys, depth) {
    const children = await app.waitFor(app.provider.children(app.state, zoomPath(keys)));
    return (children ?? []).map((child) => ({ ...child, depth, keys: [...keys, child.key], open: false }));
  }

  const invert = h("button.toggle", { onclick: () => app.set({ inverted: !app.state.inverted, zoom: "" }) });
  return {
    element: h("div.table-holder", {}, table.element),
    controls: [invert],
    /** @param {State} state */
    async update(state) {
      invert.textContent = state.inverted ? "Callers" : "Callees";
      const wanted = JSON.stringify([app.dataKey(), state.inverted]);
      if (wanted === shown) return;
      shown = wanted;
      table.setColumns(app.isDiff() ? DIFF_TREE_COLUMNS : TREE_COLUMNS, "");
      const first = await childrenOf([], 0);
      rows = [];
      for (const row of first) {
        rows.push(row);
        if (row.leaf || row.weight < HEAVY * app.total()) continue;
        row.open = true;
        rows.push(...(await below(row)));
      }
      table.setCount(rows.length);
    },
    printed: (/** @type {boolean} */ on) => table.printed(on),
    focus: () => table.scroller.focus(),
  };
}

/** @param {Row[]} rows @param {number} at */
function parentOf(rows, at) {
  let parent = at;
  while (parent > 0 && rows[parent].depth >= rows[at].depth) parent--;
  return parent;
}

/** @param {App} app @param {Row} row @param {() => void} toggle @returns {HTMLElement[]} */
function treeCells(app, row, toggle) {
  const { unit, per_sample: perSample } = app.sampleType();
  const all = app.total() || 1;
  const value = (/** @type {number} */ amount) => h("div", { text: valueLabel(amount, unit), title: exactLabel(amount, unit) });
  const twist = h("button.twist", {
    text: row.leaf ? "" : row.open ? "▾" : "▸",
    tabindex: -1,
    "aria-label": row.open ? "close" : "open",
    onclick: (/** @type {MouseEvent} */ event) => (event.stopPropagation(), toggle()),
  });
  const name = h(
    "div",
    { title: row.name, style: { paddingLeft: `${Math.min(60, row.depth) * 12}px` } },
    twist,
    h("span.dot", { style: { background: `var(--h${row.hue < 0 ? 24 : row.hue})` } }),
    h("span", { text: row.name }),
  );
  if (app.isDiff()) return [value(row.base), value(row.new), changeCell(row.base, row.new, unit, perSample), name];
  return [value(row.weight), barCell(shareLabel(row.weight, all), row.weight / all), value(row.own), name];
}
