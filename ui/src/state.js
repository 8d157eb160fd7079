// @ts-check
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

export const FILTER_KINDS = ["focus", "ignore", "hide", "show", "showfrom", "tagfocus", "tagignore", "tagroot"];

/** The heap profiles of a live service, by the name of their endpoint. @type {Record<string, string>} */
export const HEAP_QUESTIONS = {
  heap: "Memory in use and allocated",
  lifetime: "Lifetimes of freed memory",
  growth: "Growth over 10 s",
  freed: "Where memory is freed",
  peak: "Memory in use at the peak",
};

/** The profiles of waiting of a live service, by the name of their endpoint. @type {Record<string, string>} */
export const WAIT_QUESTIONS = {
  await: "What tasks await",
  block: "Where threads wait for locks",
  mutex: "Who holds the locks",
  blocked: "Who blocks the executor",
  wall: "Where all threads are, for 10 s",
};

/** @type {Readonly<State>} */
export const FIRST_STATE = Object.freeze({
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
export function parseState(hash) {
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
export function formatState(state) {
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
export function dataQuery(state) {
  const params = new URLSearchParams();
  for (const [field, key] of STATE_TEXTS) {
    const data = ["type", "time", "profile", "base", "fold", "mine"].includes(field);
    if (data && state[field] !== "") params.append(key, state[field]);
  }
  for (const { kind, text } of state.filters) params.append("f", `${kind}:${text}`);
  return params;
}

/** Whether every frame is shown, and no chain of frames is one box. @param {State} state */
export function showsEverything(state) {
  return state.fold.split(",").includes("all");
}

/** The paths of the chains that are open. @param {State} state @returns {string[]} */
export function openPaths(state) {
  return state.open === "" ? [] : state.open.split(",");
}

/** A name as a regular expression that matches it alone. @param {string} name */
export function exactPattern(name) {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

/**
 * A search pattern: case-insensitive unless it has capitals. Null for an empty search.
 * @param {string} query @returns {RegExp | null}
 */
export function searchPattern(query) {
  if (query === "") return null;
  return new RegExp(query, query === query.toLowerCase() ? "i" : "");
}

/** @param {string} path @returns {number[]} */
export function zoomKeys(path) {
  return path === "" ? [] : path.split(".").map((key) => parseInt(key, 36));
}

/** @param {number[]} keys @returns {string} */
export function zoomPath(keys) {
  return keys.map((key) => key.toString(36)).join(".");
}
