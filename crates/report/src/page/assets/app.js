(() => {
"use strict";
// dom.js
// Builds elements without parsing HTML, so a name in a profile can never be anything but text.

/**
 * @param {string} tag an element's name, with classes after dots: `div.row.wide`
 * @param {Record<string, any>} attributes `onclick` and the like are listeners, `text` is the content
 * @param {(Node | string | null | undefined | false)[]} children
 * @returns {HTMLElement}
 */
function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) setAttribute(element, key, value);
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** @param {HTMLElement} element @param {string} key @param {any} value */
function setAttribute(element, key, value) {
  if (key.startsWith("aria-") && typeof value === "boolean") return element.setAttribute(key, String(value));
  if (value === null || value === undefined || value === false) return;
  if (key === "text") element.textContent = value;
  else if (key === "style") Object.assign(element.style, value);
  else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "value") /** @type {HTMLInputElement} */ (element).value = value;
  else element.setAttribute(key, value === true ? "" : String(value));
}

/** @param {Element} parent @param {(Node | string | null | false)[]} children */
function replaceContent(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== false));
}

/**
 * Calls `action` once, after `wait` milliseconds without another call.
 * @param {number} wait @param {() => void} action @returns {() => void}
 */
function debounced(wait, action) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(action, wait);
  };
}

/** Calls `action` after the next paint. @param {() => void} action */
function afterPaint(action) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = action;
    channel.port2.postMessage(null);
  });
}

/**
 * Rebuilds a part of the page and gives the focus back to the element that had it, if it still exists.
 * @param {Element} parent @param {() => void} build
 */
function keepingFocus(parent, build) {
  const before = document.activeElement;
  const key = before && parent.contains(before) ? focusKey(before) : null;
  build();
  if (key === null) return;
  const same = [...parent.querySelectorAll("button, select, input")].find((element) => focusKey(element) === key);
  if (same instanceof HTMLElement) same.focus();
}

/** @param {Element} element */
function focusKey(element) {
  return element.getAttribute("data-key") ?? element.getAttribute("aria-label") ?? element.textContent;
}

/** Copies text, also in pages opened from disk. @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { value: text }));
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
// overlay.js
// Overlays: tooltip, context menu, dialogs, short messages.


/** @typedef {[string, string]} Fact a name and a value */

/** @type {HTMLElement | null} */
let tooltipElement = null;

/** @param {string} title @param {string} subtitle @param {Fact[]} facts @param {MouseEvent} event */
function showTooltip(title, subtitle, facts, event) {
  if (tooltipElement === null) document.body.append((tooltipElement = h("div.tooltip", { role: "tooltip", hidden: true })));
  const rows = facts.map(([name, value]) => h("tr", {}, h("th", { text: name }), h("td", { text: value })));
  replaceContent(
    tooltipElement,
    h("div.tooltip-title", { text: title }),
    subtitle !== "" && h("div.tooltip-subtitle", { text: subtitle }),
    h("table", {}, h("tbody", {}, ...rows)),
  );
  tooltipElement.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tooltipElement;
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const below = event.clientY + 18;
  const top = below + height > innerHeight - 8 ? event.clientY - height - 10 : below;
  tooltipElement.style.left = `${Math.max(8, left)}px`;
  tooltipElement.style.top = `${Math.max(8, top)}px`;
}

function hideTooltip() {
  if (tooltipElement) tooltipElement.hidden = true;
}

/** @typedef {{label: string, hint?: string, run: () => void} | null} MenuItem nothing is a line */

/** @param {MenuItem[]} items @param {{clientX: number, clientY: number}} place */
function showMenu(items, place) {
  document.querySelector(".menu")?.remove();
  hideTooltip();
  const before = document.activeElement;
  const close = () => {
    menu.remove();
    removeEventListener("pointerdown", outside, true);
    if (before instanceof HTMLElement) before.focus();
  };
  const outside = (/** @type {Event} */ event) => {
    if (!menu.contains(/** @type {Node} */ (event.target))) close();
  };
  const buttons = items.map((item) =>
    item === null
      ? h("hr")
      : h("button.menu-item", { role: "menuitem", onclick: () => (close(), item.run()) }, h("span", { text: item.label }), h("kbd", { text: item.hint ?? "" })),
  );
  const menu = h("div.menu", { role: "menu", onkeydown: (/** @type {KeyboardEvent} */ event) => menuKey(menu, event, close) }, ...buttons);
  document.body.append(menu);
  menu.style.left = `${Math.min(place.clientX, innerWidth - menu.offsetWidth - 8)}px`;
  menu.style.top = `${Math.min(place.clientY, innerHeight - menu.offsetHeight - 8)}px`;
  addEventListener("pointerdown", outside, true);
  menu.querySelector("button")?.focus();
}

/** @param {HTMLElement} menu @param {KeyboardEvent} event @param {() => void} close */
function menuKey(menu, event, close) {
  const items = [...menu.querySelectorAll("button")];
  const at = items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  event.stopPropagation();
  if (event.key === "Escape") close();
  else if (event.key === "ArrowDown") items[(at + 1) % items.length].focus();
  else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length].focus();
  else return;
  event.preventDefault();
}

/** @param {string} text */
function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

let messageTimer = 0;

/** Shows a message that disappears by itself. @param {string} text */
function flash(text) {
  let place = document.querySelector(".flash");
  if (!place) document.body.append((place = h("div.flash", { role: "status" })));
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(messageTimer);
  messageTimer = window.setTimeout(() => place.classList.remove("shown"), 2500);
}

/** @type {[string, [string, string][]][]} */
const KEY_MAP = [
  ["Everywhere", [
    ["?", "this list"], ["/", "search"], ["u", "undo the last step"], ["1 … 9", "switch the view"],
    ["t", "next sample type"], ["d", "dark or light"], ["x", "remove the last filter"], ["a", "add a filter"], ["Esc", "leave search, zoom out"],
  ]],
  ["Flame graph", [
    ["← → ↑ ↓", "move between boxes"], ["Enter", "zoom to the box"], ["0", "zoom out to everything"],
    ["+ −", "magnify"], ["Ctrl + wheel", "magnify at the mouse"], ["drag", "move"], ["i", "callers instead of callees"],
    ["g", "grow upwards or downwards"], ["r", "show every frame, or fold those of others"], ["n", "fold generics"],
  ]],
  ["Timeline", [["drag", "select a time range"], ["← →", "move the range"], ["Shift + ← →", "move its end"]]],
  ["On the selected function", [
    ["f", "focus: keep only stacks with it"], ["o", "ignore: drop stacks with it"], ["h", "hide its frames"],
    ["s", "sandwich: callers and callees"], ["e", "source and instructions"], ["c", "copy its name"],
  ]],
];

function showHelp() {
  const parts = KEY_MAP.map(([title, keys]) =>
    h("section", {}, h("h3", { text: title }), h("dl", {}, ...keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })]))),
  );
  showDialog("Keys", h("div.key-map", {}, ...parts));
}

/** @param {string} title @param {HTMLElement} content @returns {HTMLDialogElement} */
function showDialog(title, content) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": title, onclose: () => dialog.remove() }));
  const close = h("button.quiet", { "aria-label": "Close", text: "✕", onclick: () => dialog.close() });
  dialog.append(h("header", {}, h("h2", { text: title }), close), content);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
// colour.js
// Colours of boxes, read from the style sheet so that themes stay in one place.

/** @typedef {[number, number, number]} Rgb */

