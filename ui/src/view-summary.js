// @ts-check
// What stands out, your heaviest functions and what they consist of, the heaviest labels: each line leads to the view that shows it.

import { h, replaceContent } from "./dom.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { exactPattern } from "./state.js";
import { barCell } from "./table.js";
import { exactLabel, grouped, shareLabel, timeLabel, valueLabel } from "./units.js";
import { listName } from "./view-top.js";

/** How many letters of a name there is room for. */
const SUMMARY_NAME = 70;

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./view-tags.js").Tag} Tag */
/** @typedef {{name: string, value: number}} Part */
/** @typedef {{name: string, owner: string, flat: number, cum: number, parts: Part[]}} Row */
/** @typedef {{by: string, title: string, sample_type: string, unit: string, total: number, without_yours: number, rows: Row[]}} List */
/** @typedef {{function: string, file: string, line: number, share: number}} Place */
/** The view that shows a finding. @typedef {{view: string, focus?: string, sample_type?: string, function?: string}} Closer */
/** @typedef {{rule: string, title: string, share: number, range: [number, number], confidence: string, places: Place[], why: string, helps: string, closer: Closer}} StandsOut */
/** @typedef {{times: number[], sizes: number[], unit: string}} Size */
/** `sentence` begins with the name of the function. @typedef {{function: string, sentence: string}} Change */
/** @typedef {{summary: string, more: Change[], less: Change[]}} Changes */
/** @typedef {{total: number, keys: Tag[]}} Labels */
/** @typedef {{verdict: string, faults: string[], explanation: {observations: number, findings: StandsOut[]}, lists: List[], labels: Labels, thread_key: string, size?: Size, changes?: Changes, notes?: string[]}} SummaryData */

/** @param {App} app */
export function summaryView(app) {
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
        h("div.summary-columns", {}, h("div.summary-column", {}, changesPart(app, data), findingsPart(app, data)), h("div.summary-column", {}, data.size ? sizePart(app, data.size) : null, ...lists, labelsPart(app, data.labels))),
      );
    },
    focus: () => element.focus(),
  };
}

/** How good the profile is, and how much there is. @param {App} app @param {SummaryData} data */
function headPart(app, data) {
  const { kind, unit, total } = app.sampleType();
  const texts = /** @type {Record<string, string>} */ ({ good: "This profile is good.", fair: "This profile is usable, with reservations.", poor: "This profile is too poor to rely on." });
  const verdict = h("button.link", { text: texts[data.verdict] ?? "", onclick: () => app.set({ view: "info" }) });
  const count = data.explanation.observations;
  const samples = count > 0 ? ` in ${grouped(count)} ${count === 1 ? "sample" : "samples"}` : "";
  return h(
    "header.summary-head",
    {},
    h("h2", { text: `${valueLabel(total, unit)} ${kind}${samples}`, title: exactLabel(total, unit) }),
    (data.notes ?? []).length > 0 && h("p.summary-notes", { text: (data.notes ?? []).join(" · ") }),
    h("p", {}, h(`span.mark.${data.verdict}`, { text: data.verdict === "good" ? "✓" : "!" }), verdict, data.faults.length > 0 && h("span.soft", { text: ` ${data.faults.map(sentence).join(" · ")}` })),
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
    h("li", {}, h("span.number", { text: percent(one.share) }), h("button.link", { text: listName(one.function, SUMMARY_NAME), title: one.file === "" ? one.function : `${one.function}\n${one.file}:${one.line}`, onclick: () => app.set({ view: "sandwich", pivot: one.function }) }), one.line > 0 && h("span.soft", { text: `${baseName(one.file)}:${one.line}` }));
  return h(
    "article.finding",
    {},
    h("h3", {}, h("button.link", { text: sentence(finding.title), title: `Show it in ${VIEW_NAMES[shown.view ?? ""]}`, onclick: look }), share, finding.confidence === "low" && h("span.soft", { text: "uncertain: few samples" })),
    finding.places.length > 0 && h("ul.places", {}, ...finding.places.map(place)),
    h("details", {}, h("summary", { text: "Why, and what usually helps" }), h("p", { text: `${sentence(finding.why)}.` }), h("p", { text: `${sentence(finding.helps)}.` })),
  );
}

/** @param {string} text */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @type {Record<string, string>} */
const VIEW_NAMES = { flame: "the flame graph", sandwich: "the sandwich view", source: "the source", heap: "the heap view", tags: "the labels", timeline: "the timeline", info: "the quality of the profile" };

/**
 * The view that shows a finding; the first place of it where no view shows more.
 * @param {{about: any, code: boolean}} opened @param {{closer: Closer, places: Place[]}} finding @returns {Partial<State>}
 */
export function shownBy(opened, { closer, places }) {
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
      h("td.summary-name", {}, h(`span.dot.${one.owner || "none"}`), h("button.link", { text: listName(one.name, SUMMARY_NAME), title: one.name, onclick: () => app.set(leadsTo(app, list, one, threadKey)) }), partsOf(one)),
    );
  const without = list.without_yours !== 0 && list.by === "yours" ? h("p.soft", { text: `${shareLabel(list.without_yours, all)} has none of your code on the stack.` }) : null;
  return h("section.summary-list", {}, h("h2", { text: list.title }), h("table", {}, h("tbody", {}, ...list.rows.map(row))), without);
}

