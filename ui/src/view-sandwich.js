// @ts-check
// Sandwich: the callers of a function above it, its callees below.

import { h, replaceContent } from "./dom.js";
import { functionTable } from "./view-top.js";
import { FlamePane, relativeChange } from "./view-flame.js";
import { changeLabel, exactLabel, shareLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */

/** @param {App} app */
export function sandwichView(app) {
  const callers = new FlamePane(app, {
    direction: () => "callers",
    pivot: (state) => state.pivot,
    upward: () => true,
    zooms: false,
    label: "Callers of the selected function",
  });
  const callees = new FlamePane(app, {
    direction: () => "callees",
    pivot: (state) => state.pivot,
    upward: () => false,
    zooms: false,
    label: "Callees of the selected function",
  });
  const list = functionTable(app, { narrow: true, open: (name) => app.set({ pivot: name }) });
  const name = h("div.pivot-name");
  const facts = h("div.pivot-facts");
  const halves = h("div.sandwich-halves", {}, h("div.half-label", { text: "callers" }), callers.element, h("div.pivot", {}, name, facts), h("div.half-label", { text: "callees" }), callees.element);
  const empty = h("div.empty", { text: "Select a function on the left to see its callers and callees." });
  const right = h("div.sandwich-right");
  return {
    element: h("div.sandwich", {}, h("div.sandwich-list", {}, list.element), right),
    controls: [],
    /** @param {State} state */
    async update(state) {
      replaceContent(right, state.pivot === "" ? empty : halves);
      name.textContent = state.pivot;
      const work = [list.update(state)];
      if (state.pivot !== "") {
        app.chosen = state.pivot;
        work.push(callers.update(state), callees.update(state));
      }
      await Promise.all(work);
      const heaviest = state.pivot === "" ? list.heaviest() : "";
      if (heaviest !== "" && app.state.view === state.view && app.state.pivot === "") return app.set({ pivot: heaviest }, { replace: true });
      const picture = callees.flame.picture;
      if (state.pivot === "" || !picture) return;
      const { unit } = app.sampleType();
      const [value, own] = [picture.valueOf(0), picture.ownOf(0)];
      const shared = (/** @type {number} */ amount) => `${exactLabel(amount, unit)} · ${shareLabel(amount, app.total())}`;
      const changed = (/** @type {{now: number, base: number}} */ both) => `${changeLabel(both.now - both.base, unit)} (${relativeChange(both.base, both.now)}), from ${valueLabel(both.base, unit)} to ${valueLabel(both.now, unit)}`;
      const text = app.isDiff() ? changed : (/** @type {{now: number}} */ one) => shared(one.now);
      facts.textContent = `total ${text(value)}    self ${text(own)}`;
      callers.flame.scrollToRoot();
    },
    printed(/** @type {boolean} */ on) {
      list.printed(on);
      callers.printed(on);
      callees.printed(on);
    },
    themeChanged() {
      callers.themeChanged();
      callees.themeChanged();
    },
    focus: () => list.focus(),
  };
}