/** @param {string} hex @returns {Rgb} */
function rgbOf(hex) {
  const number = parseInt(hex.trim().slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

/** @param {Rgb} from @param {Rgb} to @param {number} share @returns {Rgb} */
function mixed(from, to, share) {
  const part = (/** @type {number} */ at) => Math.round(from[at] + (to[at] - from[at]) * share);
  return [part(0), part(1), part(2)];
}

/** The WCAG contrast ratio of two colours, 1 to 21. @param {Rgb} one @param {Rgb} other */
function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** @param {Rgb} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {Rgb} colour */
function cssOf(colour) {
  return `rgb(${colour.join(",")})`;
}

/** How much of the background shows through the two shades of a hue. */
const SHADES = [0, 0.16];
const HUE_COUNT = 31;
const HEAT_STEPS = 16;

/** The least contrast of text that passes WCAG AA. */
const LEAST_CONTRAST = 4.5;

/** A text colour that is readable on `paper`: `ink` if its contrast is enough, else black or white. @param {Rgb} paper @param {Rgb} ink @returns {Rgb} */
function inkOn(paper, ink) {
  if (contrast(paper, ink) >= LEAST_CONTRAST) return ink;
  return contrast(paper, [0, 0, 0]) > contrast(paper, [255, 255, 255]) ? [0, 0, 0] : [255, 255, 255];
}

/** The colours of the current theme. */
class Palette {
  /** @param {(name: string) => string} variable reads a custom property of the style sheet */
  constructor(variable) {
    const bg = rgbOf(variable("--bg"));
    /** By hue and shade. @type {string[][]} */
    this.hues = [];
    for (let hue = 0; hue < HUE_COUNT; hue++) {
      const colour = rgbOf(variable(`--h${hue}`));
      this.hues.push(SHADES.map((share) => cssOf(mixed(colour, bg, share))));
    }
    const heats = Array.from({ length: HEAT_STEPS + 1 }, (_, at) => heatColour(variable, at / HEAT_STEPS));
    this.heat = heats.map(cssOf);
    /** The text colour for each step of heat. */
    this.heatInk = heats.map((paper) => cssOf(inkOn(paper, rgbOf(variable("--box-ink")))));
    const heat = [1, 3].map((step) => rgbOf(variable(`--heat-${step}`)));
    const cool = rgbOf(variable("--h0"));
    const rest = rgbOf(variable("--root-box"));
    const change = (/** @type {number} */ share) => {
      const strength = Math.sqrt(Math.abs(share));
      return share < 0 ? mixed(rest, cool, strength) : mixed(rest, strength < 0.5 ? heat[0] : heat[1], strength);
    };
    this.changes = Array.from({ length: 2 * HEAT_STEPS + 1 }, (_, at) => cssOf(change(at / HEAT_STEPS - 1)));
    this.root = variable("--root-box");
    this.ink = variable("--box-ink");
    this.hit = variable("--hit");
    this.hitInk = variable("--hit-ink");
    this.bg = variable("--bg");
    this.accent = variable("--accent");
    this.soft = variable("--soft");
    this.line = variable("--line");
    this.text = variable("--ink");
  }

  /** @param {number} share 0 to 1 */
  heatOf(share) {
    return this.heat[heatStep(share)];
  }

  /** @param {number} share 0 to 1 */
  heatInkOf(share) {
    return this.heatInk[heatStep(share)];
  }

  /** @param {number} share of what changed, -1 (gone) to 1 (new) */
  changeOf(share) {
    return this.changes[Math.round((Math.max(-1, Math.min(1, share)) + 1) * HEAT_STEPS)];
  }
}

/** @param {number} share */
function heatStep(share) {
  return Math.round(Math.max(0, Math.min(1, share)) * HEAT_STEPS);
}

/** @param {(name: string) => string} variable @param {number} share @returns {Rgb} */
function heatColour(variable, share) {
  const place = share * 4;
  const step = Math.min(3, Math.floor(place));
  return mixed(rgbOf(variable(`--heat-${step}`)), rgbOf(variable(`--heat-${step + 1}`)), place - step);
}

/** Patterns that distinguish system libraries and the kernel without colour. @typedef {{system: CanvasPattern | null, kernel: CanvasPattern | null}} Patterns */

/** @param {Palette} palette @returns {Patterns} */
function patternsOf(palette) {
  const tile = (/** @type {(context: CanvasRenderingContext2D) => void} */ draw) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [6, 6];
    const context = canvas.getContext("2d");
    if (!context) return null;
    context.globalAlpha = 0.2;
    context.fillStyle = context.strokeStyle = palette.ink;
    draw(context);
    return context.createPattern(canvas, "repeat");
  };
  return {
    system: tile((context) => context.fillRect(1, 1, 2, 2)),
    kernel: tile((context) => {
      context.beginPath();
      for (const shift of [-6, 0, 6]) {
        context.moveTo(shift, 6);
        context.lineTo(shift + 6, 0);
      }
      context.stroke();
    }),
  };
}

/** The palette of the current theme. @returns {Palette} */
function currentPalette() {
  const style = getComputedStyle(document.documentElement);
  return new Palette((name) => style.getPropertyValue(name).trim());
}
// labels.js
// Label selectors of a fleet, such as {version="2"}: reading, completing, and choosing two values to compare.


/**
 * @typedef {{name: string, values: string[]}} LabelValues
 */

/** Options that are offered at once. */
const MOST_OFFERED = 200;

/** A condition that a label has a value. @param {string} name @param {string} value */
function condition(name, value) {
  return `${name}="${value.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}

/** The inside of a selector, without braces. @param {string} select */
function inside(select) {
  return select.trim().replace(/^\{/, "").replace(/\}$/, "").trim().replace(/,$/, "").trim();
}

/** Adds a condition to a selector. @param {string} select @param {string} name @param {string} value */
function withLabel(select, name, value) {
  const before = inside(select);
  return `{${before === "" ? "" : `${before}, `}${condition(name, value)}}`;
}

/**
 * The selectors that complete what was typed: the conditions before the last one stay.
 * @param {LabelValues[]} labels @param {string} typed @returns {string[]}
 */
function completions(labels, typed) {
  const parts = /^(.*,)?([^,]*)$/s.exec(typed.trim().replace(/^\{/, "").replace(/\}$/, "")) ?? ["", "", ""];
  const [before, last] = [(parts[1] ?? "").trim(), (parts[2] ?? "").trim().toLowerCase()];
  const found = [];
  for (const { name, values } of labels) {
    for (const value of values) {
      const text = condition(name, value);
      if (found.length < MOST_OFFERED && text.toLowerCase().includes(last)) found.push(`{${before}${before === "" ? "" : " "}${text}}`);
    }
  }
  return found;
}

/**
 * The row below the time picker: a selector with completion, and two values of a label to compare.
 * @param {{onSelect: (select: string) => void, onCompare: (base: string, wanted: string) => void}} actions
 */
function labelRow(actions) {
  const list = h("datalist", { id: "label-completions" });
  const field = /** @type {HTMLInputElement} */ (h("input.label-select", { list: "label-completions", "aria-label": "Labels", placeholder: '{version="2"}', spellcheck: "false", autocomplete: "off" }));
  const name = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Label to compare by", onchange: () => showValues() }));
  const base = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "First value" }));
  const wanted = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Second value" }));
  const compare = h("button.toggle", { text: "Compare these two values", title: "Show what changes from the first value to the second in the selected range", onclick: () => compareValues() });
  const pair = h("span.label-pair", {}, name, base, "→", wanted, compare);
  const element = h("div.picker-actions.label-row", { hidden: true }, h("span", { text: "Labels" }), field, list, h("span.spring"), pair);
  /** @type {LabelValues[]} */
  let labels = [];

  const offer = () => replaceContent(list, ...completions(labels, field.value).map((value) => h("option", { value })));
  field.addEventListener("input", offer);
  field.addEventListener("change", () => actions.onSelect(field.value.trim()));

  function showValues() {
    const values = labels.find((label) => label.name === name.value)?.values ?? [];
    const options = () => values.map((value) => h("option", { value, text: value }));
    replaceContent(base, ...options());
    replaceContent(wanted, ...options());
    base.value = values.at(-2) ?? values[0] ?? "";
    wanted.value = values.at(-1) ?? "";
  }

  function compareValues() {
    const [one, other] = [base, wanted].map((side) => withLabel(field.value, name.value, side.value));
    if (base.value !== wanted.value) actions.onCompare(one, other);
  }

  return {
    element,
    /** @param {string} select */
    show(select) {
      field.value = select;
    },
    /** @param {LabelValues[]} next @param {string} select */
    update(next, select) {
      labels = next;
      element.hidden = next.length === 0;
      field.value = select;
      const several = next.filter((label) => label.values.length > 1);
      pair.hidden = several.length === 0;
      const before = name.value;
      replaceContent(name, ...several.map((label) => h("option", { value: label.name, text: label.name })));
      const usual = several.find((label) => label.name === before) ?? several.find((label) => /version|git_ref/.test(label.name)) ?? several[0];
      name.value = usual?.name ?? "";
      showValues();
      offer();
    },
  };
}
// state.js
// Everything that the page shows is stored in its URL, so back, reload and sharing work.

/**
 * @typedef {{kind: string, text: string}} Filter
 * @typedef {object} State
 * @property {string} view      which view; empty for the default of the profile
 * @property {string} type      the sample type by its kind; empty for the profile's default
 * @property {Filter[]} filters the filter chips, in the order they were added
 * @property {string} zoom      the path of name keys from the root to the box that fills the width
 * @property {string} query     the search, a regular expression
 * @property {string} pivot     the function that sandwich and source show
 * @property {string} time      a range of the timeline in nanoseconds, `from-to`
 * @property {string} profile   which of several profiles
 * @property {string} base      the profile to compare with
 * @property {string} service   whose past the time picker shows; empty for the first
 * @property {string} select    which series of the past the time picker shows, as a label selector; empty for all
 * @property {boolean} inverted callers instead of callees
 * @property {boolean} upward   the root at the bottom
 * @property {string} sort      the column that the table is sorted by
 * @property {string} fold      `generics` for names without type parameters, `all` to show every frame, both with a comma
 * @property {string} open      the paths of the chains of frames that are open, with commas
 * @property {string} mine      an expression for code that is yours, whatever paths and names say
 * @property {string} lanes     `task` for a timeline with a lane for each task instead of each thread
 * @property {string} colour    `crate`, `heat` or `diff`; empty for the default
 */

const FILTER_KINDS = ["focus", "ignore", "hide", "show", "showfrom", "tagfocus", "tagignore", "tagroot"];

/** The heap profiles of a live service, by the name of their endpoint. @type {Record<string, string>} */
const HEAP_QUESTIONS = {
  heap: "Memory in use and allocated",
  lifetime: "Lifetimes of freed memory",
  growth: "Growth over 10 s",
  freed: "Where memory is freed",
  peak: "Memory in use at the peak",
};

/** The profiles of waiting of a live service, by the name of their endpoint. @type {Record<string, string>} */
const WAIT_QUESTIONS = {
  await: "What tasks await",
  block: "Where threads wait for locks",
  mutex: "Who holds the locks",
  blocked: "Who blocks the executor",
  wall: "Where all threads are, for 10 s",
};

/** @type {Readonly<State>} */
const FIRST_STATE = Object.freeze({
  view: "",
  type: "",
  filters: [],
  zoom: "",
  query: "",
  pivot: "",
  time: "",
  profile: "",
  base: "",
  service: "",
  select: "",
  inverted: false,
  upward: false,
  sort: "flat",
  fold: "",
  open: "",
  mine: "",
  lanes: "",
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
  ["service", "s"],
  ["select", "sel"],
  ["sort", "sort"],
  ["fold", "fold"],
  ["open", "open"],
  ["mine", "mine"],
  ["lanes", "lanes"],
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
 * The query parameters that select the profile and filter it.
 * @param {State} state @returns {URLSearchParams}
 */
function dataQuery(state) {
  const params = new URLSearchParams();
  for (const [field, key] of STATE_TEXTS) {
    const data = ["type", "time", "profile", "base", "fold", "mine"].includes(field);
    if (data && state[field] !== "") params.append(key, state[field]);
  }
  for (const { kind, text } of state.filters) params.append("f", `${kind}:${text}`);
  return params;
}

/** Whether every frame is shown, and no chain of frames is one box. @param {State} state */
function showsEverything(state) {
  return state.fold.split(",").includes("all");
}

/** The paths of the chains that are open. @param {State} state @returns {string[]} */
function openPaths(state) {
  return state.open === "" ? [] : state.open.split(",");
}

/** A name as a regular expression that matches it alone. @param {string} name */
function exactPattern(name) {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

/**
 * A search pattern: case-insensitive unless it has capitals. Null for an empty search.
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
// units.js
// Formats values with the units and rounding of pprof (and of `flamelet top`).

/** @typedef {{name: string, aliases: string[], factor: number}} Unit */

/** @type {{fallback: [string, number], units: Unit[]}[]} */
const UNIT_FAMILIES = [
  {
    fallback: ["B", 1],
    units: [
      { name: "B", aliases: ["b", "byte"], factor: 1 },
      { name: "kB", aliases: ["kb", "kbyte", "kilobyte"], factor: 2 ** 10 },
      { name: "MB", aliases: ["mb", "mbyte", "megabyte"], factor: 2 ** 20 },
      { name: "GB", aliases: ["gb", "gbyte", "gigabyte"], factor: 2 ** 30 },
      { name: "TB", aliases: ["tb", "tbyte", "terabyte"], factor: 2 ** 40 },
      { name: "PB", aliases: ["pb", "pbyte", "petabyte"], factor: 2 ** 50 },
    ],
  },
  {
    fallback: ["s", 1e9],
    units: [
      { name: "ns", aliases: ["ns", "nanosecond"], factor: 1 },
      { name: "us", aliases: ["μs", "us", "microsecond"], factor: 1e3 },
      { name: "ms", aliases: ["ms", "millisecond"], factor: 1e6 },
      { name: "s", aliases: ["s", "sec", "second"], factor: 1e9 },
      { name: "hrs", aliases: ["hour", "hr"], factor: 3600e9 },
    ],
  },
];

/**
 * `1536, "bytes"` is `1.50kB`; a unit that says nothing, such as `count`, is left out.
 * @param {number} value @param {string} unit @returns {string}
 */
function valueLabel(value, unit) {
  const lower = unit.toLowerCase();
  const singular = lower.length > 2 && lower.endsWith("s") ? lower.slice(0, -1) : lower;
  for (const family of UNIT_FAMILIES) {
    const from = family.units.find((candidate) => candidate.aliases.includes(singular));
    if (!from) continue;
    const base = Math.abs(value) * from.factor;
    const fitting = family.units.findLast((candidate) => base / candidate.factor >= 1);
    const [name, factor] = fitting ? [fitting.name, fitting.factor] : family.fallback;
    return withUnit((Math.sign(value) * base) / factor, name);
  }
  return Number.isInteger(value) ? grouped(value) : withUnit(value, "");
}

/** @param {number} value @param {string} unit */
function withUnit(value, unit) {
  const text = value.toFixed(2).replace(/\.00$/, "");
  return text === "0" || text === "-0" ? "0" : text + unit;
}

/**
 * Whole numbers with thin spaces between groups of three, for exact values.
 * @param {number} value @returns {string}
 */
function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/**
 * The value and, where the label rounds it, the exact one: `1.23s (1 234 567 890 nanoseconds)`.
 * @param {number} value @param {string} unit @returns {string}
 */
function exactLabel(value, unit) {
  const label = valueLabel(value, unit);
  const plain = ["", "count", "samples", "objects"].includes(unit);
  return plain ? label : `${label} (${grouped(value)} ${unit})`;
}

/**
 * A share in percent: `100%`, `12.34%`, `0.12%`.
 * @param {number} value @param {number} total @returns {string}
 */
function shareLabel(value, total) {
  if (total === 0) return "0%";
  const share = (100 * Math.abs(value)) / Math.abs(total);
  if (share >= 99.95 && share <= 100.05) return "100%";
  if (share >= 1) return `${share.toFixed(2)}%`;
  if (share === 0) return "0%";
  return `${Number(share.toPrecision(2))}%`;
}

/**
 * A change with its sign: `+1.50s`.
 * @param {number} value @param {string} unit @returns {string}
 */
function changeLabel(value, unit) {
  return (value > 0 ? "+" : "") + valueLabel(value, unit);
}

/**
 * A duration: `1.250s`, `40ms`.
 * @param {number} nanos @returns {string}
 */
function timeLabel(nanos) {
  if (nanos >= 100e9) return `${(nanos / 1e9).toFixed(0)}s`;
  if (nanos >= 1e9) return `${(nanos / 1e9).toFixed(2)}s`;
  return `${Number((nanos / 1e6).toPrecision(3))}ms`;
}

/** A change of at least this many standard deviations is more than noise. */
const NOISE_SIGMAS = 3;

/** How much two runs of the same program differ, as a share of the value; `flamelet diff` assumes the same. */
const ASSUMED_VARIATION = 0.08;

/**
 * Whether a change may be noise: a value of `count` samples varies by the square root of `count`, and by how much runs
 * differ. For rows that `flamelet diff` does not judge; of functions, its verdict comes with the answer.
 * @param {number} base @param {number} now @param {number} perSample what one sample stands for @returns {boolean}
 */
function isNoise(base, now, perSample) {
  const sampling = (Math.abs(base) + Math.abs(now)) * perSample;
  const runs = ASSUMED_VARIATION ** 2 * (base ** 2 + now ** 2);
  const deviation = Math.sqrt(sampling + runs);
  return now === base || Math.abs(now - base) < NOISE_SIGMAS * deviation;
}
// view-timeline.js
// The timeline: one lane per thread, grouped by process, or per task; those that did nothing share one. Dragging selects a time range, which every other view uses.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{thread: string, process: string, pid: number, tid: number, threads: number, total: number, values: number[], waits: number[], kernel: number[], hues: number[], tops: number[]}} Lane */
/** @typedef {{y: number, lane: Lane, title: string}} Placed a lane, and the title of its process if it is the first of it */
/** @typedef {{span: number, bucket: number, peak: number, unit: string, lanes: Lane[], names: string[]}} Timeline */

/** Limits of the lane height; within them, the lanes fill the window. */
const LANE_LEAST = 34;
const LANE_MOST = 84;
/** The least samples per bar for a busy thread: with fewer, bars look like gaps. */
const SAMPLES_A_BAR = 4;
const LANE_TOP = 26;
const LANE_LABEL = 170;
/** The height of the title of a process. */
const PROCESS_TITLE = 20;

/** @param {App} app */
function timelineView(app) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline of threads. Drag, or use the arrow keys (with Shift for the end), to select a time range." }));
  const height = h("div.timeline-height");
  const table = h("div.for-readers");
  const element = h("div.timeline", {}, h("div.flame-pane", {}, canvas), height, table);
  const clear = h("button.toggle", { text: "Whole time", onclick: () => app.setTime("") });
  const compare = h("button.toggle", {
    text: "Compare with this range",
    title: "Then select another time range: every view shows the difference",
    onclick: () => app.set({ base: `@${app.state.time}`, time: "", zoom: "" }),
  });
  const byTask = h("button.toggle", { title: "A lane for each task and route, or for each thread", onclick: () => app.set({ lanes: app.state.lanes === "task" ? "" : "task" }) });
  /** @type {Timeline | null} */
  let data = null;
  let shown = "nothing yet";
  /** @type {[number, number] | null} */
  let brush = null;
  let palette = currentPalette();
  let frame = 0;

  const place = () => ({ left: LANE_LABEL, width: Math.max(10, element.clientWidth - LANE_LABEL - 12) });
  const laneHeight = () => Math.max(LANE_LEAST, Math.min(LANE_MOST, Math.floor((element.clientHeight - LANE_TOP - 10) / Math.max(1, data?.lanes.length ?? 1))));
  const placed = () => placedLanes(data?.lanes ?? [], laneHeight());
  const timeAt = (/** @type {number} */ x) => {
    const { left, width } = place();
    return Math.max(0, Math.min(1, (x - left) / width)) * (data?.span ?? 1);
  };

  function draw() {
    frame = 0;
    const context = canvas.getContext("2d");
    if (!context || !data) return;
    const ratio = devicePixelRatio || 1;
    const [width, tall] = [element.clientWidth, element.clientHeight];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tall}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, width, tall);
    context.font = "12px system-ui, sans-serif";
    const one = laneHeight();
    const places = placed();
    height.style.height = `${LANE_TOP + (places.at(-1)?.y ?? 0) + one + 8}px`;
    for (const { y, lane, title } of places) {
      const top = LANE_TOP + y - element.scrollTop;
      if (title !== "") drawTitle(context, title, top);
      drawLane(context, lane, top, one);
    }
    drawAxis(context, width);
    drawBrush(context, tall);
  }

  /** @param {CanvasRenderingContext2D} context @param {string} title @param {number} y the top of the lane below it */
  function drawTitle(context, title, y) {
    if (y < 0 || y > element.clientHeight + PROCESS_TITLE) return;
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.font = "bold 12px system-ui, sans-serif";
    context.fillText(title, 12, y - PROCESS_TITLE / 2);
    context.font = "12px system-ui, sans-serif";
  }

  /** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {number} y @param {number} high */
  function drawLane(context, lane, y, high) {
    if (!data || y < -high || y > element.clientHeight) return;
    const { left, width } = place();
    const step = width / lane.values.length;
    lane.values.forEach((value, at) => {
      if (value === 0 || !data) return;
      const tall = Math.max(2, (high - 8) * Math.min(1, value / data.peak));
      context.fillStyle = palette.hues[lane.hues[at]]?.[0] ?? palette.root;
      const wide = Math.max(1, step - (step > 4 ? 1 : 0));
      context.fillRect(left + at * step, y + high - 5 - tall, wide, tall);
      // Time in the kernel is dark, at the foot of the bar.
      const system = tall * (lane.kernel[at] / value);
      context.fillStyle = palette.soft;
      context.fillRect(left + at * step, y + high - 5 - system, wide, system);
      if (lane.waits[at] === 0) return;
      // Off-CPU time is drawn pale, over the top of the bar.
      const idle = tall * (lane.waits[at] / value);
      context.fillStyle = palette.line;
      context.fillRect(left + at * step, y + high - 5 - tall, wide, idle);
    });
    context.fillStyle = palette.line;
    context.fillRect(left, y + high - 5, width, 1);
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.fillText(laneName(lane), 12, y + high - 24, LANE_LABEL - 24);
    context.fillStyle = palette.soft;
    const which = lane.threads > 1 || lane.tid === 0 ? "" : `${lane.tid}  ·  `;
    context.fillText(`${which}${amountText(lane.total, data.unit)}`, 12, y + high - 10, LANE_LABEL - 24);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} wide */
  function drawAxis(context, wide) {
    if (!data) return;
    const { left, width } = place();
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, wide, LANE_TOP - 4);
    context.textBaseline = "middle";
    const step = niceStep(data.span / Math.max(2, width / 110));
    for (let time = 0; time <= data.span; time += step) {
      const x = left + (time / data.span) * width;
      context.fillStyle = palette.line;
      context.fillRect(x, LANE_TOP - 6, 1, element.clientHeight);
      context.fillStyle = palette.soft;
      if (x + 46 < wide) context.fillText(timeLabel(time), x + 3, 11);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} tall */
  function drawBrush(context, tall) {
    const span = brush ?? chosenSpan(app.state.time);
    if (!span || !data) return;
    const { left, width } = place();
    const [from, to] = span.map((time) => left + (time / (data?.span || 1)) * width);
    context.fillStyle = palette.accent;
    context.globalAlpha = 0.16;
    context.fillRect(from, 0, to - from, tall);
    context.globalAlpha = 1;
    context.fillRect(from, 0, 1, tall);
    context.fillRect(to, 0, 1, tall);
  }

  const redraw = () => {
    if (frame === 0) frame = requestAnimationFrame(draw);
  };

  canvas.addEventListener("pointerdown", (event) => {
    const start = timeAt(event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ now) => {
      const end = timeAt(now.offsetX);
      brush = [Math.min(start, end), Math.max(start, end)];
      redraw();
    };
    const up = () => {
      canvas.removeEventListener("pointermove", move);
      const span = brush;
      brush = null;
      const wide = span !== null && data !== null && span[1] - span[0] > data.span / 500;
      app.setTime(wide && span ? `${Math.round(span[0])}-${Math.round(span[1])}` : "");
      redraw();
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", up, { once: true });
  });
  canvas.addEventListener("mousemove", (event) => {
    const [below, one] = [event.offsetY - LANE_TOP + element.scrollTop, laneHeight()];
    const lane = placed().find(({ y }) => below >= y && below < y + one)?.lane;
    if (!lane || !data || event.offsetX < LANE_LABEL || brush) return hideTooltip();
    const bucket = Math.min(lane.values.length - 1, Math.floor(timeAt(event.offsetX) / data.bucket));
    showTooltip(laneName(lane), lane.process, [
      ["at", timeLabel(bucket * data.bucket)],
      ["busy", `${amountText(lane.values[bucket], data.unit)} of ${timeLabel(data.bucket)}`],
      ...(lane.kernel[bucket] > 0 ? [/** @type {[string, string]} */ (["of which in the kernel", valueLabel(lane.kernel[bucket], data.unit)])] : []),
      ...(lane.waits[bucket] > 0 ? [/** @type {[string, string]} */ (["of which waiting", valueLabel(lane.waits[bucket], data.unit)])] : []),
      ["mostly in", lane.tops[bucket] >= 0 ? data.names[lane.tops[bucket]] : "–"],
      ["share of the lane", shareLabel(lane.values[bucket], lane.total)],
    ], event);
  });
  canvas.addEventListener("mouseleave", hideTooltip);
  canvas.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0 || !data || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const span = movedSpan(chosenSpan(app.state.time), step, event.shiftKey, data.span);
    app.setTime(`${span[0]}-${span[1]}`);
  });
  element.addEventListener("scroll", redraw);
  new ResizeObserver(redraw).observe(element);

  return {
    element,
    controls: [byTask, compare, clear],
    /** @param {State} state */
    async update(state) {
      clear.hidden = state.time === "";
      compare.hidden = state.time === "" || state.base !== "";
      byTask.hidden = app.provider.saved || !hasTasks(app.opened.about);
      const lanes = byTask.hidden ? "" : state.lanes;
      byTask.textContent = lanes === "task" ? "Lanes: tasks" : "Lanes: threads";
      const whole = wholeTime(state);
      const wanted = `${dataQuery(whole)} ${lanes}`;
      if (wanted !== shown) {
        const buckets = String(bucketCount(place().width, app.opened.about));
        const answer = await app.waitFor(app.provider.data("timeline", whole, { buckets, ...(lanes === "" ? {} : { lanes }) }));
        if (answer === null) return;
        data = answer;
        shown = wanted;
        replaceContent(table, lanesTable(answer));
      }
      redraw();
    },
    themeChanged() {
      palette = currentPalette();
      redraw();
    },
    focus: () => canvas.focus(),
  };
}

/**
 * The number of bars in a lane: as many as can be distinguished, but no more than there are samples to fill them.
 * @param {number} width @param {Record<string, any> | null} about
 */
function bucketCount(width, about) {
  const taken = ((about?.duration_nanos ?? 0) / 1e9) * (about?.quality?.achieved_hertz ?? 0);
  const filled = taken > 0 ? taken / SAMPLES_A_BAR : Infinity;
  return Math.max(50, Math.min(2000, Math.floor(width / 3), Math.floor(filled)));
}

/** Whether samples name tasks or routes. @param {Record<string, any> | null} about */
function hasTasks(about) {
  return ["task", "route"].some((label) => about?.label_keys?.includes(label));
}

/** The lanes as a table for screen readers. @param {Timeline} data */
function lanesTable(data) {
  const sum = (/** @type {number[]} */ values) => valueLabel(values.reduce((all, value) => all + value, 0), data.unit);
  const row = (/** @type {Lane} */ lane) => h("tr", {}, ...[processTitle(lane), laneName(lane), valueLabel(lane.total, data.unit), sum(lane.kernel), sum(lane.waits)].map((text) => h("td", { text })));
  const head = h("tr", {}, ...["Process", "Thread or task", "Total", "Kernel", "Waiting"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: `Lanes over ${timeLabel(data.span)}` }), h("thead", {}, head), h("tbody", {}, ...data.lanes.map(row)));
}

/** @param {Lane} lane */
function laneName(lane) {
  if (lane.threads > 1) return lane.tid === 0 ? `${lane.threads} other tasks` : `${lane.threads} other threads`;
  return lane.thread || `thread ${lane.tid}`;
}

/** @param {Lane} lane */
function processTitle(lane) {
  return lane.tid === 0 ? "" : `${lane.process || "process"} ${lane.pid || ""}`.trim();
}

/**
 * Where each lane begins, below the axis. Lanes of several processes have titles.
 * @param {Lane[]} lanes @param {number} high @returns {Placed[]}
 */
function placedLanes(lanes, high) {
  const isNew = (/** @type {Lane | undefined} */ before, /** @type {Lane} */ lane) => before?.pid !== lane.pid || before?.process !== lane.process;
  const several = lanes.some((lane, at) => at > 0 && isNew(lanes[at - 1], lane));
  let y = 0;
  return lanes.map((lane, at) => {
    const title = several && isNew(lanes[at - 1], lane) ? processTitle(lane) : "";
    if (title !== "") y += PROCESS_TITLE;
    const place = { y, lane, title };
    y += high;
    return place;
  });
}

/**
 * The time range after an arrow key, which moves it (or only its end) by a twentieth of the whole.
 * @param {[number, number] | null} span @param {number} step @param {boolean} onlyEnd @param {number} whole @returns {[number, number]}
 */
function movedSpan(span, step, onlyEnd, whole) {
  const by = Math.max(1, Math.round(whole / 20));
  if (!span) return [0, by];
  const [from, to] = span;
  if (onlyEnd) return [from, Math.max(from + by, Math.min(whole, to + step * by))];
  const moved = Math.max(0, Math.min(whole - (to - from), from + step * by));
  return [moved, moved + (to - from)];
}

/** The state without its time range. @param {State} state @returns {State} */
function wholeTime(state) {
  return { ...state, time: "", base: state.base.startsWith("@") ? "" : state.base };
}

/** @param {string} time @returns {[number, number] | null} */
function chosenSpan(time) {
  const match = /^(\d+)-(\d+)$/.exec(time);
  return match ? [Number(match[1]), Number(match[2])] : null;
}

/** A value with its unit; counts are samples. @param {number} value @param {string} unit */
function amountText(value, unit) {
  return unit === "count" ? `${valueLabel(value, unit)} samples` : valueLabel(value, unit);
}

/** The next round number of nanoseconds. @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= least) ?? power * 10;
}
// picker.js
// The time picker: CPU time over a service's history. Dragging selects a range; the last two ranges can be compared.


/**
 * @typedef {import("./app.js").App} App
 * @typedef {{from: number, to: number, values: number[]}} Course times in milliseconds since 1970, values in nanoseconds of CPU time
 * @typedef {[number, number]} Span in milliseconds since 1970
 */

const AXIS = 15;
const TALL = 64;
/** Steps of the axis, in milliseconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((seconds) => seconds * 1000);

/** @param {App} app */
function timePicker(app) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: 0, role: "img", "aria-label": "CPU time over the history. Drag, or use the arrow keys (with Shift for the end), to select a range; Enter shows it." }));
  const chosen = h("span.picker-chosen", { role: "status" });
  const show = h("button.primary", { text: "Show this range", onclick: () => void showRange() });
  const compare = h("button.toggle", { text: "Compare these two ranges", title: "Show what changed from the earlier range to the later one", onclick: () => void compareRanges() });
  const clear = h("button.toggle", { text: "Clear", onclick: () => selectSpans([]) });
  const holder = h("div.picker-course", {}, canvas);
  const services = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Service", hidden: true, onchange: () => void showService(services.value) }));
  const row = labelRow({ onSelect: (select) => void showRange(select), onCompare: (base, wanted) => void compareSelected(base, wanted) });
  const element = h("section.picker", { "aria-label": "History", hidden: true }, holder, h("div.picker-actions", {}, services, chosen, h("span.spring"), show, compare, clear), row.element);
  /** @type {Course | null} */
  let course = null;
  /** The ranges that were selected, the newest last; at most two. @type {Span[]} */
  let spans = [];
  /** @type {Span | null} */
  let brush = null;
  /** The service whose course is shown, or being read. @type {string | null} */
  let asked = null;

  const length = () => Math.max(1, (course?.to ?? 1) - (course?.from ?? 0));
  const placeOf = (/** @type {number} */ time) => ((time - (course?.from ?? 0)) / length()) * holder.clientWidth;
  const timeAt = (/** @type {number} */ x) => Math.round((course?.from ?? 0) + Math.max(0, Math.min(1, x / Math.max(1, holder.clientWidth))) * length());

  function draw() {
    const context = canvas.getContext("2d");
    if (!context || !course) return;
    const [palette, ratio, width] = [currentPalette(), devicePixelRatio || 1, holder.clientWidth];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(TALL * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${TALL}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, TALL);
    const peak = Math.max(1, ...course.values);
    const step = width / course.values.length;
    context.fillStyle = palette.hues[0]?.[0] ?? palette.root;
    course.values.forEach((value, at) => {
      if (value === 0) return;
      const tall = Math.max(1, (TALL - AXIS - 4) * (value / peak));
      context.fillRect(at * step, TALL - AXIS - tall, Math.max(1, step - (step > 4 ? 1 : 0)), tall);
    });
    drawAxis(context, width);
    const shown = brush ? [...spans.slice(-1), brush] : spans;
    shown.forEach((span, at) => drawSpan(context, span, at + 1 === shown.length));
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  function drawAxis(context, width) {
    if (!course) return;
    const palette = currentPalette();
    context.fillStyle = palette.line;
    context.fillRect(0, TALL - AXIS, width, 1);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const step = axisStep(length() / Math.max(2, width / 110));
    for (let time = Math.ceil(course.from / step) * step; time <= course.to; time += step) {
      const x = placeOf(time);
      context.fillStyle = palette.line;
      context.fillRect(x, TALL - AXIS, 1, 4);
      context.fillStyle = palette.soft;
      const text = clockText(time, step);
      if (x + context.measureText(text).width + 4 < width) context.fillText(text, x + 3, TALL - 6);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Span} span @param {boolean} isNewest */
  function drawSpan(context, span, isNewest) {
    const [from, to] = span.map(placeOf);
    context.fillStyle = isNewest ? currentPalette().accent : currentPalette().soft;
    context.globalAlpha = 0.2;
    context.fillRect(from, 0, Math.max(1, to - from), TALL - AXIS);
    context.globalAlpha = 1;
    context.fillRect(from, 0, 1, TALL - AXIS);
    context.fillRect(Math.max(from, to - 1), 0, 1, TALL - AXIS);
  }

  /** @param {Span[]} next */
  function selectSpans(next) {
    spans = next.slice(-2);
    const newest = spans.at(-1);
    const text = newest ? `${clockText(newest[0], 0)} to ${clockText(newest[1], 0)} UTC` : "Drag over the history to select a range";
    chosen.textContent = spans.length === 2 ? `${text}, and ${clockText(spans[0][0], 0)} to ${clockText(spans[0][1], 0)}` : text;
    show.hidden = spans.length === 0;
    compare.hidden = spans.length < 2;
    clear.hidden = spans.length === 0;
    draw();
  }

  /** Opens a range. @param {Span} span @param {string} [select] */
  const open = (span, select = app.state.select) => app.waitFor(app.provider.range(span[0], span[1], services.value, select));
  /** The selected range, or everything. @returns {Span} */
  const shownSpan = () => spans.at(-1) ?? [course?.from ?? 0, Math.max(course?.to ?? 1, (course?.from ?? 0) + 1)];

  const readCourse = (/** @type {string} */ service) => app.waitFor(app.provider.course(Math.max(100, Math.floor(holder.clientWidth / 3)), service));

  const fresh = { type: "", zoom: "", time: "", filters: [] };

  /** Shows the whole past of a service. @param {string} service */
  async function showService(service) {
    const answer = await readCourse(service);
    if (answer === null) return;
    [asked, course] = [service, answer];
    selectSpans([]);
    const entry = await open([answer.from, Math.max(answer.to, answer.from + 1)], "");
    if (entry) app.set({ service, select: "", profile: entry.id, base: "", ...fresh });
    await readLabels(service, "");
  }

  /** @param {string} service @param {string} select */
  async function readLabels(service, select) {
    const labels = await app.waitFor(app.provider.labels(service));
    if (labels && services.value === service) row.update(labels, select);
  }

  /** @param {string} select */
  async function showRange(select = app.state.select) {
    const entry = await open(shownSpan(), select);
    if (entry) app.set({ service: services.value, select, profile: entry.id, base: "", ...fresh });
  }

  /** Compares what two selectors match in the same range. @param {string} one @param {string} other */
  async function compareSelected(one, other) {
    const base = await open(shownSpan(), one);
    const entry = base && (await open(shownSpan(), other));
    if (base && entry) app.set({ service: services.value, profile: entry.id, base: base.id, ...fresh });
  }

  async function compareRanges() {
    const [earlier, later] = [...spans].sort((one, other) => one[0] - other[0]);
    const base = await open(earlier);
    const entry = base && (await open(later));
    if (base && entry) app.set({ service: services.value, profile: entry.id, base: base.id, ...fresh });
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (!course || event.button !== 0) return;
    const start = timeAt(event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ now) => {
      const end = timeAt(now.offsetX);
      brush = [Math.min(start, end), Math.max(start, end)];
      hideTooltip();
      draw();
    };
    const up = () => {
      canvas.removeEventListener("pointermove", move);
      const span = brush;
      brush = null;
      if (span && placeOf(span[1]) - placeOf(span[0]) >= 3) selectSpans([...spans, span]);
      else draw();
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", up, { once: true });
  });
  canvas.addEventListener("mousemove", (event) => {
    if (!course || brush) return;
    const part = length() / course.values.length;
    const at = Math.min(course.values.length - 1, Math.floor((timeAt(event.offsetX) - course.from) / part));
    const cores = course.values[at] / (part * 1e6);
    showTooltip(`${clockText(course.from + at * part, 0)} UTC`, "", [["CPU", `${cores.toFixed(2)} cores`]], event);
  });
  canvas.addEventListener("mouseleave", hideTooltip);
  canvas.addEventListener("keydown", (event) => {
    if (!course || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") return void showRange();
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const begin = course.from;
    const newest = spans.at(-1);
    const moved = movedSpan(newest ? [newest[0] - begin, newest[1] - begin] : null, step, event.shiftKey, length());
    selectSpans([...spans.slice(0, -1), [moved[0] + begin, moved[1] + begin]]);
  });
  new ResizeObserver(draw).observe(holder);

  return {
    element,
    /** Shows the course, if there is a past. @param {import("./provider.js").Opened} opened @param {string} service whose; the first one if it is empty */
    async update(opened, service) {
      element.hidden = opened.past !== true;
      const names = opened.services ?? [];
      services.hidden = names.length === 0;
      if (services.dataset.names !== names.join("\n")) replaceContent(services, ...names.map((name) => h("option", { value: name, text: name })));
      services.dataset.names = names.join("\n");
      services.value = names.includes(service) ? service : (names[0] ?? "");
      if (element.hidden || asked === services.value) {
        row.show(app.state.select);
        return draw();
      }
      asked = services.value;
      const wanted = app.state.select;
      // A fleet has nothing to show before a service is chosen.
      if (!opened.about && names.length > 0) return showService(asked);
      const answer = await readCourse(asked);
      if (answer === null) asked = null;
      course = answer;
      selectSpans([]);
      if (answer !== null) await readLabels(asked ?? "", wanted);
    },
    themeChanged: draw,
  };
}

/** The next round step of the axis. @param {number} least in milliseconds */
function axisStep(least) {
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / STEPS[STEPS.length - 1]) * STEPS[STEPS.length - 1];
}

/** A moment on the clock, in UTC: the date where the step is a day, seconds where it is below a minute. @param {number} time @param {number} step 0 for everything */
function clockText(time, step) {
  const text = new Date(time).toISOString();
  const [date, clock] = [text.slice(0, 10), text.slice(11, 19)];
  if (step === 0) return `${date} ${clock}`;
  if (step >= 86_400_000) return date.slice(5);
  return step >= 60_000 ? clock.slice(0, 5) : clock;
}
// picture.js
// The boxes of a flame graph as laid out in Rust: in columns, each box after its parent.

/**
 * @typedef {object} NameColumns
 * @property {string[]} names @property {number[]} keys @property {number[]} krate
 * @property {string[]} crates @property {number[]} hues @property {number[]} file @property {string[]} files
 * @property {number[]} owner the row of `owners` @property {string[]} owners @property {string[]} owner_kinds
 * @property {number[]} chains the rows that stand for chains of frames @property {number[]} starts the rows of std and libc that start threads
 *
 * @typedef {{new: number[], base: number[]}} Sides
 *
 * @typedef {NameColumns & {zoom: number, cutoff: number, narrower: number, diff: boolean,
 *   parent: number[], name: number[], weight: number[], own: number[],
 *   sides?: Sides, own_sides?: Sides, notes?: string[], held?: number[][]}} FlamePayload
 */

/** A flame graph that can be drawn. */
class Picture {
  /** @param {FlamePayload} payload */
  constructor(payload) {
    this.data = payload;
    const count = payload.parent.length;
    this.count = count;
    this.parent = Int32Array.from(payload.parent);
    this.name = Int32Array.from(payload.name);
    this.weight = Float64Array.from(payload.weight);
    this.own = Float64Array.from(payload.own);
    this.x = new Float64Array(count);
    this.depth = new Int32Array(count);
    /** The x where the next child of each box starts. */
    const next = new Float64Array(count);
    let rows = 0;
    for (let at = 0; at < count; at++) {
      const parent = this.parent[at];
      if (parent >= 0) {
        this.x[at] = next[parent];
        this.depth[at] = this.depth[parent] + 1;
        next[parent] += this.weight[at];
      }
      next[at] = this.x[at];
      rows = Math.max(rows, this.depth[at] + 1);
    }
    this.rows = rows;
    this.chains = new Set(payload.chains);
    this.zoom = payload.zoom;
    this.diff = payload.diff;
    /** @type {Int32Array[] | null} */
    this.byRow = null;
  }

  /** @param {number} at @returns {string} */
  nameOf(at) {
    const name = this.name[at];
    return name < 0 ? "all" : this.data.names[name];
  }

  /** @param {number} at */
  crateOf(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.crates[this.data.krate[name]];
  }

  /** @param {number} at @returns {number} the row of the palette */
  hueOf(at) {
    const name = this.name[at];
    return name < 0 ? -1 : this.data.hues[name];
  }

  /** Whether a box stands for a chain of frames. @param {number} at */
  isChain(at) {
    return this.chains.has(this.name[at]);
  }

  /** Whose code a box is, in one word. @param {number} at */
  ownerKind(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.owner_kinds[this.data.owner[name]];
  }

  /** Whose code a box is: `serde_json 1.0.149`. @param {number} at */
  ownerOf(at) {
    const name = this.name[at];
    return name < 0 ? "" : this.data.owners[this.data.owner[name]];
  }

  /** @param {number} at */
  fileOf(at) {
    const name = this.name[at];
    const file = name < 0 ? -1 : this.data.file[name];
    return file < 0 ? "" : this.data.files[file];
  }

  /** The value of a box; signed in a diff. @param {number} at */
  valueOf(at) {
    const sides = this.data.sides;
    return sides ? { now: sides.new[at], base: sides.base[at] } : { now: this.weight[at], base: 0 };
  }

  /** The own value of a box. @param {number} at */
  ownOf(at) {
    const sides = this.data.own_sides;
    return sides ? { now: sides.new[at], base: sides.base[at] } : { now: this.own[at], base: 0 };
  }

  /** The keys from the root to a box; the root itself has none. @param {number} at @returns {number[]} */
  pathOf(at) {
    const keys = [];
    for (let box = at; box >= 0 && this.parent[box] >= 0; box = this.parent[box]) {
      keys.push(this.data.keys[this.name[box]]);
    }
    return keys.reverse();
  }

  /** The box at the end of a path, or the last one on it that exists. @param {number[]} keys @returns {number} */
  find(keys) {
    let box = 0;
    for (const key of keys) {
      const next = this.childrenOf(box).find((child) => this.data.keys[this.name[child]] === key);
      if (next === undefined) break;
      box = next;
    }
    return box;
  }

  /** @param {number} at @returns {number[]} heaviest first */
  childrenOf(at) {
    const found = [];
    const row = this.rowsOfBoxes()[this.depth[at] + 1] ?? new Int32Array();
    for (const box of row) if (this.parent[box] === at) found.push(box);
    return found;
  }

  /** The boxes of each row from left to right. @returns {Int32Array[]} */
  rowsOfBoxes() {
    if (this.byRow) return this.byRow;
    const counts = new Int32Array(this.rows);
    for (let at = 0; at < this.count; at++) counts[this.depth[at]]++;
    const rows = Array.from(counts, (count) => new Int32Array(count));
    counts.fill(0);
    for (let at = 0; at < this.count; at++) rows[this.depth[at]][counts[this.depth[at]]++] = at;
    this.byRow = rows;
    return rows;
  }

  /** Whether `inner` is `outer` or one of its descendants. @param {number} outer @param {number} inner */
  standsOn(outer, inner) {
    let box = inner;
    while (box > outer) box = this.parent[box];
    return box === outer;
  }

  /** The box at position `x` of a row, or -1. @param {number} row @param {number} x @param {number} slack */
  boxAt(row, x, slack) {
    const boxes = this.rowsOfBoxes()[row];
    if (!boxes || boxes.length === 0) return -1;
    let low = 0;
    let high = boxes.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.x[boxes[middle]] <= x) low = middle;
      else high = middle - 1;
    }
    const box = boxes[low];
    return x >= this.x[box] - slack && x <= this.x[box] + this.weight[box] + slack ? box : -1;
  }

  /** The folded boxes with a matching frame, of a picture that knows what they hold. @param {RegExp} pattern @returns {number[]} */
  holding(pattern) {
    const named = this.data.names.map((name) => pattern.test(name));
    const found = (this.data.held ?? []).map((names, at) => (names.some((name) => named[name]) ? at : -1));
    return found.filter((at) => at >= 0);
  }

  /**
   * The boxes that match, and the weight of all stacks with a match. Relies on boxes coming after their parents.
   * @param {RegExp} pattern
   */
  matches(pattern) {
    const named = this.data.names.map((name) => pattern.test(name));
    const hit = new Uint8Array(this.count);
    const covered = new Uint8Array(this.count);
    let weight = 0;
    let boxes = 0;
    for (let at = 0; at < this.count; at++) {
      const parent = this.parent[at];
      covered[at] = parent >= 0 ? covered[parent] : 0;
      if (this.name[at] < 0 || !named[this.name[at]]) continue;
      hit[at] = 1;
      boxes++;
      if (!covered[at]) weight += this.weight[at];
      covered[at] = 1;
    }
    return { hit, weight, boxes };
  }
}
// rebuild.js
// Other trees out of a whole one, for a page that was saved to a file and has no server to ask: with chains of frames
// as one box, callers instead of callees, and the two halves of a sandwich.


/** @typedef {import("./picture.js").FlamePayload} FlamePayload */
/** `chain` is the row of the owner of a chain of frames, -1 for a function. */
/** @typedef {{name: number, chain: number, held: Set<number>, frames: [number, number], weight: number, own: number, now: number, base: number, ownNow: number, ownBase: number, children: Map<number, Node>}} Node */
/** A box on the way along a stack; `held` are the names of a chain's frames. @typedef {{name: number, chain: number, held: number[], frames: number}} Step */

/** @param {Step} step @returns {Node} */
function newNode({ name, chain, frames }) {
  return { name, chain, held: new Set(), frames: [frames, frames], weight: 0, own: 0, now: 0, base: 0, ownNow: 0, ownBase: 0, children: new Map() };
}

/**
 * The weight of the stacks that end in a box. Includes the weight of children that were left out of the file, as
 * the saved page says.
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

/** Finds the chains of frames in stacks, as `crates/report/src/stacks/chains.rs` does. */
class ChainFinder {
  /** @param {FlamePayload} data */
  constructor(data) {
    this.data = data;
    const kinds = data.owner.map((owner) => data.owner_kinds[owner]);
    const starts = new Set(data.starts);
    this.yours = kinds.map((kind) => kind === "yours");
    this.unknown = kinds.map((kind) => kind === "unknown");
    this.starts = kinds.map((kind, name) => kind === "runtime" || starts.has(name));
    this.ranks = kinds.map((kind) => (kind === "runtime" || kind === "dependency" ? 2 : kind === "std" ? 1 : 0));
    /** The steps that lead to chains, by the row of their owner. @type {number[]} */
    this.keys = data.owners.map((label) => chainKey(chainName(label)));
  }

  /** How many frames from the root on may belong to chains. @param {number[]} names root first */
  reach(names) {
    const last = names.findLastIndex((name) => this.yours[name]);
    if (last >= 0) return last;
    let reach = 0;
    for (let at = 0; at < names.length && !this.unknown[names[at]]; at++) if (this.starts[names[at]]) reach = at + 1;
    return reach;
  }

  /**
   * The boxes on the way through frames of a stack.
   * @param {number[]} names root first @param {number[]} places the frames, as places in `names`, in the order of the way
   * @param {boolean} callers whether the way leads to the root @param {Set<string>} opened the paths of chains that are open
   * @returns {Step[]}
   */
  steps(names, places, callers, opened) {
    const reach = this.reach(names);
    const folds = (/** @type {number} */ place) => place < reach && !this.yours[names[place]] && !this.unknown[names[place]];
    /** @type {Step[]} */
    const steps = [];
    const keys = [];
    for (let at = 0; at < places.length; at++) {
      let end = at;
      while (end < places.length && folds(places[end])) end++;
      const held = places.slice(at, end).map((place) => names[place]);
      const chain = held.length > 1 ? this.ownerOf(held, callers) : -1;
      if (chain >= 0 && !opened.has(zoomPath([...keys, this.keys[chain]]))) {
        steps.push({ name: -1, chain, held, frames: held.length });
        keys.push(this.keys[chain]);
        at = end - 1;
        continue;
      }
      // An opened chain is a box for each of its frames.
      for (let one = at; one < Math.max(end, at + 1); one++) {
        steps.push({ name: names[places[one]], chain: -1, held: [], frames: 1 });
        keys.push(this.data.keys[names[places[one]]]);
      }
      at = Math.max(end, at + 1) - 1;
    }
    return steps;
  }

  /** The row of the owner that a chain is named by. @param {number[]} names @param {boolean} callers */
  ownerOf(names, callers) {
    let best = names[0];
    for (const name of names) if (this.ranks[name] > this.ranks[best] || (callers && this.ranks[name] === this.ranks[best])) best = name;
    return this.data.owner[best];
  }
}

/** An owner without its version. @param {string} label */
function chainName(label) {
  return label.split(" ")[0];
}

/** @param {string} name */
function chainKey(name) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash << 1) | (hash >>> 31)) >>> 0;
}

/**
 * @param {Picture} picture a whole tree of callees
 * @param {(names: number[]) => number[] | null} route the frames to walk for a stack, as places in `names`; nothing to leave it out
 * @param {{root: number, callers: boolean, folds: Set<string> | null}} how `folds` has the paths of opened chains; nothing for no chains
 * @returns {Picture}
 */
function regrouped(picture, route, how) {
  const ends = endings(picture);
  const finder = new ChainFinder(picture.data);
  const root = newNode({ name: how.root, chain: -1, held: [], frames: 1 });
  for (let at = 0; at < picture.count; at++) {
    if (ends.weight[at] <= 0) continue;
    const names = stackOf(picture, at);
    const places = route(names);
    if (places === null) continue;
    const add = { weight: ends.weight[at], now: ends.now[at], base: ends.base[at] };
    const steps = how.folds ? finder.steps(names, places, how.callers, how.folds) : places.map((place) => ({ name: names[place], chain: -1, held: [], frames: 1 }));
    let node = root;
    addTo(node, add);
    for (const step of steps) {
      const key = step.chain >= 0 ? -1 - step.chain : step.name;
      let next = node.children.get(key);
      if (!next) node.children.set(key, (next = newNode(step)));
      next.frames = [Math.min(next.frames[0], step.frames), Math.max(next.frames[1], step.frames)];
      node = next;
      for (const name of step.held) node.held.add(name);
      addTo(node, add);
    }
    node.own += add.weight;
    node.ownNow += add.now;
    node.ownBase += add.base;
  }
  return new Picture(columnsOf(root, new ChainNames(picture.data)));
}

/** @param {Node} node @param {{weight: number, now: number, base: number}} add */
function addTo(node, add) {
  node.weight += add.weight;
  node.now += add.now;
  node.base += add.base;
}

/** The names of a payload, to which those of chains are added. */
class ChainNames {
  /** @param {FlamePayload} from */
  constructor(from) {
    /** @type {FlamePayload} */
    this.data = { ...from, zoom: 0, parent: [], name: [], weight: [], own: [], held: [] };
    for (const column of /** @type {const} */ (["names", "keys", "krate", "hues", "owner", "file", "chains"])) {
      Object.assign(this.data, { [column]: [...from[column]] });
    }
    /** @type {Map<string, number>} */
    this.rows = new Map();
  }

  /** The row of what a node shows. @param {Node} node */
  rowOf(node) {
    if (node.chain < 0) return node.name;
    const { data } = this;
    const name = chainName(data.owners[node.chain]);
    const [least, most] = node.frames;
    const text = `${name} · ${least === most ? most : `${least} to ${most}`} frames`;
    const known = this.rows.get(text);
    if (known !== undefined) return known;
    const row = data.names.length;
    const like = data.owner.indexOf(node.chain);
    data.names.push(text);
    data.keys.push(chainKey(name));
    data.krate.push(data.krate[like]);
    data.hues.push(data.hues[like]);
    data.owner.push(node.chain);
    data.file.push(-1);
    data.chains.push(row);
    this.rows.set(text, row);
    return row;
  }
}

/** @param {Node} root @param {ChainNames} names @returns {FlamePayload} */
function columnsOf(root, names) {
  const out = names.data;
  const sides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  const ownSides = { new: /** @type {number[]} */ ([]), base: /** @type {number[]} */ ([]) };
  /** @type {[Node, number][]} */
  const waiting = [[root, -1]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [node, parent] = next;
    const at = out.parent.length;
    out.parent.push(parent);
    out.name.push(names.rowOf(node));
    out.held?.push([...node.held]);
    out.weight.push(node.weight);
    out.own.push(node.own);
    sides.new.push(node.now);
    sides.base.push(node.base);
    ownSides.new.push(node.ownNow);
    ownSides.base.push(node.ownBase);
    const text = (/** @type {Node} */ child) => (child.chain >= 0 ? out.owners[child.chain] : out.names[child.name]);
    const children = [...node.children.values()].sort((a, b) => a.weight - b.weight || (text(a) < text(b) ? 1 : -1));
    for (const child of children) waiting.push([child, at]);
  }
  const isDiff = out.sides !== undefined;
  delete out.sides;
  delete out.own_sides;
  if (isDiff) Object.assign(out, { sides, own_sides: ownSides });
  return out;
}

/** @param {number} from @param {number} to */
function placesBetween(from, to) {
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
}

/** The same tree with chains of frames as one box. @param {Picture} picture @param {Set<string>} opened the paths of chains that are open */
function foldedPicture(picture, opened) {
  return regrouped(picture, (names) => placesBetween(0, names.length), { root: -1, callers: false, folds: opened });
}

/** The tree from the leaves to the roots. @param {Picture} picture @param {Set<string> | null} [folds] */
function invertedPicture(picture, folds = null) {
  return regrouped(picture, (names) => placesBetween(0, names.length).reverse(), { root: -1, callers: true, folds });
}

/**
 * What a function calls, or what calls it, from its outermost call on.
 * @param {Picture} picture @param {string} pivot @param {boolean} callers @param {Set<string> | null} [folds]
 */
function pivotPicture(picture, pivot, callers, folds = null) {
  const root = picture.data.names.indexOf(pivot);
  return regrouped(
    picture,
    (names) => {
      const at = names.findIndex((name) => picture.data.names[name] === pivot);
      if (at < 0) return null;
      return callers ? placesBetween(0, at).reverse() : placesBetween(at + 1, names.length);
    },
    { root, callers, folds },
  );
}
// provider.js
// The source of the page's data: a server, or the file that the page was saved in.


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
function byService(entries) {
  /** @type {Map<string, Entry[]>} */
  const services = new Map();
  for (const entry of [...entries].reverse()) services.set(entry.service, [...(services.get(entry.service) ?? []), entry]);
  return [...services];
}

/** The name of a profile below the heading of its service. @param {Entry} entry */
function nameInService(entry) {
  return entry.service === "" ? entry.name : entry.name.slice(entry.service.length + 1);
}

/** When a profile was written, and how large it is. @param {Entry} entry */
function entryDetail(entry) {
  const written = entry.written_millis > 0 ? `${new Date(entry.written_millis).toLocaleString()} · ` : "";
  return `${written}${entry.detail}`;
}

/** Gets the data from the server. */
class ServerData {
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
class SavedData {
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
// names.js
// Rust names are long; this finds the parts that people read first.

/** Cache of short names by full name, since a picture is drawn many times. @type {Map<string, string>} */
const shortNames = new Map();
const MOST_SHORT_NAMES = 20_000;

/**
 * The last two segments of a path, without generics: `Context::run_task`.
 * @param {string} name @returns {string}
 */
function shortName(name) {
  const known = shortNames.get(name);
  if (known !== undefined) return known;
  if (shortNames.size > MOST_SHORT_NAMES) shortNames.clear();
  const short = shortened(name);
  shortNames.set(name, short);
  return short;
}

/** @param {string} name */
function shortened(name) {
  const plain = withoutArguments(withoutGenerics(name));
  const steps = pathSteps(plain).filter((step) => step !== "");
  if (steps.length <= 2) return plain;
  const last = steps[steps.length - 1];
  // A closure says nothing without the function around it.
  const count = last.startsWith("{") ? 3 : 2;
  return steps.slice(-count).join("::");
}

/** How a bracket changes the depth. @param {string} letter */
const depthStep = (letter) => ("({[".includes(letter) ? 1 : ")}]".includes(letter) ? -1 : 0);

/** A path split at `::`, except within brackets. @param {string} path */
function pathSteps(path) {
  const steps = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < path.length; at++) {
    depth += depthStep(path[at]);
    if (depth !== 0 || at < start || !path.startsWith("::", at)) continue;
    steps.push(path.slice(start, at));
    start = at + 2;
  }
  return [...steps, path.slice(start)];
}

/** The name of an operator with angle brackets. */
const ANGLE_OPERATOR = /^operator(?:<=>|<<=|<<|<=|<|>>=|>>|>=|->\*|->|>)/;

/**
 * A name without the text between angle brackets; `<T as Trait>::f` becomes `T::f`.
 * @param {string} name @returns {string}
 */
function withoutGenerics(name) {
  let text = name;
  if (text.startsWith("<")) {
    const end = closingBracket(text, 0);
    if (end < 0) return name;
    const inside = withoutGenerics(text.slice(1, end).trim());
    const self = inside.split(" as ")[0];
    text = self + text.slice(end + 1);
  }
  let depth = 0;
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    const operator = depth === 0 && letter === "o" && !/\w/.test(text[at - 1] ?? "") ? ANGLE_OPERATOR.exec(text.slice(at)) : null;
    if (operator) {
      out += operator[0];
      at += operator[0].length - 1;
      continue;
    }
    const isArrow = letter === ">" && text[at - 1] === "-";
    if (letter === "<") depth++;
    if (depth === 0) out += letter;
    if (letter === ">" && !isArrow && depth > 0) depth--;
  }
  return depth === 0 && out !== "" ? out.replaceAll("::::", "::") : name;
}

/** @param {string} text @param {number} open */
function closingBracket(text, open) {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "<") depth++;
    if (text[at] === ">" && text[at - 1] !== "-" && --depth === 0) return at;
  }
  return -1;
}

/** Pixels per letter in names made of narrow letters. */
const NARROW_LETTER = 4;

/**
 * As much of a name as fits into `width`: the whole name, its short form, or that cut off with an ellipsis.
 * @param {string} name @param {number} width @param {(text: string) => number} measure @returns {string}
 */
function fittedName(name, width, measure) {
  if (width < 14) return "";
  // Measuring is slow and most names are far too long; this estimate is a lower bound.
  if (name.length * NARROW_LETTER <= width && measure(name) <= width) return name;
  const short = shortName(name);
  const whole = measure(short);
  if (whole <= width) return short;
  const room = Math.floor((short.length * width) / whole) - 1;
  return room < 2 ? "" : `${short.slice(0, room)}…`;
}

/**
 * A C++ name without its arguments, what follows them, and its return type; other names are left as they are.
 * @param {string} name @returns {string}
 */
function withoutArguments(name) {
  const own = name.replace(/( \[clone [^\]]*\])+$/, "");
  const text = own.replace(/( const| volatile| &&?| noexcept)+$/, "");
  if (!text.endsWith(")")) return own;
  let depth = 0;
  for (let at = text.length - 1; at > 0; at--) {
    if (text[at] === ")") depth++;
    if (text[at] !== "(" || --depth > 0) continue;
    const before = text.slice(0, at).trimEnd();
    return before.endsWith("operator") || before.endsWith(".") ? own : withoutReturnType(before);
  }
  return own;
}

/** What follows the last space outside of brackets and before the name of an operator. @param {string} name */
function withoutReturnType(name) {
  const operators = [...name.matchAll(/(?<!\w)operator/g)];
  const end = operators.at(-1)?.index ?? name.length;
  let depth = 0;
  let start = 0;
  for (let at = 0; at < end; at++) {
    depth += depthStep(name[at]) + (name[at] === "<" ? 1 : name[at] === ">" ? -1 : 0);
    if (name[at] === " " && depth === 0) start = at + 1;
  }
  return name.slice(start);
}
// canvas.js
// A flame graph on a canvas: drawing, finding the box under the mouse, zoom by wheel, keys.


/** @typedef {import("./picture.js").Picture} Picture */

const ROW_HEIGHT = 19;
const FACE = "system-ui, -apple-system, 'Segoe UI', sans-serif";
/** Your code is bold, and what a chain holds is small. */
const FONTS = { plain: `12px ${FACE}`, yours: `600 12px ${FACE}`, chain: `10px ${FACE}` };
/** How much lower a chain is than a frame, above and below. */
const CHAIN_INSET = 3;
const ZOOM_MILLISECONDS = 140;
/** About three printed pages. */
const MOST_PRINTED_ROWS = 150;

/**
 * @typedef {object} FlameEvents
 * @property {(picture: Picture, box: number, since: number) => void} zoom `since` is the time of the click
 * @property {(picture: Picture, box: number, event: MouseEvent) => void} menu
 * @property {(picture: Picture, box: number, event: MouseEvent | null) => void} hover `box` is -1 when the mouse left
 * @property {(picture: Picture, box: number) => void} select
 * @property {(scale: number) => void} magnified the wheel zoomed in by this much: finer boxes may be needed
 */

class FlameCanvas {
  /** @param {FlameEvents} events @param {string} label */
  constructor(events, label) {
    this.events = events;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabindex: 0, "aria-label": label }));
    this.filler = h("div.flame-height");
    this.element = h("div.flame", {}, h("div.flame-pane", {}, this.canvas), this.filler);
    /** @type {Picture | null} */
    this.picture = null;
    /** The visible range, in weight. */
    this.from = 0;
    this.to = 1;
    /** The range at the end of the running animation. @type {[number, number] | null} */
    this.target = null;
    this.dragged = false;
    this.isPrinted = false;
    this.selected = -1;
    this.hovered = -1;
    /** @type {Uint8Array | null} */
    this.hit = null;
    this.upward = false;
    this.colour = "crate";
    this.palette = currentPalette();
    this.patterns = patternsOf(this.palette);
    this.frame = 0;
    /** Widths of letters, by font. @type {Record<string, Map<string, number>>} */
    this.letters = { plain: new Map(), yours: new Map(), chain: new Map() };
    /** The size and scroll position of the element, cached because reading them during changes is slow. */
    this.size = { width: 0, height: 0 };
    this.scrolled = 0;
    this.element.addEventListener("scroll", () => {
      this.scrolled = this.element.scrollTop;
      this.redraw();
    });
    new ResizeObserver(() => {
      this.size = { width: this.element.clientWidth, height: this.element.clientHeight };
      this.resized();
    }).observe(this.element);
    this.listen();
  }

  get width() {
    return Math.max(1, this.size.width || this.element.clientWidth);
  }

  /** The height of all rows together. */
  get rowsHeight() {
    return (this.picture?.rows ?? 1) * ROW_HEIGHT + 8;
  }

  /** @param {number} top */
  scrollTo(top) {
    this.element.scrollTop = top;
    this.scrolled = this.element.scrollTop;
  }

  /** @param {Picture} picture @param {boolean} animate */
  show(picture, animate) {
    const zoom = picture.zoom;
    this.picture = picture;
    this.selected = -1;
    this.hovered = -1;
    this.resized();
    const from = picture.x[zoom] ?? 0;
    this.moveTo(from, from + (picture.weight[zoom] || 1), animate);
    this.scrollToRoot();
  }

  /** Replaces the picture by a finer one of the same boxes, without moving anything. @param {Picture} picture */
  refine(picture) {
    const old = this.picture;
    if (!old) return this.show(picture, false);
    const scale = picture.weight[picture.zoom] / (old.weight[old.zoom] || 1);
    const offset = picture.x[picture.zoom] - old.x[old.zoom] * scale;
    const selected = this.selected >= 0 ? old.pathOf(this.selected) : null;
    this.picture = picture;
    [this.from, this.to] = [this.from * scale + offset, this.to * scale + offset];
    if (this.target) this.target = [this.target[0] * scale + offset, this.target[1] * scale + offset];
    this.hovered = -1;
    this.selected = selected ? picture.find(selected) : -1;
    this.resized();
  }

  /** Moves the view, animated unless the user prefers reduced motion. @param {number} from @param {number} to @param {boolean} animate */
  moveTo(from, to, animate) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || !animate;
    this.target = [from, to];
    if (still) {
      [this.from, this.to, this.target] = [from, to, null];
      return this.redraw();
    }
    const [startFrom, startTo, start] = [this.from, this.to, performance.now()];
    const step = () => {
      if (!this.target) return;
      const share = Math.min(1, (performance.now() - start) / ZOOM_MILLISECONDS);
      const eased = share * (2 - share);
      this.from = startFrom + (this.target[0] - startFrom) * eased;
      this.to = startTo + (this.target[1] - startTo) * eased;
      this.draw();
      if (share < 1) requestAnimationFrame(step);
      else this.target = null;
    };
    requestAnimationFrame(step);
  }

  themeChanged() {
    this.palette = currentPalette();
    this.patterns = patternsOf(this.palette);
    // Draws at once: printing does not wait for an animation frame.
    this.draw();
  }

  /** Draws every row for printing, where nothing scrolls. @param {boolean} on */
  printed(on) {
    this.isPrinted = on;
    this.resized();
    this.draw();
  }

  /** The height of the picture on the screen or in print. */
  get height() {
    if (this.isPrinted) return Math.min(MOST_PRINTED_ROWS * ROW_HEIGHT, this.rowsHeight);
    return Math.max(1, this.size.height || this.element.clientHeight);
  }

  resized() {
    this.filler.style.height = `${this.rowsHeight}px`;
    const ratio = devicePixelRatio || 1;
    const { width, height } = this;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.redraw();
  }

  scrollToRoot() {
    if (this.upward || this.scrolled !== 0) this.scrollTo(this.upward ? this.rowsHeight : 0);
  }

  redraw() {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** The y of a row on the canvas. @param {number} row */
  yOf(row) {
    const height = this.isPrinted ? this.height : Math.max(this.rowsHeight, this.height);
    const place = this.upward ? height - 4 - (row + 1) * ROW_HEIGHT : row * ROW_HEIGHT;
    return place - (this.isPrinted ? 0 : this.scrolled);
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const picture = this.picture;
    if (!context) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.palette.bg;
    const { width, height } = this;
    context.fillRect(0, 0, width, height);
    if (!picture) return;
    context.textBaseline = "middle";
    const rows = picture.rowsOfBoxes();
    const first = this.yOf(0);
    const step = this.upward ? -ROW_HEIGHT : ROW_HEIGHT;
    for (let row = 0; row < rows.length; row++) {
      const y = first + row * step;
      if (y + ROW_HEIGHT < 0 || y > height) continue;
      this.drawRow(context, picture, rows[row], y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Picture} picture @param {Int32Array} boxes @param {number} y */
  drawRow(context, picture, boxes, y) {
    const { width } = this;
    const scale = width / (this.to - this.from);
    for (const box of boxes) {
      const left = Math.max(0, (picture.x[box] - this.from) * scale);
      const right = Math.min(width, (picture.x[box] + picture.weight[box] - this.from) * scale);
      if (right - left < 0.35) continue;
      const gap = right - left > 3 ? 1 : 0;
      const isHit = this.hit !== null && this.hit[box] === 1;
      context.globalAlpha = this.hit !== null && !isHit ? 0.45 : 1;
      const isChain = picture.isChain(box);
      const [top, high] = isChain ? [y + CHAIN_INSET, ROW_HEIGHT - 1 - 2 * CHAIN_INSET] : [y, ROW_HEIGHT - 1];
      const wide = Math.max(0.6, right - left - gap);
      context.fillStyle = isHit ? this.palette.hit : this.fillOf(picture, box);
      context.fillRect(left, top, wide, high);
      if (wide > 2 && !isHit) this.drawPattern(context, picture, box, left, top, wide, high);
      context.globalAlpha = this.hit !== null && !isHit ? 0.8 : 1;
      if (right - left > 16) this.drawName(context, picture, box, left, right, y, isHit);
      context.globalAlpha = 1;
      if (box === this.selected || box === this.hovered) {
        context.strokeStyle = box === this.selected ? this.palette.accent : this.palette.soft;
        context.lineWidth = box === this.selected ? 2 : 1;
        context.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1 - gap), ROW_HEIGHT - 2);
      }
    }
  }

  /** Distinguishes owners without colour. @param {CanvasRenderingContext2D} context @param {Picture} picture @param {number} box @param {number} left @param {number} top @param {number} wide @param {number} high */
  drawPattern(context, picture, box, left, top, wide, high) {
    if (picture.isChain(box)) {
      context.strokeStyle = this.palette.soft;
      context.lineWidth = 1;
      context.setLineDash([3, 2]);
      context.strokeRect(left + 0.5, top + 0.5, Math.max(0, wide - 1), high - 1);
      context.setLineDash([]);
      return;
    }
    if (picture.diff || this.colour === "heat") return;
    const kind = picture.ownerKind(box);
    const pattern = kind === "system" ? this.patterns.system : kind === "kernel" ? this.patterns.kernel : null;
    if (pattern === null) return;
    context.fillStyle = pattern;
    context.fillRect(left, top, wide, high);
  }

  /** @param {CanvasRenderingContext2D} context @param {Picture} picture @param {number} box @param {number} left @param {number} right @param {number} y @param {boolean} isHit */
  drawName(context, picture, box, left, right, y, isHit) {
    const room = right - left - 7;
    const font = picture.isChain(box) ? "chain" : picture.ownerKind(box) === "yours" ? "yours" : "plain";
    context.font = FONTS[font];
    const text = fittedName(picture.nameOf(box), room, (part) => this.widthOf(context, this.letters[font], part));
    if (text === "") return;
    context.fillStyle = isHit ? this.palette.hitInk : this.inkOf(picture, box);
    context.fillText(text, left + 4, y + ROW_HEIGHT / 2, room);
  }

  /** The approximate width of a text: each letter is measured once, whole texts never. @param {CanvasRenderingContext2D} context @param {Map<string, number>} letters @param {string} text */
  widthOf(context, letters, text) {
    let width = 0;
    for (const letter of text) {
      let one = letters.get(letter);
      if (one === undefined) letters.set(letter, (one = context.measureText(letter).width));
      width += one;
    }
    return width;
  }

  /** @param {Picture} picture @param {number} box @returns {string} */
  fillOf(picture, box) {
    if (picture.diff && this.colour !== "crate") {
      const { now, base } = picture.valueOf(box);
      return this.palette.changeOf((now - base) / Math.max(1, picture.weight[box]));
    }
    if (picture.name[box] < 0) return this.palette.root;
    if (this.colour === "heat") return this.palette.heatOf(this.heatOf(picture, box));
    const shade = (picture.data.keys[picture.name[box]] >>> 6) % 2;
    return this.palette.hues[picture.hueOf(box)][shade];
  }

  /** @param {Picture} picture @param {number} box @returns {string} */
  inkOf(picture, box) {
    const hot = this.colour === "heat" && !picture.diff && picture.name[box] >= 0;
    return hot ? this.palette.heatInkOf(this.heatOf(picture, box)) : this.palette.ink;
  }

  /** @param {Picture} picture @param {number} box */
  heatOf(picture, box) {
    return Math.sqrt(picture.own[box] / (picture.weight[0] || 1));
  }

  /** @param {MouseEvent} event @returns {number} */
  boxUnder(event) {
    const picture = this.picture;
    if (!picture) return -1;
    const place = this.canvas.getBoundingClientRect();
    const y = event.clientY - place.top;
    const x = this.from + ((event.clientX - place.left) / this.width) * (this.to - this.from);
    const row = Math.floor(this.upward ? (this.yOf(-1) - y) / ROW_HEIGHT : (y - this.yOf(0)) / ROW_HEIGHT);
    return picture.boxAt(row, x, (this.to - this.from) / this.width / 2);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("mousemove", (event) => this.hover(this.boxUnder(event), event));
    canvas.addEventListener("mouseleave", () => this.hover(-1, null));
    canvas.addEventListener("click", (event) => {
      const box = this.boxUnder(event);
      if (box >= 0 && this.picture && !this.dragged) this.events.zoom(this.picture, box, event.timeStamp);
    });
    canvas.addEventListener("contextmenu", (event) => {
      const box = this.boxUnder(event);
      if (box < 0 || !this.picture) return;
      event.preventDefault();
      this.select(box);
      this.events.menu(this.picture, box, event);
    });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerdown", (event) => this.drag(event));
  }

  /** @param {number} box @param {MouseEvent | null} event */
  hover(box, event) {
    if (!this.picture) return;
    if (box !== this.hovered) {
      this.hovered = box;
      this.canvas.style.cursor = box >= 0 ? "pointer" : "default";
      this.redraw();
    }
    this.events.hover(this.picture, box, event);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) {
      if (event.deltaX !== 0 && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX / this.width) * (this.to - this.from));
      }
      return;
    }
    event.preventDefault();
    const place = this.canvas.getBoundingClientRect();
    this.magnify(Math.exp(event.deltaY * 0.004), (event.clientX - place.left) / this.width);
  }

  /** @param {number} factor below 1 to zoom in @param {number} at the share of the width that stays in place */
  magnify(factor, at) {
    const picture = this.picture;
    if (!picture) return;
    const [low, high] = this.limits(picture);
    const pin = this.from + (this.to - this.from) * at;
    const span = Math.min(high - low, Math.max((high - low) / 1e4, (this.to - this.from) * factor));
    this.target = null;
    this.from = Math.max(low, Math.min(high - span, pin - span * at));
    this.to = this.from + span;
    this.redraw();
    this.events.magnified((high - low) / span);
  }

  /** @param {number} distance in weight */
  pan(distance) {
    const picture = this.picture;
    if (!picture) return;
    const [low, high] = this.limits(picture);
    const span = this.to - this.from;
    this.target = null;
    this.from = Math.max(low, Math.min(high - span, this.from + distance));
    this.to = this.from + span;
    this.redraw();
  }

  /** @param {Picture} picture @returns {[number, number]} */
  limits(picture) {
    const low = picture.x[picture.zoom];
    return [low, low + (picture.weight[picture.zoom] || 1)];
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0) return;
    let last = event;
    this.dragged = false;
    const move = (/** @type {PointerEvent} */ now) => {
      if (Math.abs(now.clientX - event.clientX) + Math.abs(now.clientY - event.clientY) > 4) this.dragged = true;
      if (!this.dragged) return;
      this.pan(((last.clientX - now.clientX) / this.width) * (this.to - this.from));
      this.scrollTo(this.scrolled + last.clientY - now.clientY);
      last = now;
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  /** @param {number} box */
  select(box) {
    this.selected = box;
    if (box >= 0 && this.picture) {
      const y = this.yOf(this.picture.depth[box]);
      const below = y + ROW_HEIGHT - this.height;
      if (y < 0) this.scrollTo(this.scrolled + y);
      else if (below > 0) this.scrollTo(this.scrolled + below);
      this.events.select(this.picture, box);
    }
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const picture = this.picture;
    if (!picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: this.upward ? "in" : "out", ArrowDown: this.upward ? "out" : "in" };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step) {
      event.preventDefault();
      this.select(this.selected < 0 ? picture.zoom : this.neighbour(picture, this.selected, step));
    } else if (event.key === "Enter" && this.selected >= 0) {
      event.preventDefault();
      this.events.zoom(picture, this.selected, event.timeStamp);
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      this.magnify(event.key === "-" ? 1.4 : 1 / 1.4, 0.5);
    }
  }

  /** @param {Picture} picture @param {number} box @param {string} step @returns {number} */
  neighbour(picture, box, step) {
    if (step === "out") return Math.max(0, picture.parent[box]);
    if (step === "in") return picture.childrenOf(box)[0] ?? box;
    const row = picture.rowsOfBoxes()[picture.depth[box]];
    const next = row[row.indexOf(box) + (step === "left" ? -1 : 1)];
    return next === undefined || !picture.standsOn(picture.zoom, next) ? box : next;
  }
}
// view-flame.js
// The flame graph: from the roots or from the leaves, growing down or up.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./picture.js").Picture} Picture */

/** The largest magnification by wheel for which finer boxes are requested; beyond it, zooming is cheaper. */
const MOST_MAGNIFIED = 16;

/** A canvas that requests the boxes for the current state. */
class FlamePane {
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
function readersTable(picture, unit) {
  const all = picture.weight[0] || 1;
  const order = Array.from({ length: picture.count }, (_, at) => at).sort((a, b) => picture.own[b] - picture.own[a]);
  const rows = order.slice(0, 30).map((box) => h("tr", {}, h("td", { text: picture.nameOf(box) }), h("td", { text: valueLabel(picture.own[box], unit) }), h("td", { text: shareLabel(picture.own[box], all) })));
  const head = h("tr", {}, ...["Function", "Self", "Share"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: "The boxes with the largest self value" }), h("thead", {}, head), h("tbody", {}, ...rows));
}

/** What the colours mean. */
function legendOf() {
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
function relativeChange(before, now) {
  if (before === 0) return now === 0 ? "unchanged" : "new";
  if (now === 0) return "gone";
  const share = (100 * (now - before)) / Math.abs(before);
  return `${share > 0 ? "+" : ""}${share.toFixed(Math.abs(share) < 10 ? 1 : 0)}%`;
}

/** @param {App} app */
function flameView(app) {
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

// view-graph.js
// The call graph: the heaviest functions and the calls between them, laid out in Rust.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{name: string, hue: number, owner: string, chain: boolean, flat: number, cum: number, flat_new: number, flat_base: number, cum_new: number, cum_base: number, x: number, y: number, width: number, height: number}} GraphNode */
/** @typedef {{from: number, to: number, weight: number, new: number, base: number, direct: boolean, points: [number, number][]}} GraphEdge */
/** @typedef {{nodes: GraphNode[], edges: GraphEdge[], diff: boolean, left_out: number, width: number, height: number}} Graph */

const SVG_NS = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG_NS, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** @param {App} app */
function graphView(app) {
  const scene = s("g", {});
  const dots = s("pattern", { id: "graph-system", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 2, cy: 2, r: 1, class: "hatch" }));
  const lines = s("pattern", { id: "graph-kernel", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 1, height: 6, class: "hatch" }));
  const svg = s("svg", { class: "graph", tabindex: 0, role: "list", "aria-label": "Call graph: the heaviest functions. The sandwich view shows who calls whom." }, s("defs", {}, dots, lines), scene);
  const note = h("div.graph-note.soft");
  const element = h("div.graph-holder", {}, note, legendOf());
  element.prepend(svg);
  const view = { x: 0, y: 0, scale: 1 };
  let shown = "nothing yet";
  /** @type {Graph | null} */
  let drawn = null;
  const move = () => scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = svg.getBoundingClientRect();
    zoomGraph(view, Math.exp(-event.deltaY * 0.0015), event.clientX - place.left, event.clientY - place.top);
    move();
  });
  svg.addEventListener("pointerdown", (start) => {
    const from = { x: view.x - start.clientX, y: view.y - start.clientY };
    const drag = (/** @type {PointerEvent} */ now) => {
      view.x = from.x + now.clientX;
      view.y = from.y + now.clientY;
      move();
    };
    const end = () => removeEventListener("pointermove", drag);
    addEventListener("pointermove", drag);
    addEventListener("pointerup", end, { once: true });
  });
  svg.addEventListener("keydown", (event) => {
    const steps = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] });
    const step = steps[event.key];
    if (step) [view.x, view.y] = [view.x + step[0], view.y + step[1]];
    else if (event.key === "+" || event.key === "-") zoomGraph(view, event.key === "+" ? 1.2 : 1 / 1.2, element.clientWidth / 2, element.clientHeight / 2);
    else return;
    event.preventDefault();
    move();
  });
  const fit = (/** @type {number} */ width, /** @type {number} */ height) => {
    // Names are unreadable at a smaller scale; the user can drag to see what does not fit.
    view.scale = Math.max(0.8, Math.min(1, (element.clientWidth - 40) / width, (element.clientHeight - 40) / height));
    view.x = (element.clientWidth - width * view.scale) / 2;
    view.y = 20;
    move();
  };
  return {
    element,
    controls: [],
    /** @param {State} state */
    async update(state) {
      if (app.dataKey() === shown) return;
      const graph = /** @type {Graph | null} */ (await app.waitFor(app.provider.data("graph", state)));
      if (graph === null) return;
      shown = app.dataKey();
      drawn = graph;
      drawGraph(app, scene, graph);
      const chosen = graph.diff ? "functions that changed most" : "heaviest functions";
      note.textContent = graph.left_out > 0 ? `The ${graph.nodes.length} ${chosen}; ${graph.left_out} others are not drawn. Dashed lines: calls through functions that are not drawn.` : "";
      fit(graph.width, graph.height);
    },
    themeChanged: () => drawn && drawn.diff && drawGraph(app, scene, drawn),
    focus: () => /** @type {SVGElement} */ (/** @type {unknown} */ (svg)).focus(),
  };
}

/** @param {{x: number, y: number, scale: number}} view @param {number} factor @param {number} x @param {number} y */
function zoomGraph(view, factor, x, y) {
  const scale = Math.max(0.1, Math.min(4, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
}

/** @param {App} app @param {SVGElement} scene @param {Graph} graph */
function drawGraph(app, scene, graph) {
  const { unit, per_sample: perSample } = app.sampleType();
  const all = app.total() || 1;
  const palette = currentPalette();
  const most = Math.max(1, ...graph.edges.map((edge) => Math.abs(edge.new - edge.base)));
  const lines = graph.edges.map((edge) => {
    const change = edge.new - edge.base;
    const noise = isNoise(edge.base, edge.new, perSample);
    const look = !graph.diff || noise ? "" : change > 0 ? " more" : " less";
    const line = s("path", {
      d: edge.from === edge.to ? loopPath(graph.nodes[edge.from]) : edgePath(edge.points),
      class: `edge${edge.direct ? "" : " indirect"}${look}`,
      "stroke-width": 1 + 6 * Math.sqrt(graph.diff ? Math.abs(change) / most : edge.weight / all),
    });
    const value = graph.diff ? `${changeLabel(change, unit)}, from ${valueLabel(edge.base, unit)} to ${valueLabel(edge.new, unit)}` : `${exactLabel(edge.weight, unit)} · ${shareLabel(edge.weight, all)}`;
    line.append(s("title", {}, `${graph.nodes[edge.from].name} → ${graph.nodes[edge.to].name}: ${value}`));
    return line;
  });
  const boxes = graph.nodes.map((node) => {
    const { x, y, width, height } = node;
    const group = s(
      "g",
      { class: `node ${node.chain ? "chain" : node.owner}`, role: "listitem", "aria-label": `${node.name}: ${nodeText(node, graph.diff, unit, all)}`, transform: `translate(${x - width / 2} ${y - height / 2})` },
      s("rect", { width, height, rx: 3, fill: graph.diff ? palette.changeOf((node.cum_new - node.cum_base) / Math.max(1, node.cum)) : `var(--h${node.hue})` }),
      ...(["system", "kernel"].includes(node.owner) && !graph.diff ? [s("rect", { width, height, rx: 3, fill: `url(#graph-${node.owner})` })] : []),
      s("rect", { width: Math.max(0, width * Math.min(1, node.flat / all)), height: 3, y: height - 3, class: "heat" }),
      s("text", { x: 7, y: 15 }, fittedName(node.name, width - 14, (text) => text.length * 7)),
      s("text", { x: 7, y: 30 }, nodeText(node, graph.diff, unit, all)),
    );
    group.addEventListener("mousemove", (event) => showTooltip(node.name, "", nodeFacts(node, graph.diff, unit), /** @type {MouseEvent} */ (event)));
    group.addEventListener("mouseleave", hideTooltip);
    group.addEventListener("dblclick", () => (node.chain ? app.toggleFold("all") : app.set({ view: "sandwich", pivot: node.name })));
    group.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      if (node.chain) return;
      app.functionMenu(node.name, /** @type {MouseEvent} */ (event));
    });
    return group;
  });
  replaceContent(scene, ...lines, ...boxes);
}

