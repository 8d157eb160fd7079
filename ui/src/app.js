// @ts-check
// The frame of the page: the open profile, the state in the URL, and the view that shows it.

import { copyText, debounced, h, keepingFocus, replaceContent } from "./dom.js";
import { flash, showDialog, showHelp, showMenu } from "./overlay.js";
import { timePicker } from "./picker.js";
import { byService, entryDetail, nameInService } from "./provider.js";
import { FILTER_KINDS, HEAP_QUESTIONS, WAIT_QUESTIONS, dataQuery, exactPattern, formatState, openPaths, parseState, searchPattern } from "./state.js";
import { changeLabel, exactLabel, shareLabel, timeLabel, valueLabel } from "./units.js";
import { flameView } from "./view-flame.js";
import { graphView } from "./view-graph.js";
import { heapView } from "./view-heap.js";
import { heatmapView } from "./view-heatmap.js";
import { infoView } from "./view-info.js";
import { requestsView } from "./view-requests.js";
import { sandwichView } from "./view-sandwich.js";
import { sourceView } from "./view-source.js";
import { summaryView } from "./view-summary.js";
import { tagsView } from "./view-tags.js";
import { timelineView } from "./view-timeline.js";
import { topView } from "./view-top.js";
import { treeView } from "./view-tree.js";

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

export class App {
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
    this.typeSelect = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Sample type", hidden: true, onchange: () => this.set({ type: this.typeSelect?.value ?? "" }) }));
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
    this.typeSelect.hidden = false;
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
    const field = /** @type {HTMLInputElement} */ (h("input", { type: "text", size: 16, value: this.state.mine, placeholder: given === "" ? "by paths and names" : given, spellcheck: "false", "aria-label": "Your code, as a regular expression", title: "Functions whose name or file matches this regular expression are yours; leave it empty to decide by paths and names" }));
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
    const say = (/** @type {string} */ text, title = "", isLong = false) => {
      place.textContent = text;
      place.title = title;
      place.classList.toggle("long", isLong);
    };
    if (this.pattern(query) === null) return say(query === "" ? "" : "invalid expression");
    try {
      const matched = await this.provider.matched(this.state);
      if (this.state.query !== query) return;
      const folded = matched.folded > 0 ? `, ${shareLabel(matched.folded, this.total())} folded` : "";
      const title = folded === "" ? "" : "Some matches are in folded frames: press r to show them";
      say(`${shareLabel(matched.weight, this.total())} matched${folded}`, title, folded !== "");
    } catch (error) {
      say("invalid expression", /** @type {Error} */ (error).message);
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
