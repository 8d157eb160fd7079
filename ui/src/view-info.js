// @ts-check
// Facts about the profile, and how far it can be trusted.

import { h, replaceContent } from "./dom.js";
import { grouped, timeLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {{verdict: "good" | "fair" | "poor", faults: string[]}} Judged what `flamelet info` says */
/** @typedef {{level: "good" | "fair" | "poor", text: string}} Finding */

/**
 * What the quality figures mean for the user.
 * @param {Record<string, any>} about @param {boolean} isJudged whether a verdict says if there are enough observations
 * @returns {Finding[]}
 */
export function findings(about, isJudged) {
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
  if (!(quality.achieved_hertz > 0)) return `${quality.asked_hertz} samples a second requested`;
  return `${Math.round(quality.achieved_hertz)} samples a second; ${quality.asked_hertz} requested`;
}

/** @param {App} app */
export function infoView(app) {
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
  const words = { good: "This profile is good.", fair: "This profile is usable, with reservations.", poor: "This profile is too poor to rely on." };
  const rows = list.map((one) => h(`li.${one.level}`, {}, h("span.mark", { text: { good: "✓", fair: "!", poor: "✕" }[one.level], "aria-label": one.level }), one.text));
  const faults = (judged?.faults ?? []).map((fault) => h("p.comment", { text: fault }));
  return h("section", {}, h("h2", { text: "Quality" }), h("p.verdict", { text: words[judged?.verdict ?? worst] }), ...faults, h("ul.findings", {}, ...rows));
}

/** The rows of the table of facts. @param {Record<string, any>} about @returns {[string, string][]} */
export function facts(about) {
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