/** @param {GraphNode} node @param {boolean} diff @param {string} unit @param {number} all */
function nodeText(node, diff, unit, all) {
  if (diff) return `${changeLabel(node.cum_new - node.cum_base, unit)} · ${relativeChange(node.cum_base, node.cum_new)}`;
  return `${valueLabel(node.cum, unit)} · ${shareLabel(node.cum, all)}`;
}

/** @param {GraphNode} node @param {boolean} diff @param {string} unit @returns {[string, string][]} */
function nodeFacts(node, diff, unit) {
  if (!diff) return [["total", exactLabel(node.cum, unit)], ["self", exactLabel(node.flat, unit)]];
  const change = (/** @type {number} */ base, /** @type {number} */ now) => `${changeLabel(now - base, unit)} (${relativeChange(base, now)}), from ${valueLabel(base, unit)} to ${valueLabel(now, unit)}`;
  return [["total", change(node.cum_base, node.cum_new)], ["self", change(node.flat_base, node.flat_new)]];
}

/** A line that leaves a box on its right and comes back to it. @param {GraphNode} node */
function loopPath({ x, y, width }) {
  const right = x + width / 2;
  return `M ${right} ${y - 8} C ${right + 30} ${y - 20}, ${right + 30} ${y + 20}, ${right} ${y + 8}`;
}

