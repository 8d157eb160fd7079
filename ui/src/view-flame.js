// @ts-check
// The flame graph: from the roots or from the leaves, growing down or up.

import { FlameCanvas } from "./canvas.js";
import { afterPaint, debounced, h, replaceContent } from "./dom.js";
import { announce, hideTooltip, showTooltip } from "./overlay.js";
import { openPaths, zoomPath } from "./state.js";
import { changeLabel, exactLabel, shareLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./picture.js").Picture} Picture */

/** The largest magnification by wheel for which finer boxes are requested; beyond it, zooming is cheaper. */
const MOST_MAGNIFIED = 16;

/** A canvas that requests the boxes for the current state. */
export class FlamePane {
  /**
   * @param {App} app
   * @param {{direction: (state: State) => "callees" | "callers", pivot: (state: State) => string, upward: (state: State) => boolean, zooms: boolean, label: string}} options
   */
  constructor(app, options) {
    this.app = app;
    this.options = options;
    this.magnified = 1;
    this.shown = "";
    this.asked = "";
    /** @type {AbortController | null} */
    this.pending = null;
    /** What the picture is an answer to. @type {import("./provider.js").FlameQuery | null} */
    this.wanted = null;
    this.flame = new FlameCanvas(
      {
        zoom: (picture, box, since) => this.zoomTo(picture, box, since),
        menu: (picture, box, event) => picture.name[box] >= 0 && !picture.isChain(box) && app.functionMenu(picture.nameOf(box), event),
        hover: (picture, box, event) => this.hover(picture, box, event),
        select: (picture, box) => this.select(picture, box),
        magnified: (scale) => this.magnify(scale),
      },
      options.label,
    );
    this.notice = h("div.notice", { hidden: true });
    this.table = h("div.for-readers");
    this.legend = options.zooms ? legendOf() : null;
    this.element = h("div.flame-holder", {}, this.flame.element, this.legend, this.notice, this.table);
    this.finer = debounced(120, () => this.update(app.state));
  }

  /** @param {number} scale */
  magnify(scale) {
    const rounded = Math.min(MOST_MAGNIFIED, 2 ** Math.ceil(Math.log2(Math.max(1, scale))));
    if (rounded > this.magnified) {
      this.magnified = rounded;
      this.finer();
    }
  }

  /** @param {State} state */
  async update(state) {
    this.flame.upward = this.options.upward(state);
    this.flame.colour = state.colour;
    if (this.legend) this.legend.hidden = state.colour === "heat" || (this.app.isDiff() && state.colour !== "crate");
    const zoom = this.options.zooms ? state.zoom : "";
    const wanted = { direction: this.options.direction(state), pivot: this.options.pivot(state), zoom, width: 0 };
    const what = JSON.stringify([this.app.dataKey(), state.open, wanted]);
    if (what !== this.shown) this.magnified = 1;
    wanted.width = this.flame.width * (devicePixelRatio || 1) * this.magnified;
    const asked = `${what} ${Math.ceil(wanted.width / 100)}`;
    if (asked === this.asked) return this.redraw(state);
    this.asked = asked;
    this.pending?.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    const picture = await this.app.waitFor(this.app.provider.flame(state, wanted, signal), signal);
    if (picture === null || signal.aborted) {
      if (!signal.aborted) this.asked = "";
      return;
    }
    // For the benchmark: the time from the click until the finer boxes are on the screen.
    if (this.expected === what) afterPaint(() => performance.measure("flamelet-zoom", "flamelet-click"));
    if (what === this.shown || this.expected === what) this.flame.refine(picture);
    else this.flame.show(picture, false);
    this.shown = what;
    this.wanted = wanted;
    // After a zoom, the picture comes first and the text for screen readers after it.
    if (this.expected === what) afterPaint(() => this.flame.picture === picture && this.describe(picture));
    else this.describe(picture);
    this.expected = "";
    this.redraw(this.app.state);
  }

  /** Highlights the search matches. @param {State} state */
  redraw(state) {
    const picture = this.flame.picture;
    const pattern = this.app.pattern(state.query);
    this.flame.hit = pattern && picture ? picture.matches(pattern).hit : null;
    this.flame.redraw();
    if (pattern && picture && picture.chains.size > 0) void this.markFolded(state, picture);
  }

  /** Highlights the folded boxes that hold a match, too. @param {State} state @param {Picture} picture */
  async markFolded(state, picture) {
    // Without an answer, only the matches that are not folded are highlighted.
    const found = this.wanted ? await this.app.provider.holding(state, this.wanted).catch(() => []) : [];
    if (this.flame.picture !== picture || this.app.state.query !== state.query || !this.flame.hit) return;
    for (const box of found) this.flame.hit[box] = 1;
    this.flame.redraw();
  }

  /** @param {Picture} picture @param {number} box @param {number} [since] when it was asked for */
  zoomTo(picture, box, since = performance.now()) {
    hideTooltip();
    if (picture.isChain(box)) return this.open(picture, box);
    if (!this.options.zooms) {
      if (picture.name[box] >= 0 && box !== 0) this.app.set({ pivot: picture.nameOf(box) });
      return;
    }
    const path = zoomPath(picture.pathOf(box));
    if (path === this.app.state.zoom) return;
    performance.mark("flamelet-click", { startTime: since });
    // The current boxes move at once; finer ones replace them when they arrive.
    picture.zoom = box;
    this.flame.moveTo(picture.x[box], picture.x[box] + picture.weight[box], true);
    this.app.set({ zoom: path });
    const zoom = this.app.state.zoom;
    const wanted = { direction: this.options.direction(this.app.state), pivot: this.options.pivot(this.app.state), zoom, width: 0 };
    this.expected = JSON.stringify([this.app.dataKey(), this.app.state.open, wanted]);
  }

  /** Shows the frames of a chain. @param {Picture} picture @param {number} box */
  open(picture, box) {
    const paths = [...openPaths(this.app.state), zoomPath(picture.pathOf(box))];
    this.app.set({ open: paths.join(",") });
  }

  /** @param {Picture} picture @param {number} box @param {MouseEvent | null} event */
  hover(picture, box, event) {
    if (box < 0 || !event) {
      hideTooltip();
      return;
    }
    showTooltip(picture.nameOf(box), this.placeOf(picture, box), this.factsOf(picture, box), event);
  }

  /** @param {Picture} picture @param {number} box */
  placeOf(picture, box) {
    if (picture.isChain(box)) return "These frames lead to your code, or start a thread: a click shows them";
    return [picture.ownerOf(box), picture.fileOf(box)].filter((part) => part !== "").join(" · ");
  }

  /** @param {Picture} picture @param {number} box @returns {[string, string][]} */
  factsOf(picture, box) {
    const { unit } = this.app.sampleType();
    const all = this.app.total();
    const [value, own] = [picture.valueOf(box), picture.ownOf(box)];
    if (picture.diff) {
      return [
        ["before", exactLabel(value.base, unit)],
        ["now", exactLabel(value.now, unit)],
        ["change", `${changeLabel(value.now - value.base, unit)} (${relativeChange(value.base, value.now)})`],
        ["own change", changeLabel(own.now - own.base, unit)],
      ];
    }
    /** @type {[string, string][]} */
    const facts = [["total", `${exactLabel(value.now, unit)} · ${shareLabel(value.now, all)}`]];
    facts.push(["self", `${exactLabel(own.now, unit)} · ${shareLabel(own.now, all)}`]);
    const inView = picture.weight[picture.zoom];
    if (picture.zoom !== 0 && picture.standsOn(picture.zoom, box)) facts.push(["of the zoomed box", shareLabel(value.now, inView)]);
    return facts;
  }

  /** @param {Picture} picture @param {number} box */
  select(picture, box) {
    if (picture.name[box] >= 0 && !picture.isChain(box)) this.app.chosen = picture.nameOf(box);
    const facts = this.factsOf(picture, box).map(([name, value]) => `${name} ${value}`);
    announce(`${picture.nameOf(box)}: ${facts.join(", ")}`);
    this.app.status(`${picture.nameOf(box)} — ${facts.join(" · ")}`);
  }

  /** Updates the table for screen readers, and the note about boxes that a saved page left out. @param {Picture} picture */
  describe(picture) {
    replaceContent(this.table, readersTable(picture, this.app.sampleType().unit));
    this.notice.textContent = noticeFor(picture, this.app.provider.saved);
    this.notice.hidden = this.notice.textContent === "";
  }

  themeChanged() {
    this.flame.themeChanged();
  }

  /** @param {boolean} on */
  printed(on) {
    this.flame.printed(on);
  }
}

/** A picture as a table for screen readers. @param {Picture} picture @param {string} unit */
export function readersTable(picture, unit) {
  const all = picture.weight[0] || 1;
  const order = Array.from({ length: picture.count }, (_, at) => at).sort((a, b) => picture.own[b] - picture.own[a]);
  const rows = order.slice(0, 30).map((box) => h("tr", {}, h("td", { text: picture.nameOf(box) }), h("td", { text: valueLabel(picture.own[box], unit) }), h("td", { text: shareLabel(picture.own[box], all) })));
  const head = h("tr", {}, ...["Function", "Self", "Share"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: "The boxes with the highest cost of their own" }), h("thead", {}, head), h("tbody", {}, ...rows));
}

