// @ts-check
// Requests: what each route of a live service spends its time on, for all requests and for the slowest.

import { h, replaceContent } from "./dom.js";
import { routeSides } from "./request-sides.js";
import { exactPattern } from "./state.js";
import { exactLabel, grouped, valueLabel } from "./units.js";

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
export function requestsView(app) {
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
    replaceContent(table, legendPart(), answer.routes.length > 0 ? tablePart(app, answer.routes, compare) : h("p.empty", { text: "No requests yet. The service counts those that pass flamelet::axum::layer." }));
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
export function partsText(sum) {
  const share = (/** @type {number} */ nanos) => `${((100 * nanos) / Math.max(1, sum.wall_ns)).toFixed(1)} %`;
  return REQUEST_PARTS.map(([field, name]) => `${name} ${share(sum[field])}`).join(", ");
}

/** The filters for the samples of a route, or of one part of its time. @param {string} route @param {string} part */
export function routeFilters(route, part) {
  const filter = (/** @type {string} */ label, /** @type {string} */ text) => ({ kind: "tagfocus", text: `${label}=${exactPattern(text)}` });
  return part === "" ? [filter("route", route)] : [filter("route", route), filter("part", part)];
}