/** A line through all points that leaves and enters each vertically. @param {[number, number][]} points */
function edgePath(points) {
  let path = `M ${points[0].join(" ")}`;
  for (let at = 1; at < points.length; at++) {
    const [[x1, y1], [x2, y2]] = [points[at - 1], points[at]];
    const middle = (y1 + y2) / 2;
    path += ` C ${x1} ${middle}, ${x2} ${middle}, ${x2} ${y2}`;
  }
  return path;
}
// table.js
// A table of any length: only the visible rows are elements.


const TABLE_ROW = 24;
/** The number of rows to print, a few pages. */
const MOST_PRINTED = 200;
let tables = 0;

/**
 * @typedef {object} Column
 * @property {string} id @property {string} title @property {string} [hint]
 * @property {boolean} [number] @property {boolean} [sortable]
 */

class VirtualTable {
  /**
   * @param {object} options
   * @param {Column[]} options.columns
   * @param {string} options.label
   * @param {(row: number) => HTMLElement[]} options.cells the cells of a row
   * @param {(column: string) => void} [options.sort]
   * @param {(row: number) => void} [options.open] Enter or a double click
   * @param {(row: number, event: MouseEvent) => void} [options.menu]
   * @param {(row: number) => void} [options.select]
   * @param {(row: number, key: string) => boolean} [options.key] returns whether it handled the key
   * @param {(row: number) => {level: number, open: boolean | null}} [options.level] in a tree: the depth of a row, and whether it is open
   */
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.selected = -1;
    this.first = -1;
    this.isPrinted = false;
    this.id = `table-${tables++}`;
    this.headings = h("div.table-head", { role: "row" });
    this.body = h("div.table-body", { role: "rowgroup" });
    this.spacer = h("div.table-spacer", {}, this.body);
    this.scroller = h("div.table-scroll", { tabindex: 0, role: options.level ? "treegrid" : "grid", "aria-label": options.label }, this.headings, this.spacer);
    this.element = h("div.table", {}, this.scroller);
    this.setColumns(options.columns, "");
    this.scroller.addEventListener("scroll", () => this.draw(false));
    this.scroller.addEventListener("keydown", (event) => this.keyDown(event));
    new ResizeObserver(() => this.draw(true)).observe(this.scroller);
  }

  /** @param {Column[]} columns @param {string} sorted */
  setColumns(columns, sorted) {
    this.columns = columns;
    this.headings.replaceChildren(
      ...columns.map((column) => {
        const isSorted = column.id === sorted;
        const classes = `th col-${column.id}${column.number ? " number" : ""}`;
        const attributes = { role: "columnheader", title: column.hint, "aria-sort": isSorted ? "descending" : null, class: classes };
        if (!column.sortable) return h("div", attributes, column.title);
        const sort = () => this.options.sort?.(column.id);
        return h("div", attributes, h("button.quiet", { onclick: sort, text: column.title + (isSorted ? " ▾" : "") }));
      }),
    );
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    this.selected = Math.min(this.selected, count - 1);
    this.spacer.style.height = `${count * TABLE_ROW}px`;
    this.scroller.setAttribute("aria-rowcount", String(count));
    this.draw(true);
  }

  /** @param {boolean} force */
  draw(force) {
    const first = this.isPrinted ? 0 : Math.max(0, Math.floor(this.scroller.scrollTop / TABLE_ROW) - 8);
    if (!force && first === this.first) return;
    this.first = first;
    const room = this.isPrinted ? MOST_PRINTED : Math.ceil(this.scroller.clientHeight / TABLE_ROW) + 18;
    const last = Math.min(this.count, first + room);
    const rows = [];
    for (let row = first; row < last; row++) rows.push(this.rowElement(row));
    this.body.style.transform = `translateY(${first * TABLE_ROW}px)`;
    this.body.replaceChildren(...rows);
    const selected = this.selected >= first && this.selected < last;
    if (selected) this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  /** Shows the first rows in full for printing, where nothing scrolls. @param {boolean} on */
  printed(on) {
    this.isPrinted = on;
    this.spacer.style.height = on ? "auto" : `${this.count * TABLE_ROW}px`;
    this.draw(true);
  }

  /** @param {number} row */
  rowElement(row) {
    const cells = this.options.cells(row);
    cells.forEach((cell, at) => {
      const column = this.columns?.[at];
      cell.classList.add("td", `col-${column?.id}`);
      if (column?.number) cell.classList.add("number");
      cell.setAttribute("role", "gridcell");
    });
    const place = this.options.level?.(row);
    return h(
      `div.tr${row === this.selected ? ".selected" : ""}`,
      {
        role: "row",
        id: `${this.id}-${row}`,
        "aria-level": place?.level,
        "aria-expanded": place?.open ?? null,
        "aria-rowindex": row + 1,
        "aria-selected": row === this.selected,
        onclick: () => this.select(row),
        ondblclick: () => this.options.open?.(row),
        oncontextmenu: (/** @type {MouseEvent} */ event) => {
          if (!this.options.menu) return;
          event.preventDefault();
          this.select(row);
          this.options.menu(row, event);
        },
      },
      ...cells,
    );
  }

  /** @param {number} row */
  select(row) {
    if (row < 0 || row >= this.count) return;
    this.selected = row;
    const top = row * TABLE_ROW;
    const room = this.scroller.clientHeight - TABLE_ROW - 28;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.options.select?.(row);
    this.draw(true);
  }

  /** @param {KeyboardEvent} event */
  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / TABLE_ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (move !== undefined) this.select(Math.max(0, Math.min(this.count - 1, this.selected + move)));
    else if (event.key === "Enter" && this.selected >= 0) this.options.open?.(this.selected);
    else if (this.selected < 0 || !this.options.key?.(this.selected, event.key)) return;
    event.preventDefault();
  }
}