/** What the colours mean. */
export function legendOf() {
  const entry = (/** @type {string} */ kind, /** @type {string} */ text) => h("span.legend-entry", {}, h(`span.swatch.${kind}`), h("span", { text }));
  return h(
    "div.legend",
    { role: "note", "aria-label": "What the colours mean" },
    entry("yours", "your code"),
    entry("dependency", "dependencies, by crate"),
    entry("std", "standard library"),
    entry("system", "system libraries"),
    entry("kernel", "kernel"),
    entry("chain", "folded frames of others: click to open, r shows everything"),
  );
}

/** The note above a picture. @param {Picture} picture @param {boolean} saved */
function noticeFor(picture, saved) {
  if (saved && picture.data.narrower > 0) {
    const share = shareLabel(picture.data.cutoff, picture.weight[0] || 1);
    return `To keep this file small, boxes under ${share} of the total were left out (in ${picture.data.narrower} places). Open the profile with “flamelet view” to see them.`;
  }
  if (picture.weight[0] === 0 || picture.count === 0) return [...(picture.data.notes ?? []), "Nothing to show. Remove a filter or choose another sample type."].join(" · ");
  return (picture.data.notes ?? []).join(" · ");
}

/** @param {number} before @param {number} now */
export function relativeChange(before, now) {
  if (before === 0) return now === 0 ? "unchanged" : "new";
  if (now === 0) return "gone";
  const share = (100 * (now - before)) / Math.abs(before);
  return `${share > 0 ? "+" : ""}${share.toFixed(Math.abs(share) < 10 ? 1 : 0)}%`;
}

