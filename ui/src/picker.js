// @ts-check
// The time picker: CPU time over a service's history. Dragging selects a range; the last two ranges can be compared.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { labelRow } from "./labels.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { movedSpan } from "./view-timeline.js";

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
export function timePicker(app) {
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
export function axisStep(least) {
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / STEPS[STEPS.length - 1]) * STEPS[STEPS.length - 1];
}

/** A moment on the clock, in UTC: the date where the step is a day, seconds where it is below a minute. @param {number} time @param {number} step 0 for everything */
export function clockText(time, step) {
  const text = new Date(time).toISOString();
  const [date, clock] = [text.slice(0, 10), text.slice(11, 19)];
  if (step === 0) return `${date} ${clock}`;
  if (step >= 86_400_000) return date.slice(5);
  return step >= 60_000 ? clock.slice(0, 5) : clock;
}