/** A number with a bar behind it that shows its share. @param {string} text @param {number} share @param {string} [title] */
function barCell(text, share, title) {
  const width = `${Math.max(0, Math.min(100, share * 100)).toFixed(2)}%`;
  return h("div", { title }, h("span.share", { style: { width } }), h("span.bar-text", { text }));
}
// view-top.js
// The table of functions.


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
  { id: "relative", title: "Change %", hint: "relative to the value before; “noise” is a change that chance explains", number: true },
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
function functionTable(app, options) {
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
function heaviestOfYours(rows) {
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
  const name = nameCell(rows.names[rows.name[row]], rows.hues[rows.name[row]]);
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
function isReal(base, now, perSample, verdict) {
  return verdict ?? !isNoise(base, now, perSample);
}

/** A change, in colour if it is more than noise. @param {number} base @param {number} now @param {string} unit @param {number} perSample @param {boolean} [verdict] what `flamelet diff` says, if known */
function changeCell(base, now, unit, perSample, verdict) {
  const change = now - base;
  const noise = !isReal(base, now, perSample, verdict);
  const look = noise ? ".soft" : change > 0 ? ".more" : ".less";
  return h(`div${look}`, { text: changeLabel(change, unit), title: exactLabel(change, unit) + (noise && change !== 0 ? ", within noise" : "") });
}

/** @param {string} name @param {number} hue */
function nameCell(name, hue) {
  return h("div", { title: name }, h("span.dot", { style: { background: `var(--h${hue < 0 ? 24 : hue})` } }), h("span", { text: name }));
}

/** @param {App} app */
function topView(app) {
  const table = functionTable(app, { narrow: false, open: (name) => app.set({ view: "sandwich", pivot: name }) });
  return { element: table.element, controls: [], update: table.update, printed: table.printed, focus: table.focus };
}
// view-heap.js
// Memory in use and allocated, by size, by lifetime and by allocating function.


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
function heapPairs(types) {
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
function heapView(app) {
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
// view-heatmap.js
// Sub-second heatmap: one column per second, which runs from bottom to top. Selecting two cells, by mouse or keyboard, selects a time range.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{columns: number, rows: number, column: number, peak: number, unit: string, cells: number[]}} Heatmap */

/** @param {App} app */
function heatmapView(app) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: 0, role: "img", "aria-label": "Heatmap of activity within each second. Arrow keys move between cells, Enter marks the start and the end of a time range." }));
  const table = h("div.for-readers");
  const element = h("div.heatmap", {}, canvas, table);
  const clear = h("button.toggle", { text: "Whole time", onclick: () => app.setTime("") });
  /** @type {Heatmap | null} */
  let data = null;
  let shown = "nothing yet";
  let palette = currentPalette();
  /** @type {number | null} */
  let start = null;
  /** The cell that the keyboard has reached. @type {number | null} */
  let cursor = null;
  const LEFT = 54;
  const BOTTOM = 24;

  const cell = () => {
    const columns = Math.max(1, data?.columns ?? 1);
    const rows = Math.max(1, data?.rows ?? 1);
    return { wide: Math.min(110, (element.clientWidth - LEFT - 12) / columns), tall: (element.clientHeight - BOTTOM - 12) / rows };
  };
  /** @param {MouseEvent} event */
  const cellAt = (event) => {
    if (!data) return -1;
    const { wide, tall } = cell();
    const column = Math.floor((event.offsetX - LEFT) / wide);
    const row = data.rows - 1 - Math.floor((event.offsetY - 8) / tall);
    return column < 0 || column >= data.columns || row < 0 || row >= data.rows ? -1 : column * data.rows + row;
  };

  function draw() {
    const context = canvas.getContext("2d");
    if (!context || !data) return;
    const ratio = devicePixelRatio || 1;
    const [width, tallness] = [element.clientWidth, element.clientHeight];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tallness * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tallness}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, width, tallness);
    const { wide, tall } = cell();
    const step = data.column / data.rows;
    const span = chosenSpan(app.state.time);
    for (let column = 0; column < data.columns; column++) {
      for (let row = 0; row < data.rows; row++) {
        const at = column * data.rows + row;
        const time = column * data.column + row * step;
        context.globalAlpha = span && (time + step <= span[0] || time >= span[1]) ? 0.3 : 1;
        context.fillStyle = palette.heatOf(data.peak > 0 ? data.cells[at] / data.peak : 0);
        context.fillRect(LEFT + column * wide, 8 + (data.rows - 1 - row) * tall, Math.max(0.5, wide - 1), Math.max(0.5, tall - 1));
      }
    }
    context.globalAlpha = 1;
    context.strokeStyle = palette.text;
    for (const marked of [start, document.activeElement === canvas ? cursor : null]) {
      if (marked === null) continue;
      const [column, row] = [Math.floor(marked / data.rows), marked % data.rows];
      context.strokeRect(LEFT + column * wide - 0.5, 7.5 + (data.rows - 1 - row) * tall, wide, tall);
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = palette.soft;
    context.textBaseline = "middle";
    for (const part of [0, 0.25, 0.5, 0.75]) context.fillText(timeLabel(part * data.column), 6, 8 + (1 - part) * data.rows * tall - 6);
    const every = Math.max(1, Math.ceil(60 / wide));
    for (let column = 0; column < data.columns; column += every) context.fillText(timeLabel(column * data.column), LEFT + column * wide, tallness - BOTTOM / 2);
  }

  canvas.addEventListener("mousemove", (event) => {
    const at = cellAt(event);
    if (at < 0 || !data) return hideTooltip();
    const time = (at * data.column) / data.rows;
    showTooltip(timeLabel(time), "", [["busy", valueLabel(data.cells[at], data.unit)], ["click", start === null ? "start of a range" : "end of the range"]], event);
  });
  canvas.addEventListener("mouseleave", hideTooltip);
  /** Marks the start of a range, or its end. @param {number} at @param {string} next */
  const mark = (at, next) => {
    if (!data) return;
    const step = data.column / data.rows;
    if (start === null) {
      start = at;
      flash(next);
      draw();
      return;
    }
    const [low, high] = [Math.min(start, at), Math.max(start, at) + 1];
    start = null;
    app.setTime(`${Math.round(low * step)}-${Math.round(high * step)}`);
  };
  canvas.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (at >= 0) mark(at, "Now click the end of the range");
  });
  canvas.addEventListener("keydown", (event) => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && cursor !== null) mark(cursor, "Now move to the end of the range and press Enter");
    else {
      const moved = movedCell(cursor, event.key, data.columns, data.rows);
      if (moved === null) return;
      cursor = moved;
      announce(`${timeLabel((cursor * data.column) / data.rows)}: ${valueLabel(data.cells[cursor], data.unit)}`);
      draw();
    }
    event.preventDefault();
  });
  canvas.addEventListener("focus", draw);
  canvas.addEventListener("blur", draw);
  new ResizeObserver(draw).observe(element);

  return {
    element,
    controls: [clear],
    /** @param {State} state */
    async update(state) {
      clear.hidden = state.time === "";
      const whole = wholeTime(state);
      const wanted = dataQuery(whole).toString();
      if (wanted !== shown) {
        const answer = await app.waitFor(app.provider.data("heatmap", whole));
        if (answer === null) return;
        data = answer;
        shown = wanted;
        replaceContent(table, columnsTable(answer));
      }
      draw();
    },
    themeChanged() {
      palette = currentPalette();
      draw();
    },
    focus: () => canvas.focus(),
  };
}