/** @param {App} app */
export function flameView(app) {
  const pane = new FlamePane(app, {
    direction: (state) => (state.inverted ? "callers" : "callees"),
    pivot: () => "",
    upward: (state) => state.upward,
    zooms: true,
    label: "Flame graph. Use the arrow keys to move, Enter to zoom, question mark for all keys. The call tree shows the same data as a table.",
  });
  const invert = h("button.toggle", { onclick: () => app.set({ inverted: !app.state.inverted, zoom: "" }), title: "Start from the functions that were running instead of the roots (i)" });
  const grow = h("button.toggle", { onclick: () => app.set({ upward: !app.state.upward }), title: "Put the roots at the bottom or at the top (g)" });
  const colour = h("button.toggle", { onclick: () => app.set({ colour: nextColour(app) }), title: "Change what the colours show" });
  const reset = h("button.toggle", { onclick: () => app.set({ zoom: "" }), text: "Zoom out", title: "Show everything again (0)" });
  return {
    element: pane.element,
    controls: [invert, grow, colour, reset],
    /** @param {State} state */
    update(state) {
      invert.textContent = state.inverted ? "Callers" : "Callees";
      invert.setAttribute("aria-pressed", String(state.inverted));
      grow.textContent = state.upward ? "Flame ↑" : "Icicle ↓";
      const plain = state.colour === "crate" ? "owner" : state.colour;
      colour.textContent = `Colour: ${plain || (app.isDiff() ? "change" : "owner")}`;
      reset.hidden = state.zoom === "";
      return pane.update(state);
    },
    themeChanged: () => pane.themeChanged(),
    printed: (/** @type {boolean} */ on) => pane.printed(on),
    focus: () => pane.flame.canvas.focus(),
  };
}

/** @param {App} app */
function nextColour(app) {
  if (app.isDiff()) return app.state.colour === "crate" ? "" : "crate";
  return app.state.colour === "heat" ? "" : "heat";
}