/** What a row consists of. @param {Row} row */
function partsOf(row) {
  if (row.flat === 0 || row.parts.every((part) => part.name === "own code")) return null;
  const share = (/** @type {Part} */ part) => Math.round((100 * part.value) / row.flat);
  const parts = row.parts.slice(0, 4).flatMap((part) => (share(part) === 0 ? [] : [`${part.name} ${share(part)}%`]));
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
export function cratePattern(label) {
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
  // The line has the size a few times a second; the peak is exact.
  const peak = (app.opened.about?.types ?? []).find((/** @type {{kind: string}} */ type) => type.kind === "peak_space")?.total ?? 0;
  const between = peak > most ? `; ${valueLabel(peak, size.unit)} at the peak` : "";
  let chosen = size.sizes.indexOf(Math.max(...size.sizes));
  const note = h("p.soft");
  const point = (/** @type {number} */ at) => {
    chosen = Math.max(0, Math.min(size.times.length - 1, at));
    dot.setAttribute("cx", String(x(chosen)));
    dot.setAttribute("cy", String(y(chosen)));
    dot.setAttribute("visibility", "visible");
    note.textContent = `${valueLabel(size.sizes[chosen], size.unit)} at ${timeLabel(size.times[chosen])}${between}${held}`;
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

/** The heaviest values of some labels; the others by name. @param {App} app @param {Labels} labels */
function labelsPart(app, labels) {
  const keys = /** @type {string[]} */ (app.opened.about?.label_keys ?? []);
  if (keys.length === 0) return null;
  const others = keys.filter((key) => !labels.keys.some((label) => label.key === key)).slice(0, 20);
  const link = (/** @type {string} */ key) => h("button.link", { text: key, onclick: () => app.set({ view: "tags" }) });
  return h("section.summary-list", {}, h("h2", { text: "Labels" }), ...labels.keys.map((label) => labelPart(app, label, labels.total)), others.length > 0 && h("p.label-keys", {}, ...others.map(link)));
}

/** @param {App} app @param {Tag} label @param {number} total */
function labelPart(app, label, total) {
  const { unit } = app.sampleType();
  const most = Math.max(1, ...label.values.map((value) => value.weight));
  const rows = label.values.map((value) => {
    const leadsTo = app.provider.saved ? { view: "tags" } : { view: "flame", zoom: "", filters: filtersWith(app, "tagfocus", value.filter) };
    return h(
      "tr",
      {},
      h("td.number", {}, barCell(shareLabel(value.weight, total || 1), value.weight / most, exactLabel(value.weight, unit))),
      h("td.number", { text: valueLabel(value.weight, unit) }),
      h("td.summary-name", {}, h("button.link", { text: value.text, title: `Show only samples with this label: ${value.text}`, onclick: () => app.set(leadsTo) })),
    );
  });
  const more = label.count - label.values.length;
  return h(
    "div.summary-label",
    {},
    h("h3", {}, h("button.link", { text: label.key, title: "Show all its values", onclick: () => app.set({ view: "tags" }) }), more > 0 && h("span.soft", { text: ` ${grouped(more)} more ${more === 1 ? "value" : "values"}` })),
    h("table", {}, h("tbody", {}, ...rows)),
  );
}