/** The columns as a table for screen readers. @param {Heatmap} data */
function columnsTable(data) {
  const sum = (/** @type {number} */ column) => data.cells.slice(column * data.rows, (column + 1) * data.rows).reduce((sum, cell) => sum + cell, 0);
  const row = (/** @type {number} */ column) => h("tr", {}, h("td", { text: timeLabel(column * data.column) }), h("td", { text: valueLabel(sum(column), data.unit) }));
  const head = h("tr", {}, ...["From", "Busy"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: `Activity in each ${timeLabel(data.column)}` }), h("thead", {}, head), h("tbody", {}, ...Array.from({ length: data.columns }, (_, column) => row(column))));
}

/** The cell that an arrow key moves to, or null for other keys. Cells are numbered upwards in each column.
 * @param {number | null} cell @param {string} key @param {number} columns @param {number} rows @returns {number | null} */
function movedCell(cell, key, columns, rows) {
  /** @type {Record<string, [number, number]>} */
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const way = ways[key];
  if (!way || columns === 0 || rows === 0) return null;
  if (cell === null) return 0;
  const column = Math.max(0, Math.min(columns - 1, Math.floor(cell / rows) + way[0]));
  const row = Math.max(0, Math.min(rows - 1, (cell % rows) + way[1]));
  return column * rows + row;
}
// view-info.js
// Facts about the profile, and how far it can be trusted.


/** @typedef {import("./app.js").App} App */
/** @typedef {{verdict: "good" | "fair" | "poor", faults: string[]}} Judged what `flamelet info` says */
/** @typedef {{level: "good" | "fair" | "poor", text: string}} Finding */

/**
 * What the quality figures mean for the user.
 * @param {Record<string, any>} about @param {boolean} isJudged whether a verdict says if there are enough observations
 * @returns {Finding[]}
 */
function findings(about, isJudged) {
  /** @type {Finding[]} */
  const found = [];
  const quality = about.quality;
  // The limits are those of `flamelet info`.
  const part = (/** @type {number} */ some, /** @type {number} */ all) => (all > 0 ? (100 * some) / all : 0);
  const graded = (/** @type {number} */ share, /** @type {string} */ text) => found.push({ level: share > 20 ? "poor" : share > 2 ? "fair" : "good", text });
  // What the recorder counted is known for the recording, not for a part of it.
  const scope = about.is_part ? ", in the whole recording" : "";
  if (quality) {
    const lost = part(quality.lost, quality.samples + quality.lost);
    graded(lost, `${grouped(quality.lost)} of ${grouped(quality.samples + quality.lost)} samples lost (${lost.toFixed(1)}%)${scope}`);
    const cut = part(quality.truncated, quality.samples);
    graded(cut, `${grouped(quality.truncated)} stacks do not reach the start of their thread (${cut.toFixed(1)}%)${scope}`);
    // A low rate loses nothing: each sample stands for more. Whether there are enough of them, the verdict says.
    const rate = rateOf(quality);
    if (rate !== "") found.push({ level: "good", text: rate + scope });
  }
  const unnamed = part(about.unnamed_locations, about.locations);
  graded(unnamed, `${grouped(about.unnamed_locations)} of ${grouped(about.locations)} code addresses have no function name (${unnamed.toFixed(1)}%)`);
  if (!isJudged && about.samples < 100) found.push({ level: about.samples < 20 ? "poor" : "fair", text: `only ${about.samples} distinct samples: small shares mean little` });
  return found;
}

/** The rates that are known: nobody measured the one that another tool reached. @param {Record<string, any>} quality @returns {string} */
function rateOf(quality) {
  if (!(quality.asked_hertz > 0)) return "";
  if (!(quality.achieved_hertz > 0)) return `${quality.asked_hertz} samples a second asked`;
  return `${Math.round(quality.achieved_hertz)} samples a second; ${quality.asked_hertz} asked`;
}

/** @param {App} app */
function infoView(app) {
  const element = h("div.info");
  return {
    element,
    controls: [],
    async update(/** @type {import("./state.js").State} */ state) {
      const about = app.opened.about;
      if (!about) return;
      const isJudged = app.provider.has("judged", state);
      replaceContent(element, verdictOf(about, isJudged, null), factsOf(about), commentsOf(about), mappingsOf(about));
      if (!isJudged) return;
      // Judged by the samples themselves, as `flamelet info` does.
      const judged = /** @type {Judged | null} */ (await app.waitFor(app.provider.data("judged", state)));
      if (judged) element.firstElementChild?.replaceWith(verdictOf(about, isJudged, judged));
    },
    focus: () => element.focus(),
  };
}

/** @param {Record<string, any>} about @param {boolean} isJudged @param {Judged | null} judged */
function verdictOf(about, isJudged, judged) {
  const list = findings(about, isJudged);
  const worst = list.some((one) => one.level === "poor") ? "poor" : list.some((one) => one.level === "fair") ? "fair" : "good";
  const words = { good: "This profile is good.", fair: "This profile is usable, with care.", poor: "Do not rely on this profile." };
  const rows = list.map((one) => h(`li.${one.level}`, {}, h("span.mark", { text: { good: "✓", fair: "!", poor: "✕" }[one.level], "aria-label": one.level }), one.text));
  const faults = (judged?.faults ?? []).map((fault) => h("p.comment", { text: fault }));
  return h("section", {}, h("h2", { text: "Quality" }), h("p.verdict", { text: words[judged?.verdict ?? worst] }), ...faults, h("ul.findings", {}, ...rows));
}

/** The rows of the table of facts. @param {Record<string, any>} about @returns {[string, string][]} */
function facts(about) {
  const quality = about.quality;
  /** @type {[string, string][]} */
  const rows = [
    ["Name", about.title],
    ["Taken", about.time_nanos > 0 ? new Date(about.time_nanos / 1e6).toLocaleString() : "unknown"],
    ["Duration", about.duration_nanos > 0 ? timeLabel(about.duration_nanos) : "unknown"],
    ["Period", about.period > 0 ? `${valueLabel(about.period, about.period_unit)} of ${about.period_kind}` : "unknown"],
    ["Samples", grouped(about.samples)],
    ["Stacks", grouped(about.stacks)],
    ["Functions", grouped(about.functions)],
    ["Code addresses", grouped(about.locations)],
    ["Threads", about.threads > 0 ? grouped(about.threads) : "not recorded"],
    ["Labels", about.label_keys.length > 0 ? about.label_keys.join(", ") : "none"],
    ...about.types.map((/** @type {any} */ type) => [`Total ${type.kind}`, `${valueLabel(type.total, type.unit)}`]),
  ];
  if (quality) rows.push(["Engine", quality.engine]);
  if (quality?.own_cpu_nanos > 0) rows.push([`Profiler's own CPU${about.is_part ? ", whole recording" : ""}`, valueLabel(quality.own_cpu_nanos, "nanoseconds")]);
  return rows;
}

/** @param {Record<string, any>} about */
function factsOf(about) {
  const rows = facts(about).map(([name, value]) => h("tr", {}, h("th", { text: name, scope: "row" }), h("td", { text: value })));
  return h("section", {}, h("h2", { text: "Profile" }), h("table.facts", {}, h("tbody", {}, ...rows)));
}

/** @param {Record<string, any>} about */
function commentsOf(about) {
  if (about.comments.length === 0) return null;
  return h("section", {}, h("h2", { text: "Comments" }), ...about.comments.map((/** @type {string} */ text) => h("p.comment", { text })));
}

/** @param {Record<string, any>} about */
function mappingsOf(about) {
  if (about.mappings.length === 0) return null;
  const rows = about.mappings.map((/** @type {any} */ one) => h("tr", {}, h("td", { text: one.file }), h("td.soft", { text: one.build_id }), h("td.soft", { text: one.symbols ? "named" : "no names" })));
  return h("section", {}, h("h2", { text: "Binaries" }), h("table.facts", {}, h("tbody", {}, ...rows)));
}
// request-sides.js
// What one route spends its time on: CPU, blocked and awaiting, side by side.


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
function routeSides(app, title, columns, close) {
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
    this.total.textContent = whole > 0 ? valueLabel(whole, SIDE_UNIT) : "nothing of this route";
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
// view-requests.js
// Requests: what each route of a live service spends its time on, for all requests and for the slowest.


/** @typedef {import("./app.js").App} App */
/** @typedef {{count: number, wall_ns: number, cpu_ns: number, blocked_ns: number, awaiting_ns: number, runnable_ns: number}} RequestSum */
/** @typedef {RequestSum & {route: string, method: string, errors: number, cancelled: number, p50_ns: number, p90_ns: number, p99_ns: number, max_ns: number, slowest: RequestSum}} RequestRoute */

/** The parts of a request's time: the field, its name, and what it means. */
const REQUEST_PARTS = /** @type {const} */ ([
  ["cpu_ns", "CPU", "on the CPU"],
  ["blocked_ns", "blocked", "in a lock or a system call that holds up the thread"],
  ["awaiting_ns", "awaiting", "waiting to be woken: a timer, a socket, an async lock, other tasks"],
  ["runnable_ns", "runnable", "woken, and waiting for a free thread"],
]);

/** The profiles of a route, by the column that they have beside the others: the name, what they show, their endpoint (empty for CPU time), and the part whose samples count. */
const REQUEST_COLUMNS = /** @type {const} */ ([
  [["CPU", "on the CPU", "", ""]],
  [
    ["blocked: locks", "waiting for a lock that holds up the thread", "block", ""],
    ["blocked: long polls", "in a poll that held up the thread for long, by a lock, a file or another system call", "blocked", "blocked"],
  ],
  [["awaiting", "waiting to be woken: a timer, a socket, an async lock, other tasks", "await", ""]],
]);

/** @typedef {typeof REQUEST_COLUMNS[number][number]} RequestProfile */

/** @param {App} app */
function requestsView(app) {
  const table = h("div");
  const below = h("div");
  const element = h("div.requests", { tabindex: 0 }, table, below);
  /** @type {ReturnType<typeof routeSides> | null} */
  let sides = null;
  const close = () => {
    sides = null;
    replaceContent(below);
  };
  /** Shows the profiles of a route side by side. @param {RequestRoute} route */
  const compare = async (route) => {
    const parts = REQUEST_COLUMNS.map((column) => column.map(([title, means, what, part]) => ({ title, means, what, filters: routeFilters(route.route, part) })));
    sides = routeSides(app, `${route.method} ${route.route}`.trim(), parts, close);
    replaceContent(below, sides.element);
    await sides.load();
  };
  let isShown = false;
  const load = async () => {
    const answer = /** @type {{routes: RequestRoute[]} | null} */ (await app.waitFor(app.provider.requests()));
    if (answer === null) return;
    isShown = true;
    replaceContent(table, legendPart(), answer.routes.length > 0 ? tablePart(app, answer.routes, compare) : h("p.empty", { text: "No request was counted yet. The service counts those under flamelet::axum::layer." }));
  };
  return {
    element,
    controls: [h("button.toggle", { text: "Refresh", title: "Ask the service again", onclick: load })],
    async update() {
      if (!isShown) await load();
    },
    themeChanged: () => sides?.themeChanged(),
    focus: () => element.focus(),
  };
}

function legendPart() {
  const part = (/** @type {typeof REQUEST_PARTS[number]} */ [, name, means]) => h("span.request-key", { title: means }, h(`span.request-part.${name}`), name);
  return h("p.request-legend.soft", {}, "Time from request to response = ", ...REQUEST_PARTS.map(part));
}

/** @param {App} app @param {RequestRoute[]} routes @param {(route: RequestRoute) => Promise<void>} compare */
function tablePart(app, routes, compare) {
  const heads = [["Route", ""], ["Requests", "number"], ["Errors", "number"], ["p50", "number"], ["p90", "number"], ["p99", "number"], ["max", "number"], ["All requests", ""], ["Slowest 1 %", ""], ["Profiles of the route", ""]];
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...heads.map(([text, look]) => h("th", { text, class: look, scope: "col" })))),
    h("tbody", {}, ...routes.map((route) => routeRow(app, route, compare))),
  );
}

/** @param {App} app @param {RequestRoute} route @param {(route: RequestRoute) => Promise<void>} compare */
function routeRow(app, route, compare) {
  const time = (/** @type {number} */ nanos) => h("td.number", { text: valueLabel(nanos, "nanoseconds"), title: exactLabel(nanos, "nanoseconds") });
  const all = h("button.link", { text: "side by side", title: "Take all profiles of this route, for 10 s, and show them side by side", onclick: () => void compare(route) });
  const link = (/** @type {RequestProfile} */ [name, means, what, part]) => h("button.link", { text: name, title: `Take a profile of this route: ${means}`, onclick: () => void app.take(10, what, routeFilters(route.route, part)) });
  return h(
    "tr",
    {},
    h("th.request-route", { scope: "row" }, h("span.soft", { text: `${route.method} ` }), route.route),
    h("td.number", { text: grouped(route.count), title: route.cancelled > 0 ? `and ${grouped(route.cancelled)} that were cancelled` : "" }),
    h(`td.number${route.errors > 0 ? ".more" : ""}`, { text: grouped(route.errors) }),
    time(route.p50_ns),
    time(route.p90_ns),
    time(route.p99_ns),
    time(route.max_ns),
    h("td", {}, partsBar(route)),
    h("td", {}, partsBar(route.slowest)),
    h("td.request-links", {}, all, ...REQUEST_COLUMNS.flatMap((column) => column.map(link))),
  );
}

/** @param {RequestSum} sum */
function partsBar(sum) {
  const text = partsText(sum);
  const wall = Math.max(1, sum.wall_ns);
  const part = (/** @type {typeof REQUEST_PARTS[number]} */ [field, name]) => h(`span.request-part.${name}`, { style: { width: `${((100 * sum[field]) / wall).toFixed(2)}%` } });
  const mean = sum.count > 0 ? `${grouped(sum.count)} requests, ${valueLabel(Math.round(sum.wall_ns / sum.count), "nanoseconds")} each: ` : "";
  return h("div.request-bar", { role: "img", "aria-label": text, title: `${mean}${text}` }, ...REQUEST_PARTS.map(part));
}

/** The shares of the parts, in words. @param {RequestSum} sum */
function partsText(sum) {
  const share = (/** @type {number} */ nanos) => `${((100 * nanos) / Math.max(1, sum.wall_ns)).toFixed(1)} %`;
  return REQUEST_PARTS.map(([field, name]) => `${name} ${share(sum[field])}`).join(", ");
}

/** The filters for the samples of a route, or of one part of its time. @param {string} route @param {string} part */
function routeFilters(route, part) {
  const filter = (/** @type {string} */ label, /** @type {string} */ text) => ({ kind: "tagfocus", text: `${label}=${exactPattern(text)}` });
  return part === "" ? [filter("route", route)] : [filter("route", route), filter("part", part)];
}
// view-sandwich.js
// Sandwich: the callers of a function above it, its callees below.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */

