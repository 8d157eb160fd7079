// @ts-check
// Labels: the share of each value, with buttons to filter by a value or to group by a key.

import { h, replaceContent } from "./dom.js";
import { barCell } from "./table.js";
import { changeLabel, exactLabel, grouped, shareLabel, valueLabel } from "./units.js";
import { changeCell } from "./view-top.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{text: string, filter: string, weight: number, new: number, base: number}} TagValue */
/** @typedef {{key: string, weight: number, new: number, base: number, count: number, numeric: boolean, values: TagValue[]}} Tag */

/** @param {App} app */
export function tagsView(app) {
  const element = h("div.tags", { tabindex: 0 });
  let shown = "nothing yet";
  return {
    element,
    controls: [],
    /** @param {State} state */
    async update(state) {
      if (app.dataKey() === shown) return;
      const tags = /** @type {Tag[] | null} */ (await app.waitFor(app.provider.data("tags", state)));
      if (tags === null) return;
      shown = app.dataKey();
      replaceContent(element, ...(tags.length > 0 ? tags.map((tag) => tagCard(app, tag)) : [h("p.empty", { text: "No sample that matches the filters has labels." })]));
    },
    focus: () => element.focus(),
  };
}

/** @param {App} app @param {Tag} tag */
function tagCard(app, tag) {
  const { unit, per_sample: perSample } = app.sampleType();
  const diff = app.isDiff();
  const all = app.total() || 1;
  const grouping = app.state.filters.some((filter) => filter.kind === "tagroot" && filter.text === tag.key);
  const group = h("button.toggle", {
    text: "Group by",
    "aria-pressed": grouping,
    title: "Make the values of this label the roots of every view",
    onclick: () => (grouping ? app.set({ filters: app.state.filters.filter((filter) => filter.kind !== "tagroot" || filter.text !== tag.key) }) : app.addFilter("tagroot", tag.key)),
  });
  const most = Math.max(1, ...tag.values.map((value) => value.weight));
  const rows = tag.values.map((value) =>
    h(
      "tr",
      {},
      h("td.number", {}, diff ? changeCell(value.base, value.new, unit, perSample) : barCell(shareLabel(value.weight, all), value.weight / most, exactLabel(value.weight, unit))),
      h("td.number", { text: valueLabel(diff ? value.new : value.weight, unit), title: diff ? `before ${exactLabel(value.base, unit)}` : "" }),
      h("td", {}, h("button.link", { text: value.text, title: "Keep only samples with this label", onclick: () => app.addFilter("tagfocus", value.filter) })),
    ),
  );
  const more = tag.count > tag.values.length ? `${grouped(tag.count - tag.values.length)} more values` : "";
  return h("section.tag", {}, h("header", {}, h("h2", { text: tag.key }), h("span.soft", { text: diff ? `${changeLabel(tag.new - tag.base, unit)} in total` : `${shareLabel(tag.weight, all)} of the total has this label` }), h("span.spring"), group), h("table", {}, h("tbody", {}, ...rows)), h("p.soft", { text: more }));
}
