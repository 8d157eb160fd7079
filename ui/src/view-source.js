// @ts-check
// Source and instructions of a function, with the cost of each line.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { exactLabel, shareLabel, valueLabel } from "./units.js";
import { functionTable } from "./view-top.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{line: number, text: string, flat: number, cum: number}} SourceLine */
/** @typedef {{address: number, text: string, source: string | null, flat: number, cum: number}} Instruction */
/** @typedef {{file: string, lines: SourceLine[], missing: string | null}} SourceFile */
/** @typedef {{function: string, files: SourceFile[], instructions: Instruction[], note: string}} Code */

/** @param {App} app */
export function sourceView(app) {
  const list = functionTable(app, { narrow: true, open: (name) => app.set({ pivot: name }) });
  const right = h("div.code", { tabindex: 0 });
  const empty = h("div.empty", { text: "Select a function on the left to see its source and instructions." });
  let shown = "nothing yet";
  return {
    element: h("div.sandwich", {}, h("div.sandwich-list", {}, list.element), right),
    controls: [],
    /** @param {State} state */
    async update(state) {
      await list.update(state);
      const wanted = `${app.dataKey()} ${state.pivot}`;
      if (wanted === shown) return;
      if (!app.opened.code) return replaceContent(right, h("div.empty", { text: app.opened.no_code }));
      if (state.pivot === "") {
        const heaviest = list.heaviest();
        if (heaviest !== "" && app.state.view === state.view && app.state.pivot === "") return app.set({ pivot: heaviest }, { replace: true });
        return replaceContent(right, empty);
      }
      const code = /** @type {Code | null} */ (await app.waitFor(app.provider.data("code", state, { fn: state.pivot })));
      if (code === null) return replaceContent(right, h("div.empty", { text: "No source for this function." }));
      shown = wanted;
      replaceContent(right, ...codeParts(app, code));
    },
    printed: list.printed,
    focus: () => list.focus(),
  };
}

/** @param {App} app @param {Code} code */
function codeParts(app, code) {
  const parts = [h("h2.code-name", { text: code.function })];
  if (code.note !== "") parts.push(h("p.soft", { text: code.note }));
  for (const file of code.files) {
    const most = Math.max(1, ...file.lines.map((line) => line.cum));
    const rows = file.lines.map((line) => codeRow(app, line, most, [String(line.line)], line.text));
    parts.push(h("section", {}, h("h3", { text: file.file }), h("p.soft", { text: file.missing ?? "" }), h("table.listing", {}, codeHead(["Line"]), h("tbody", {}, ...rows))));
  }
  if (code.instructions.length > 0) {
    const most = Math.max(1, ...code.instructions.map((one) => one.cum));
    const rows = code.instructions.map((one) => codeRow(app, one, most, [one.address.toString(16)], one.text, one.source ?? ""));
    parts.push(h("section", {}, h("h3", { text: "Instructions" }), h("table.listing", {}, codeHead(["Address"]), h("tbody", {}, ...rows))));
  }
  return parts;
}

/** @param {string[]} places */
function codeHead(places) {
  return h("thead", {}, h("tr", {}, ...["Self", "Total", ...places, ""].map((text) => h("th", { text, scope: "col" }))));
}

/** @param {App} app @param {{flat: number, cum: number}} cost @param {number} most @param {string[]} places @param {string} text @param {string} [source] */
function codeRow(app, cost, most, places, text, source = "") {
  const { unit } = app.sampleType();
  const all = app.total() || 1;
  const heat = cost.cum > 0 ? currentPalette().heatOf(cost.cum / most) : "";
  const value = (/** @type {number} */ amount) => h("td.number", { text: amount === 0 ? "" : valueLabel(amount, unit), title: amount === 0 ? "" : `${exactLabel(amount, unit)} · ${shareLabel(amount, all)}` });
  return h("tr", {}, value(cost.flat), value(cost.cum), ...places.map((place) => h("td.number.soft", { text: place })), h("td.code-text", { text, title: source, style: heat === "" ? {} : { boxShadow: `inset 4px 0 ${heat}` } }));
}