/** @param {App} app */
function sandwichView(app) {
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
// view-source.js
// Source and instructions of a function, with the cost of each line.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{line: number, text: string, flat: number, cum: number}} SourceLine */
/** @typedef {{address: number, text: string, source: string | null, flat: number, cum: number}} Instruction */
/** @typedef {{file: string, lines: SourceLine[], missing: string | null}} SourceFile */
/** @typedef {{function: string, files: SourceFile[], instructions: Instruction[], note: string}} Code */

/** @param {App} app */
function sourceView(app) {
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
// view-summary.js
// What stands out, your heaviest functions and what they consist of: each line leads to the view that shows it.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{name: string, value: number}} Part */
/** @typedef {{name: string, owner: string, flat: number, cum: number, parts: Part[]}} Row */
/** @typedef {{by: string, title: string, sample_type: string, unit: string, total: number, without_yours: number, rows: Row[]}} List */
/** @typedef {{function: string, file: string, line: number, share: number}} Place */
/** The view that shows a finding. @typedef {{view: string, focus?: string, sample_type?: string, function?: string}} Closer */
/** @typedef {{rule: string, title: string, share: number, range: [number, number], confidence: string, places: Place[], why: string, helps: string, closer: Closer}} StandsOut */
/** @typedef {{times: number[], sizes: number[], unit: string}} Size */
/** `sentence` begins with the name of the function. @typedef {{function: string, sentence: string}} Change */
/** @typedef {{summary: string, more: Change[], less: Change[]}} Changes */
/** @typedef {{verdict: string, faults: string[], explanation: {observations: number, findings: StandsOut[]}, lists: List[], thread_key: string, size?: Size, changes?: Changes}} SummaryData */

/** @param {App} app */
function summaryView(app) {
  const element = h("div.summary", { tabindex: 0 });
  let shown = "nothing yet";
  return {
    element,
    controls: [],
    /** @param {State} state */
    async update(state) {
      if (app.dataKey() === shown) return;
      const data = /** @type {SummaryData | null} */ (await app.waitFor(app.provider.data("summary", state)));
      if (data === null) return;
      shown = app.dataKey();
      const lists = data.lists.map((list) => listPart(app, list, data.thread_key));
      replaceContent(
        element,
        headPart(app, data),
        h("div.summary-columns", {}, h("div.summary-column", {}, changesPart(app, data), findingsPart(app, data)), h("div.summary-column", {}, data.size ? sizePart(app, data.size) : null, ...lists, labelsPart(app))),
      );
    },
    focus: () => element.focus(),
  };
}

/** How good the profile is, and how much there is. @param {App} app @param {SummaryData} data */
function headPart(app, data) {
  const { kind, unit, total } = app.sampleType();
  const texts = /** @type {Record<string, string>} */ ({ good: "This profile is good.", fair: "This profile can be used, with care.", poor: "This profile misleads." });
  const verdict = h("button.link", { text: texts[data.verdict] ?? "", onclick: () => app.set({ view: "info" }) });
  const count = data.explanation.observations;
  const samples = count > 0 ? ` in ${grouped(count)} ${count === 1 ? "sample" : "samples"}` : "";
  return h(
    "header.summary-head",
    {},
    h("h2", { text: `${valueLabel(total, unit)} ${kind}${samples}`, title: exactLabel(total, unit) }),
    h("p", {}, h(`span.mark.${data.verdict}`, { text: data.verdict === "good" ? "✓" : "!" }), verdict, data.faults.length > 0 && h("span.soft", { text: ` ${data.faults.join(" · ")}` })),
  );
}

/** What changed by more than noise, in sentences. @param {App} app @param {SummaryData} data */
function changesPart(app, data) {
  if (!data.changes) return null;
  const line = (/** @type {string} */ look) => (/** @type {Change} */ change) => {
    const rest = change.sentence.slice(change.function.length);
    return h("li", {}, h("button.link", { text: change.function, onclick: () => app.set({ view: "sandwich", pivot: change.function }) }), h(`span${look}`, { text: rest }));
  };
  const lines = [...data.changes.more.map(line(".more")), ...data.changes.less.map(line(".less"))];
  return h("section.changes", {}, h("h2", { text: "What changed" }), h("p", { text: data.changes.summary }), lines.length > 0 && h("ul.sentences", {}, ...lines));
}

/** @param {App} app @param {SummaryData} data */
function findingsPart(app, data) {
  const { findings } = data.explanation;
  const nothing = h("p.soft", { text: "Nothing stands out." });
  return h("section.stands-out", {}, h("h2", { text: "What stands out" }), ...(findings.length > 0 ? findings.map((finding) => findingPart(app, finding)) : [nothing]));
}

/** @param {App} app @param {StandsOut} finding */
function findingPart(app, finding) {
  const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(1)} %`;
  const [low, high] = finding.range;
  const share = finding.share > 0 ? h("span.share-text", { text: percent(finding.share), title: `with 95 % confidence between ${percent(low)} and ${percent(high)}` }) : null;
  const shown = shownBy(app.opened, finding);
  const look = () => app.set(shown);
  const place = (/** @type {Place} */ one) =>
    h("li", {}, h("span.number", { text: percent(one.share) }), h("button.link", { text: one.function, title: one.file === "" ? one.function : `${one.file}:${one.line}`, onclick: () => app.set({ view: "sandwich", pivot: one.function }) }), one.line > 0 && h("span.soft", { text: `${baseName(one.file)}:${one.line}` }));
  const sentence = (/** @type {string} */ text) => text.charAt(0).toUpperCase() + text.slice(1);
  return h(
    "article.finding",
    {},
    h("h3", {}, h("button.link", { text: sentence(finding.title), title: `Show it in ${VIEW_NAMES[shown.view ?? ""]}`, onclick: look }), share, finding.confidence === "low" && h("span.soft", { text: "uncertain: few samples" })),
    finding.places.length > 0 && h("ul.places", {}, ...finding.places.map(place)),
    h("details", {}, h("summary", { text: "Why, and what usually helps" }), h("p", { text: `${sentence(finding.why)}.` }), h("p", { text: `${sentence(finding.helps)}.` })),
  );
}

/** @type {Record<string, string>} */
const VIEW_NAMES = { flame: "the flame graph", sandwich: "the sandwich view", source: "the source", heap: "the heap view", tags: "the labels", timeline: "the timeline", info: "the quality of the profile" };

/**
 * The view that shows a finding; the first place of it where no view shows more.
 * @param {{about: any, code: boolean}} opened @param {{closer: Closer, places: Place[]}} finding @returns {Partial<State>}
 */
function shownBy(opened, { closer, places }) {
  const { about } = opened;
  const place = closer.function ?? places[0]?.function ?? "";
  /** @type {Partial<State>} */
  const fallback = place === "" ? { view: "flame", query: "", zoom: "" } : { view: "sandwich", pivot: place };
  if (closer.view === "yours") {
    const type = closer.sample_type ? { type: closer.sample_type } : {};
    return closer.focus ? { view: "flame", query: closer.focus, zoom: "", ...type } : { ...fallback, ...type };
  }
  if (closer.view === "threads") {
    if (about?.has_timeline) return { view: "timeline" };
    return (about?.label_keys ?? []).length > 0 ? { view: "tags" } : fallback;
  }
  if (closer.view === "lines") return opened.code ? { view: "source", pivot: place } : fallback;
  if (closer.view === "heap") return about?.is_heap ? { view: "heap" } : fallback;
  return { view: "info" };
}

/** @param {string} path */
function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** @param {App} app @param {List} list @param {string} threadKey */
function listPart(app, list, threadKey) {
  const all = Math.abs(list.total) || 1;
  const most = Math.max(1, ...list.rows.map((row) => Math.abs(row.flat)));
  const row = (/** @type {Row} */ one) =>
    h(
      "tr",
      {},
      h("td.number", {}, barCell(shareLabel(one.flat, all), Math.abs(one.flat) / most, exactLabel(one.flat, list.unit))),
      h("td.number", { text: valueLabel(one.flat, list.unit) }),
      h("td.summary-name", {}, h(`span.dot.${one.owner || "none"}`), h("button.link", { text: one.name, title: one.name, onclick: () => app.set(leadsTo(app, list, one, threadKey)) }), partsOf(one)),
    );
  const without = list.without_yours !== 0 && list.by === "yours" ? h("p.soft", { text: `${shareLabel(list.without_yours, all)} ran without any of your code on the stack.` }) : null;
  return h("section.summary-list", {}, h("h2", { text: list.title }), h("table", {}, h("tbody", {}, ...list.rows.map(row))), without);
}

/** What a row consists of. @param {Row} row */
function partsOf(row) {
  if (row.flat === 0 || row.parts.every((part) => part.name === "own code")) return null;
  const parts = row.parts.slice(0, 4).map((part) => `${part.name} ${Math.round((100 * part.value) / row.flat)}%`);
  return h("div.parts.soft", { text: parts.join(" · ") });
}

/** The view that shows a row. @param {App} app @param {List} list @param {Row} row @param {string} threadKey @returns {Partial<State>} */
function leadsTo(app, list, row, threadKey) {
  const { saved } = app.provider;
  const type = list.sample_type;
  if (list.by === "thread") {
    if (app.opened.about?.has_timeline && (saved || threadKey === "")) return { view: "timeline" };
    return saved ? { view: "tags" } : { view: "flame", zoom: "", filters: filtersWith(app, "tagfocus", `${threadKey}${exactPattern(row.name)}`) };
  }
  if (list.by === "crate") {
    const pattern = cratePattern(row.name);
    return saved ? { view: "flame", type, query: pattern } : { view: "flame", type, zoom: "", filters: filtersWith(app, "focus", pattern) };
  }
  // What ran without your code has no function to show.
  return row.owner === "" ? { view: "flame", type, zoom: "" } : { view: "sandwich", type, pivot: row.name };
}

/** @param {App} app @param {string} kind @param {string} text */
function filtersWith(app, kind, text) {
  return [...app.state.filters.filter((filter) => filter.kind !== kind || filter.text !== text), { kind, text }];
}

/** Matches the names and the files of a crate: `serde_json 1.0.149`. @param {string} label */
function cratePattern(label) {
  const [name, version = ""] = label.replace(/^\[|\]$/g, "").split(" ");
  if (name === "std") return "^<?(std|core|alloc)::|/rustc/|/library/(std|core|alloc)/";
  const crate = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/[_-]/g, "[_-]");
  const numbers = version === "" ? "" : `(-${version.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")})?`;
  return `\\b${crate}${numbers}(/|::|$)`;
}

/** How large the heap was: a line to point into. @param {App} app @param {Size} size */
function sizePart(app, size) {
  const [width, height] = [560, 120];
  const last = size.times[size.times.length - 1] || 1;
  const most = Math.max(1, ...size.sizes);
  const x = (/** @type {number} */ at) => (size.times[at] / last) * width;
  const y = (/** @type {number} */ at) => height - 4 - (size.sizes[at] / most) * (height - 10);
  const points = size.times.map((_, at) => `${x(at).toFixed(1)},${y(at).toFixed(1)}`);
  const namespace = "http://www.w3.org/2000/svg";
  const make = (/** @type {string} */ tag, /** @type {Record<string, string>} */ attributes) => {
    const element = document.createElementNS(namespace, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const dot = make("circle", { r: "3.5", class: "size-dot", visibility: "hidden" });
  const svg = make("svg", { class: "size-over-time", viewBox: `0 0 ${width} ${height}`, tabindex: "0", role: "img", "aria-label": `The size of the heap over time: at most ${valueLabel(most, size.unit)}. Left and right move, Enter shows what was held.` });
  svg.append(make("path", { class: "size-area", d: `M 0,${height} L ${points.join(" L ")} L ${width},${height} Z` }), make("polyline", { class: "size-line", points: points.join(" ") }), dot);
  const types = (app.opened.about?.types ?? []).map((/** @type {{kind: string}} */ type) => type.kind);
  // Only some profiles have what was held at each moment.
  const hasMoments = types.includes("snapshot_space");
  const held = hasMoments ? "; click to see who held it" : types.includes("peak_space") ? "; click to see who held memory at the peak" : "; click to see who holds memory";
  let chosen = size.sizes.indexOf(Math.max(...size.sizes));
  const note = h("p.soft");
  const point = (/** @type {number} */ at) => {
    chosen = Math.max(0, Math.min(size.times.length - 1, at));
    dot.setAttribute("cx", String(x(chosen)));
    dot.setAttribute("cy", String(y(chosen)));
    dot.setAttribute("visibility", "visible");
    note.textContent = `${valueLabel(size.sizes[chosen], size.unit)} at ${timeLabel(size.times[chosen])}${held}`;
  };
  const nearest = (/** @type {MouseEvent} */ event) => {
    const place = svg.getBoundingClientRect();
    const time = ((event.clientX - place.left) / Math.max(1, place.width)) * last;
    return size.times.reduce((best, found, at) => (Math.abs(found - time) < Math.abs(size.times[best] - time) ? at : best), 0);
  };
  const open = () => {
    if (!hasMoments) return app.set({ view: "flame", type: types.includes("peak_space") ? "peak_space" : app.state.type, zoom: "" });
    if (app.provider.saved) return app.set({ view: "timeline" });
    app.set({ view: "flame", type: "snapshot_space", zoom: "", time: `${size.times[chosen]}-${size.times[chosen] + 1}` });
  };
  svg.addEventListener("mousemove", (event) => {
    point(nearest(/** @type {MouseEvent} */ (event)));
    showTooltip(valueLabel(size.sizes[chosen], size.unit), `at ${timeLabel(size.times[chosen])}`, [], /** @type {MouseEvent} */ (event));
  });
  svg.addEventListener("mouseleave", hideTooltip);
  svg.addEventListener("click", (event) => {
    point(nearest(/** @type {MouseEvent} */ (event)));
    hideTooltip();
    open();
  });
  svg.addEventListener("keydown", (event) => {
    const key = /** @type {KeyboardEvent} */ (event).key;
    if (key === "ArrowLeft" || key === "ArrowRight") point(chosen + (key === "ArrowLeft" ? -1 : 1));
    else if (key === "Enter") open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  point(chosen);
  const section = h("section.summary-list", {}, h("h2", { text: "The heap’s size over time" }), note);
  section.insertBefore(svg, note);
  return section;
}

/** The labels there are; their view has the values. @param {App} app */
function labelsPart(app) {
  const keys = /** @type {string[]} */ (app.opened.about?.label_keys ?? []);
  if (keys.length === 0) return null;
  const link = (/** @type {string} */ key) => h("button.link", { text: key, onclick: () => app.set({ view: "tags" }) });
  return h("section.summary-list", {}, h("h2", { text: "Labels" }), h("p.label-keys", {}, ...keys.slice(0, 20).map(link)));
}
// view-tags.js
// Labels: the share of each value, with buttons to filter by a value or to group by a key.


/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{text: string, filter: string, weight: number, new: number, base: number}} TagValue */
/** @typedef {{key: string, weight: number, new: number, base: number, count: number, numeric: boolean, values: TagValue[]}} Tag */

/** @param {App} app */
function tagsView(app) {
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
  return h("section.tag", {}, h("header", {}, h("h2", { text: tag.key }), h("span.soft", { text: diff ? `${changeLabel(tag.new - tag.base, unit)} in total` : `${shareLabel(tag.weight, all)} of the total has it` }), h("span.spring"), group), h("table", {}, h("tbody", {}, ...rows)), h("p.soft", { text: more }));
}
// view-tree.js
// The call tree as a table with rows that open.


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
function treeView(app) {
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
// app.js
// The frame of the page: the open profile, the state in the URL, and the view that shows it.


/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./provider.js").ServerData | import("./provider.js").SavedData} Provider
 * @typedef {import("./provider.js").Opened} Opened
 * @typedef {import("./provider.js").Entry} Entry
 * @typedef {{element: HTMLElement, controls: HTMLElement[], update: (state: State) => Promise<void> | void,
 *   themeChanged?: () => void, printed?: (on: boolean) => void, focus?: () => void}} View
 * @typedef {{id: string, title: string, make: (app: App) => View, needs?: (opened: Opened) => boolean}} ViewKind
 */

/** @type {ViewKind[]} */
const VIEWS = [
  { id: "summary", title: "Summary", make: summaryView },
  { id: "flame", title: "Flame graph", make: flameView },
  { id: "top", title: "Top", make: topView },
  { id: "tree", title: "Call tree", make: treeView },
  { id: "sandwich", title: "Sandwich", make: sandwichView },
  { id: "graph", title: "Graph", make: graphView, needs: () => true },
  { id: "heap", title: "Heap", make: heapView, needs: (opened) => opened.about?.is_heap === true },
  { id: "source", title: "Source", make: sourceView, needs: (opened) => opened.code || opened.no_code !== "" },
  { id: "tags", title: "Labels", make: tagsView, needs: (opened) => (opened.about?.label_keys ?? []).length > 0 },
  { id: "timeline", title: "Timeline", make: timelineView, needs: (opened) => opened.about?.has_timeline === true },
  { id: "heatmap", title: "Heatmap", make: heatmapView, needs: (opened) => opened.about?.has_timeline === true },
  { id: "requests", title: "Requests", make: requestsView, needs: (opened) => opened.requests },
  { id: "info", title: "Info", make: infoView },
];

/** The views that need more data than the flame graph; a saved page may not have it. */
const MORE_VIEWS = ["summary", "graph", "heap", "source", "tags", "timeline", "heatmap", "requests"];

/** The status line while nothing is selected. */
const RESTING = "Click to zoom or to open folded frames, right-click for more, / to search, r for every frame, ? for all keys";

/** The message for actions that a saved page cannot do. */
const ONLY_LIVE = "A saved page cannot do this. Open the profile with “flamelet view”.";

/** @type {Record<string, string>} */
const FILTER_HELP = {
  focus: "keep stacks with a frame that matches",
  ignore: "drop stacks with a frame that matches",
  hide: "remove frames that match",
  show: "remove frames that do not match",
  showfrom: "remove frames above the first one that matches",
  tagfocus: "keep samples with a label that matches, such as route=/cart",
  tagignore: "drop samples with a label that matches",
  tagroot: "group by a label: its values become the roots",
};

class App {
  /** @param {HTMLElement} root @param {Provider} provider */
  constructor(root, provider) {
    this.root = root;
    this.provider = provider;
    this.state = { ...parseState(location.hash), ...(location.hash === "" ? provider.firstState() : {}) };
    /** @type {Opened} */
    this.opened = { about: null, entries: [], live: false, past: false, services: [], live_heap: [], live_waits: [], requests: false, let_go: 0, code: false, no_code: "", mine: [] };
    /** The function that the keys act on. */
    this.chosen = "";
    this.working = 0;
    /** Whether the search box has text that is not in the URL yet. */
    this.typing = false;
    this.searchSoon = debounced(150, () => this.searchChanged());
    this.viewId = "";
    /** The content of the toolbars, as text. */
    this.drawnBars = "";
    /** @type {View | null} */
    this.view = null;
    this.build();
    addEventListener("hashchange", () => this.addressChanged());
    addEventListener("keydown", (event) => this.key(event));
    this.applyTheme(localTheme());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme(localTheme()));
    // Print is always light, and scrolled content is printed in full.
    matchMedia("print").addEventListener("change", (media) => {
      this.view?.printed?.(media.matches);
      this.view?.themeChanged?.();
    });
  }

  /** Reads the open profile, then shows it. */
  async start() {
    const opening = this.waitFor(this.provider.open(this.state));
    if (this.state.view === "flame") this.askAhead();
    const opened = await opening;
    if (opened === null) return;
    this.opened = opened;
    this.rememberMine();
    void this.picker?.update(opened, this.state.service);
    document.title = opened.about ? `${opened.about.title} – flamelet` : "flamelet";
    await this.render();
  }

  /** Requests the flame graph first, since it takes longest, before it is known which other views there are. */
  askAhead() {
    const { state } = this;
    const width = (this.main?.clientWidth ?? innerWidth) * (devicePixelRatio || 1);
    const direction = state.inverted ? "callers" : "callees";
    // Errors are shown when the view makes the same request.
    this.provider.flame(state, { direction, pivot: "", zoom: state.zoom, width }).catch(() => {});
  }

  build() {
    this.typeSelect = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Sample type", onchange: () => this.set({ type: this.typeSelect?.value ?? "" }) }));
    this.totalElement = h("span.total");
    this.search = /** @type {HTMLInputElement} */ (h("input.search", { type: "search", placeholder: "Search   /", "aria-label": "Search functions by regular expression", spellcheck: "false", oninput: () => this.typed() }));
    this.matchedElement = h("span.matched", { role: "status" });
    this.titleElement = h("span.title");
    this.profileSelect = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Profile", hidden: true, onchange: () => this.set({ profile: this.profileSelect?.value ?? "", base: "", zoom: "", time: "" }) }));
    this.baseSelect = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Compare with", hidden: true, onchange: () => this.set({ base: this.baseSelect?.value ?? "", zoom: "", time: "" }) }));
    this.liveButtons = h("span.live", { hidden: true });
    this.themeButton = h("button.quiet", { title: "Dark or light (d)", "aria-label": "Dark or light", text: "◐", onclick: () => this.toggleTheme() });
    this.tabs = h("div.tabs", { role: "tablist", "aria-label": "Views", onkeydown: (/** @type {KeyboardEvent} */ event) => this.tabKey(event) });
    this.chips = h("div.chips");
    this.controls = h("div.controls");
    this.main = h("main.main", { tabindex: -1 });
    this.statusElement = h("footer.status");
    this.picker = timePicker(this);
    this.progress = h("div.progress", { role: "progressbar", "aria-label": "Working", hidden: true });
    replaceContent(
      this.root,
      h("header.bar", {}, h("span.brand", { text: "flamelet" }), this.titleElement, this.profileSelect, this.baseSelect, this.liveButtons, h("span.spring"),
        this.typeSelect, this.totalElement, h("span.search-box", {}, this.search, this.matchedElement),
        h("button.quiet", { title: "Undo (u)", "aria-label": "Undo", text: "↶", onclick: () => history.back() }),
        this.themeButton,
        h("button.quiet", { title: "Keys (?)", "aria-label": "Keys", text: "?", onclick: showHelp })),
      this.picker.element,
      h("div.bar.second", {}, this.tabs, h("span.spring"), this.controls),
      h("div.bar.third", {}, this.chips),
      this.progress,
      this.main,
      this.statusElement,
      h("div.for-readers", { id: "announcements", "aria-live": "polite" }),
    );
  }

  /** Changes the state: writes it to the URL, from which the page is then updated. @param {Partial<State>} patch @param {{replace?: boolean}} [how] */
  set(patch, how = {}) {
    const next = { ...this.state, ...patch };
    const hash = formatState(next);
    if (hash === formatState(this.state)) return;
    const before = this.state;
    this.state = next;
    if (how.replace) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.follow(before);
  }

  /** Shows the new state. For another profile, base or time range, its metadata is read first. @param {State} before */
  follow(before) {
    const { profile, base, time, service } = this.state;
    if (before.service !== service || before.profile !== profile || before.base !== base || before.time !== time) void this.start();
    else void this.render();
  }

  addressChanged() {
    const before = this.state;
    this.state = parseState(location.hash);
    this.follow(before);
  }

  /** Everything that the shown data depends on, as text. */
  dataKey() {
    return dataQuery(this.state).toString();
  }

  sampleType() {
    const types = this.opened.about?.types ?? [];
    const found = types.find((type) => type.kind === this.state.type);
    return found ?? types[this.opened.about?.default_type ?? 0] ?? { kind: "", unit: "", total: 0, base_total: 0, per_sample: 1 };
  }

  /** The total for percentages: everything in the profile, before filters. */
  total() {
    const type = this.sampleType();
    return Math.abs(type.total) + (this.isDiff() ? Math.abs(type.base_total) : 0);
  }

  isDiff() {
    return this.opened.about?.is_diff === true;
  }

  /** The search as a pattern, or null while it is empty or not a valid expression. @param {string} query */
  pattern(query) {
    try {
      return searchPattern(query);
    } catch {
      return null;
    }
  }

  async render() {
    if (!this.opened.about) return this.renderShelf();
    const kinds = VIEWS.filter((kind) => this.isOffered(kind));
    const wanted = this.state.view || this.firstView();
    const kind = kinds.find((candidate) => candidate.id === wanted) ?? kinds[0];
    this.renderBars(kinds, kind);
    if (this.viewId !== kind.id || !this.view) {
      this.viewId = kind.id;
      this.view = kind.make(this);
      this.view.element.setAttribute("role", "tabpanel");
      this.view.element.setAttribute("aria-label", kind.title);
      replaceContent(/** @type {HTMLElement} */ (this.main), this.view.element);
      replaceContent(/** @type {HTMLElement} */ (this.controls), ...this.view.controls);
    }
    this.errorElement?.remove();
    this.status(RESTING);
    void this.renderMatched();
    await this.view.update(this.state);
  }

  /** What is shown where the address does not say. */
  firstView() {
    return this.provider.saved ? "flame" : "summary";
  }

  /** @param {ViewKind} kind */
  isOffered(kind) {
    if (kind.needs && !kind.needs(this.opened)) return false;
    return !MORE_VIEWS.includes(kind.id) || this.provider.has(kind.id, this.state);
  }

  /** @param {ViewKind[]} kinds @param {ViewKind} current */
  renderBars(kinds, current) {
    const { about } = this.opened;
    if (!about || !this.typeSelect || !this.totalElement || !this.search) return;
    const type = this.sampleType();
    const types = about.types.map((other) => `${other.kind} ${other.missing ?? false}`).join();
    if (this.typeSelect.dataset.types !== types) replaceContent(this.typeSelect, ...about.types.map((other) => h("option", { value: other.kind, text: other.kind, disabled: other.missing })));
    this.typeSelect.dataset.types = types;
    this.typeSelect.value = type.kind;
    const change = this.isDiff() ? ` (${changeLabel(type.total - type.base_total, type.unit)})` : "";
    this.totalElement.textContent = valueLabel(type.total, type.unit) + change;
    this.totalElement.title = exactLabel(type.total, type.unit);
    if (this.titleElement) this.titleElement.textContent = about.title;
    if (!this.typing && document.activeElement !== this.search) this.search.value = this.state.query;
    const { filters, time, base, fold, open, mine } = this.state;
    const drawn = JSON.stringify([kinds.map((kind) => kind.id), current.id, filters, time, base, fold, open, mine, about.id, this.opened.entries, this.opened.let_go]);
    if (drawn === this.drawnBars) return;
    this.drawnBars = drawn;
    keepingFocus(/** @type {HTMLElement} */ (this.liveButtons), () => this.renderShelfSelects());
    const tab = (/** @type {ViewKind} */ kind, /** @type {number} */ at) => {
      const title = at < 9 ? `${kind.title} (${at + 1})` : kind.title;
      return h("button.tab", { role: "tab", "aria-selected": kind === current, tabindex: kind === current ? 0 : -1, title, text: kind.title, onclick: () => this.set({ view: kind.id }) });
    };
    const tabs = /** @type {HTMLElement} */ (this.tabs);
    keepingFocus(tabs, () => replaceContent(tabs, ...kinds.map(tab)));
    keepingFocus(/** @type {HTMLElement} */ (this.chips), () => this.renderChips());
  }

  /** The arrow keys move between the tabs. @param {KeyboardEvent} event */
  tabKey(event) {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const tabs = [.../** @type {HTMLElement} */ (this.tabs).querySelectorAll("button")];
    const at = tabs.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (step === 0 || at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }

  renderChips() {
    const { filters, time, fold, base } = this.state;
    const saved = this.provider.saved;
    const chips = filters.map((filter, at) => this.chip(`${filter.kind}:`, filter.text, () => this.set({ filters: filters.filter((_, other) => other !== at), zoom: "" })));
    if (time !== "") chips.push(this.chip("time:", timeText(time), () => this.setTime("")));
    if (base.startsWith("@")) chips.push(this.chip("against time:", timeText(base.slice(1)), () => this.set({ base: "", zoom: "" })));
    const folding = (/** @type {string} */ part, /** @type {string} */ text, /** @type {string} */ title) => h("button.toggle", { text, "aria-pressed": fold.split(",").includes(part), title, onclick: () => this.toggleFold(part) });
    const generics = folding("generics", "Fold generics", "Count Vec<T>::push as one function for every T (n)");
    const everything = folding("all", "Show everything", "Show every frame, instead of one thin box for the frames that lead from the start of a thread to your code, or from one of your functions to the next (r)");
    const opened = openPaths(this.state).length;
    const close = opened > 0 ? h("button.toggle", { text: `Close ${opened} opened`, title: "Fold the chains that were opened", onclick: () => this.set({ open: "", zoom: "" }) }) : null;
    const add = h("button.toggle", { text: "+ Filter", title: "Add a filter (a)", onclick: () => this.askForFilter() });
    const hint = saved ? h("span.soft", { text: "This is a saved page. For filters, time ranges and source, open the profile with “flamelet view”." }) : null;
    replaceContent(/** @type {HTMLElement} */ (this.chips), ...(saved ? [] : [add, ...chips]), hint, h("span.spring"), saved ? null : this.mineField(), saved ? null : generics, close, everything);
  }

  /** @param {string} part */
  toggleFold(part) {
    if (this.provider.saved && part !== "all") return flash(ONLY_LIVE);
    const before = this.state.fold.split(",").filter((other) => other !== "");
    const parts = before.includes(part) ? before.filter((other) => other !== part) : [...before, part];
    this.set({ fold: parts.sort().join(","), open: "", zoom: "" });
  }

  /** Where a reader says which code is theirs. */
  mineField() {
    const given = this.opened.mine.join(" | ");
    const field = /** @type {HTMLInputElement} */ (h("input", { type: "text", size: 16, value: this.state.mine, placeholder: given === "" ? "by paths and names" : given, spellcheck: "false", "aria-label": "Your code, as a regular expression", title: "Functions whose name or file matches this regular expression are yours; empty for what paths and names say" }));
    field.addEventListener("change", () => this.setMine(field.value));
    return h("label.mine", {}, h("span.soft", { text: "Your code" }), field);
  }

  /** Remembers what is the reader’s, for profiles of the same program. @param {string} mine */
  setMine(mine) {
    try {
      if (mine === "") localStorage.removeItem(this.mineKey());
      else localStorage.setItem(this.mineKey(), mine);
    } catch {
      // Without storage it lasts as long as the address does.
    }
    this.set({ mine, open: "", zoom: "" });
  }

  /** Where `mine` is kept: by the program that was profiled, else by the name of the profile. */
  mineKey() {
    const about = this.opened.about;
    return `flamelet-mine ${about?.mappings?.[0]?.file || about?.title || ""}`;
  }

  /** What was remembered for this program is used again. */
  rememberMine() {
    if (this.provider.saved || this.state.mine !== "" || !this.opened.about) return;
    let mine = "";
    try {
      mine = localStorage.getItem(this.mineKey()) ?? "";
    } catch {
      // No storage.
    }
    if (mine !== "") {
      this.state = { ...this.state, mine };
      history.replaceState(null, "", formatState(this.state));
    }
  }

  /** @param {string} kind @param {string} text @param {() => void} remove */
  chip(kind, text, remove) {
    return h("span.chip", {}, h("span.chip-kind", { text: kind }), h("span.chip-text", { text, title: text }), h("button.quiet", { text: "✕", "aria-label": `Remove ${kind} ${text}`, onclick: remove }));
  }

  askForFilter() {
    if (this.provider.saved) return flash(ONLY_LIVE);
    const kind = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Kind of filter" }, ...FILTER_KINDS.map((name) => h("option", { value: name, text: name }))));
    const text = /** @type {HTMLInputElement} */ (h("input", { type: "text", "aria-label": "Regular expression", placeholder: "regular expression", spellcheck: "false" }));
    const help = h("p.soft", { text: FILTER_HELP.focus });
    kind.addEventListener("change", () => (help.textContent = FILTER_HELP[kind.value]));
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      dialog.close();
      if (text.value !== "") this.addFilter(kind.value, text.value);
    };
    const form = h("form.filter-form", { onsubmit: submit }, kind, text, h("button.primary", { type: "submit", text: "Add" }), help);
    const dialog = showDialog("Add a filter", form);
    text.focus();
  }

  /** @param {string} kind @param {string} text */
  addFilter(kind, text) {
    if (this.provider.saved) return flash(ONLY_LIVE);
    const same = this.state.filters.some((filter) => filter.kind === kind && filter.text === text);
    if (!same) this.set({ filters: [...this.state.filters, { kind, text }], zoom: "" });
  }

  /** Selects a time range, which every view uses. @param {string} time */
  setTime(time) {
    if (this.provider.saved) return flash(ONLY_LIVE);
    this.set({ time, zoom: "" });
  }

  typed() {
    this.typing = true;
    this.searchSoon();
  }

  searchChanged() {
    this.typing = false;
    const query = this.search?.value ?? "";
    this.search?.classList.toggle("wrong", query !== "" && this.pattern(query) === null);
    this.set({ query }, { replace: true });
  }

  async renderMatched() {
    const place = /** @type {HTMLElement} */ (this.matchedElement);
    const { query } = this.state;
    if (this.pattern(query) === null) {
      place.textContent = query === "" ? "" : "invalid expression";
      return;
    }
    try {
      const matched = await this.provider.matched(this.state);
      if (this.state.query !== query) return;
      const folded = matched.folded > 0 ? `, ${shareLabel(matched.folded, this.total())} folded` : "";
      place.textContent = `${shareLabel(matched.weight, this.total())} matched${folded}`;
      place.title = folded === "" ? "" : "A part of it matches only in frames that are folded: r shows them";
    } catch (error) {
      place.textContent = "invalid expression";
      place.title = /** @type {Error} */ (error).message;
    }
  }

  /** @param {string} name @param {{clientX: number, clientY: number}} place */
  functionMenu(name, place) {
    this.chosen = name;
    const filter = (/** @type {string} */ kind) => () => this.addFilter(kind, exactPattern(name));
    const server = !this.provider.saved;
    /** @type {(import("./overlay.js").MenuItem | false)[]} */
    const items = [
      { label: "Copy name", hint: "c", run: () => this.copyChosen() },
      { label: "Search for it", run: () => this.set({ query: exactPattern(name) }) },
      { label: "Callers and callees", hint: "s", run: () => this.set({ view: "sandwich", pivot: name }) },
      this.opened.code && { label: "Source and instructions", hint: "e", run: () => this.set({ view: "source", pivot: name }) },
      server && null,
      server && { label: "Focus on it", hint: "f", run: filter("focus") },
      server && { label: "Ignore stacks with it", hint: "o", run: filter("ignore") },
      server && { label: "Hide its frames", hint: "h", run: filter("hide") },
      server && { label: "Show from it on", run: filter("showfrom") },
    ];
    showMenu(items.filter((item) => item !== false), place);
  }

  async copyChosen() {
    if (this.chosen === "") return;
    await copyText(this.chosen);
    flash("Name copied");
  }

  /** @param {string} text */
  status(text) {
    if (this.statusElement) this.statusElement.textContent = text;
  }

  /**
   * Waits for an answer, with a progress bar if it takes long. Shows an error and returns null if it fails.
   * @template T @param {Promise<T>} work @param {AbortSignal} [signal] @returns {Promise<T | null>}
   */
  async waitFor(work, signal) {
    const progress = /** @type {HTMLElement} */ (this.progress);
    this.working++;
    this.main?.setAttribute("aria-busy", "true");
    const timer = setTimeout(() => (progress.hidden = false), 200);
    try {
      return await work;
    } catch (error) {
      if (!signal?.aborted) this.showError(/** @type {Error} */ (error).message);
      return null;
    } finally {
      clearTimeout(timer);
      if (--this.working === 0) {
        progress.hidden = true;
        // The caller draws the answer first; only then is the page marked as idle.
        setTimeout(() => this.main?.setAttribute("aria-busy", String(this.working > 0)));
      }
    }
  }

  /** @param {string} text */
  showError(text) {
    this.errorElement?.remove();
    this.errorElement = h("div.error", { role: "alert" }, h("span", { text }), h("button.quiet", { text: "✕", "aria-label": "Dismiss", onclick: () => this.errorElement?.remove() }));
    this.main?.before(this.errorElement);
  }

  /** The profiles of a folder, or of a live service before its first profile. */
  renderShelf() {
    this.renderShelfSelects();
    const { entries, live } = this.opened;
    const row = (/** @type {Entry} */ entry) => h("button.shelf-row", { onclick: () => this.set({ profile: entry.id }) }, h("span", { text: nameInService(entry) }), h("span.soft", { text: entryDetail(entry) }));
    const services = byService(entries);
    const rows = services.flatMap(([service, own]) => [...(service !== "" || services.length > 1 ? [h("h3.shelf-service", { text: service || "in this folder" })] : []), ...own.map(row)]);
    const nothing = live ? "No profile yet. Take one with the buttons above." : "This folder has no profiles.";
    this.viewId = "";
    this.drawnBars = "";
    replaceContent(/** @type {HTMLElement} */ (this.tabs));
    replaceContent(/** @type {HTMLElement} */ (this.main), h("div.shelf", {}, h("h2", { text: "Choose a profile" }), ...(rows.length > 0 ? rows : [h("p.soft", { text: nothing })])));
  }

  renderShelfSelects() {
    const { entries, live } = this.opened;
    const option = (/** @type {string} */ value, /** @type {string} */ text, /** @type {boolean} */ selected) => h("option", { value, text, selected });
    /** The newest first, under the name of their service. @param {Entry[]} listed @param {(entry: Entry) => HTMLElement} make */
    const options = (listed, make) => byService(listed).flatMap(([service, own]) => (service === "" ? own.map(make) : [h("optgroup", { label: service }, ...own.map(make))]));
    const several = entries.length > 1;
    if (!this.profileSelect || !this.baseSelect || !this.liveButtons || !this.titleElement) return;
    const current = this.opened.about?.id ?? this.state.profile;
    const kind = entries.find((entry) => entry.id === current)?.kind ?? "";
    const bases = entries.filter((entry) => entry.id !== current && entry.kind === kind);
    this.profileSelect.hidden = !several;
    this.baseSelect.hidden = bases.length === 0;
    this.titleElement.hidden = several;
    if (several) {
      replaceContent(this.profileSelect, ...(current === "" ? [option("", "choose…", true)] : []), ...options(entries, (entry) => option(entry.id, nameInService(entry), entry.id === current)));
      const older = this.opened.let_go > 0 ? [h("option", { disabled: true, text: `${this.opened.let_go} older profiles were dropped` })] : [];
      this.profileSelect.append(...older);
      replaceContent(this.baseSelect, option("", "compare with…", this.state.base === ""), ...options(bases, (entry) => option(entry.id, `against ${nameInService(entry)}`, entry.id === this.state.base)));
    }
    this.liveButtons.hidden = !live;
    const at = entries.findIndex((entry) => entry.id === this.opened.about?.id);
    const before = entries.slice(0, Math.max(0, at)).reverse().find((entry) => entry.kind === entries[at].kind);
    const heap = h("button.toggle", { text: "Heap…", "aria-haspopup": "menu", title: "Take a heap profile", onclick: () => this.takeMenu(heap, this.opened.live_heap, HEAP_QUESTIONS) });
    const waits = h("button.toggle", { text: "Waiting…", "aria-haspopup": "menu", title: "Take a profile of locks or awaits", onclick: () => this.takeMenu(waits, this.opened.live_waits, WAIT_QUESTIONS) });
    replaceContent(
      this.liveButtons,
      h("button.primary", { text: "Take a 10 s CPU profile", onclick: () => this.take(10, "") }),
      this.opened.live_heap.length > 0 && heap,
      this.opened.live_waits.length > 0 && waits,
      before !== undefined && this.state.base === "" && h("button.toggle", { text: "Compare with the one before", onclick: () => this.set({ base: before.id, zoom: "", time: "" }) }),
    );
  }

  /** @param {HTMLElement} button @param {string[]} names @param {Record<string, string>} labels */
  takeMenu(button, names, labels) {
    const items = names.map((what) => ({ label: labels[what] ?? what, run: () => void this.take(10, what) }));
    const { left, bottom } = button.getBoundingClientRect();
    showMenu(items, { clientX: left, clientY: bottom + 2 });
  }

  /**
   * @param {number} seconds @param {string} what the endpoint of the profile to take; empty for a CPU profile
   * @param {import("./state.js").Filter[]} [filters] which part of it to show
   */
  async take(seconds, what, filters = []) {
    flash(["", "growth", "wall"].includes(what) ? `Taking a profile for ${seconds} s …` : "Taking a profile …");
    const entry = await this.waitFor(this.provider.take(seconds, what));
    if (!entry) return;
    const other = ["heap", "requests"].includes(this.state.view) ? "flame" : this.state.view;
    const view = what in HEAP_QUESTIONS ? "heap" : what === "wall" ? "timeline" : other;
    this.set({ profile: entry.id, view, type: "", base: "", zoom: "", time: "", filters });
  }

  toggleTheme() {
    const dark = document.documentElement.dataset.theme === "dark";
    try {
      localStorage.setItem("flamelet-theme", dark ? "light" : "dark");
    } catch {
      // A page opened from disk may have no storage: the choice lasts until reload.
    }
    this.applyTheme(dark ? "light" : "dark");
  }

  /** @param {string} theme */
  applyTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.view?.themeChanged?.();
    this.picker?.themeChanged();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("dialog, .menu")) return;
    if (event.key === "Escape") {
      if (target === this.search) /** @type {HTMLElement} */ (this.main).focus();
      else if (this.state.zoom !== "") this.set({ zoom: "" });
      return;
    }
    if (target.matches("input, select, textarea")) return;
    const action = this.actions()[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** The action of each key. @returns {Record<string, () => void>} */
  actions() {
    const onChosen = (/** @type {() => void} */ act) => () => (this.chosen === "" ? flash("Select a function first") : act());
    const filter = (/** @type {string} */ kind) => onChosen(() => this.addFilter(kind, exactPattern(this.chosen)));
    const kinds = VIEWS.filter((kind) => this.isOffered(kind));
    const byNumber = Object.fromEntries(kinds.slice(0, 9).map((kind, at) => [String(at + 1), () => this.set({ view: kind.id })]));
    return {
      ...byNumber,
      "?": showHelp,
      "/": () => (this.search?.focus(), this.search?.select()),
      u: () => history.back(),
      d: () => this.toggleTheme(),
      t: () => this.nextType(),
      a: () => this.askForFilter(),
      x: () => this.set({ filters: this.state.filters.slice(0, -1) }),
      i: () => this.set({ inverted: !this.state.inverted, zoom: "" }),
      g: () => this.set({ upward: !this.state.upward }),
      r: () => this.toggleFold("all"),
      n: () => this.toggleFold("generics"),
      "0": () => this.set({ zoom: "" }),
      f: filter("focus"),
      o: filter("ignore"),
      h: filter("hide"),
      s: onChosen(() => this.set({ view: "sandwich", pivot: this.chosen })),
      e: onChosen(() => (this.opened.code ? this.set({ view: "source", pivot: this.chosen }) : flash(this.opened.no_code || "There is no source to show"))),
      c: () => void this.copyChosen(),
      ArrowDown: () => this.view?.focus?.(),
    };
  }

  nextType() {
    const types = (this.opened.about?.types ?? []).filter((type) => !type.missing);
    const at = types.findIndex((type) => type.kind === this.sampleType().kind);
    if (types.length > 1) this.set({ type: types[(at + 1) % types.length].kind });
  }
}

/** @param {string} time `from-to` in nanoseconds */
function timeText(time) {
  const [from, to] = time.split("-").map(Number);
  return `${timeLabel(from)} to ${timeLabel(to)}`;
}

/** The theme that the user chose, else the system's. */
function localTheme() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("flamelet-theme");
  } catch {
    // Some browsers have no storage for pages opened from disk.
  }
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
// main.js
// Starts the page, with the data embedded in it or with a server.


const savedElement = document.getElementById("flamelet-data");
const provider = savedElement ? new SavedData(JSON.parse(savedElement.textContent ?? "")) : new ServerData();
// The server has set a cookie; the token in the URL must not stay in the history or on the screen.
if (location.search !== "" && !savedElement) history.replaceState(null, "", location.pathname + location.hash);
const root = document.getElementById("app");
if (root) void new App(root, provider).start();
})();
