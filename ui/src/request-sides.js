// @ts-check
// What one route spends its time on: CPU, blocked and awaiting, side by side.

import { FlameCanvas } from "./canvas.js";
import { h, replaceContent } from "./dom.js";
import { flash, hideTooltip, showTooltip } from "./overlay.js";
import { FIRST_STATE } from "./state.js";
import { exactLabel, shareLabel, valueLabel } from "./units.js";
import { readersTable } from "./view-flame.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./picture.js").Picture} Picture */
/** @typedef {{title: string, means: string, what: string, filters: import("./state.js").Filter[]}} SidePart a profile to take: its title, what it shows, its endpoint, and the filters for the route */

/** The unit of all of them. */
const SIDE_UNIT = "nanoseconds";

/**
 * Takes the profiles of a route, one after the other, and shows each as soon as it is there.
 * @param {App} app @param {string} title @param {SidePart[][]} columns @param {() => void} close
 */
export function routeSides(app, title, columns, close) {
  const panes = columns.map((parts) => parts.map((part) => new SidePane(app, part)));
  const element = h(
    "section.request-sides",
    { "aria-label": `Profiles of ${title}` },
    h("div.request-sides-head", {}, h("h2", { text: title }), h("button.toggle", { text: "Close", onclick: close })),
    h("div.request-columns", {}, ...panes.map((column) => h("div.request-column", {}, ...column.map((pane) => pane.element)))),
  );
  return {
    element,
    async load() {
      for (const pane of panes.flat()) await pane.load();
    },
    themeChanged: () => panes.flat().forEach((pane) => pane.flame.themeChanged()),
  };
}

/** One of the profiles. */
class SidePane {
  /** @param {App} app @param {SidePart} part */
  constructor(app, part) {
    this.app = app;
    this.part = part;
    /** @type {State} */
    this.state = { ...FIRST_STATE, view: "flame", filters: part.filters };
    this.flame = new FlameCanvas(
      {
        zoom: () => this.open(),
        menu: () => this.open(),
        hover: (picture, box, event) => this.hover(picture, box, event),
        select: () => {},
        magnified: () => {},
      },
      `${part.title}, as a flame graph. Enter opens it.`,
    );
    this.total = h("span.soft", { text: "…" });
    this.table = h("div.for-readers");
    const head = h("div.request-side-head", {}, h("button.link", { text: part.title, title: `Open this profile: ${part.means}`, onclick: () => this.open() }), this.total);
    this.element = h("div.request-side", {}, head, this.flame.element, this.table);
  }

  async load() {
    const { app, part } = this;
    flash(`Taking a profile: ${part.title} …`);
    const entry = await app.waitFor(app.provider.take(10, part.what));
    if (entry === null) return void (this.total.textContent = "not taken");
    this.state = { ...this.state, profile: entry.id };
    const picture = await app.waitFor(app.provider.flame(this.state, { direction: "callees", pivot: "", zoom: "", width: this.flame.width * (devicePixelRatio || 1) }));
    if (picture === null) return;
    const whole = picture.weight[0] ?? 0;
    this.total.textContent = whole > 0 ? valueLabel(whole, SIDE_UNIT) : "nothing for this route";
    this.flame.show(picture, false);
    replaceContent(this.table, readersTable(picture, SIDE_UNIT));
  }

  /** Shows this profile alone. */
  open() {
    hideTooltip();
    if (this.state.profile !== "") this.app.set({ ...this.state });
  }

  /** @param {Picture} picture @param {number} box @param {MouseEvent | null} event */
  hover(picture, box, event) {
    if (box < 0 || !event) return hideTooltip();
    const value = picture.valueOf(box).now;
    showTooltip(picture.nameOf(box), picture.fileOf(box), [["total", `${exactLabel(value, SIDE_UNIT)} · ${shareLabel(value, picture.weight[0] || 1)}`]], event);
  }
}
