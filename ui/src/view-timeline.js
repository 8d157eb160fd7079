// @ts-check
// The timeline: one lane per thread. Dragging selects a time range, which every other view uses.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { dataQuery } from "./state.js";
import { shareLabel, timeLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{thread: string, process: string, tid: number, total: number, values: number[], waits: number[], hues: number[], tops: number[]}} Lane */
/** @typedef {{span: number, bucket: number, peak: number, unit: string, lanes: Lane[], names: string[]}} Timeline */

/** Limits of the lane height; within them, the lanes fill the window. */
const LANE_LEAST = 34;
const LANE_MOST = 84;
/** The least samples per bar for a busy thread: with fewer, bars look like gaps. */
const SAMPLES_A_BAR = 4;
const LANE_TOP = 26;
const LANE_LABEL = 170;

/** @param {App} app */
export function timelineView(app) {
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
  /** @type {Timeline | null} */
  let data = null;
  let shown = "nothing yet";
  /** @type {[number, number] | null} */
  let brush = null;
  let palette = currentPalette();
  let frame = 0;

  const place = () => ({ left: LANE_LABEL, width: Math.max(10, element.clientWidth - LANE_LABEL - 12) });
  const laneHeight = () => Math.max(LANE_LEAST, Math.min(LANE_MOST, Math.floor((element.clientHeight - LANE_TOP - 10) / Math.max(1, data?.lanes.length ?? 1))));
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
    height.style.height = `${LANE_TOP + data.lanes.length * one + 8}px`;
    data.lanes.forEach((lane, at) => drawLane(context, lane, LANE_TOP + at * one - element.scrollTop, one));
    drawAxis(context, width);
    drawBrush(context, tall);
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
    context.fillText(lane.thread || `thread ${lane.tid}`, 12, y + high - 24, LANE_LABEL - 24);
    context.fillStyle = palette.soft;
    context.fillText(`${lane.tid}  ·  ${amountText(lane.total, data.unit)}`, 12, y + high - 10, LANE_LABEL - 24);
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
    const lane = data?.lanes[Math.floor((event.offsetY - LANE_TOP + element.scrollTop) / laneHeight())];
    if (!lane || !data || event.offsetX < LANE_LABEL || brush) return hideTooltip();
    const bucket = Math.min(lane.values.length - 1, Math.floor(timeAt(event.offsetX) / data.bucket));
    showTooltip(lane.thread || `thread ${lane.tid}`, lane.process, [
      ["at", timeLabel(bucket * data.bucket)],
      ["busy", `${amountText(lane.values[bucket], data.unit)} of ${timeLabel(data.bucket)}`],
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
    controls: [compare, clear],
    /** @param {State} state */
    async update(state) {
      clear.hidden = state.time === "";
      compare.hidden = state.time === "" || state.base !== "";
      const whole = wholeTime(state);
      const wanted = dataQuery(whole).toString();
      if (wanted !== shown) {
        const buckets = String(bucketCount(place().width, app.opened.about));
        const answer = await app.waitFor(app.provider.data("timeline", whole, { buckets }));
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
export function bucketCount(width, about) {
  const taken = ((about?.duration_nanos ?? 0) / 1e9) * (about?.quality?.achieved_hertz ?? 0);
  const filled = taken > 0 ? taken / SAMPLES_A_BAR : Infinity;
  return Math.max(50, Math.min(2000, Math.floor(width / 3), Math.floor(filled)));
}

/** The lanes as a table for screen readers. @param {Timeline} data */
function lanesTable(data) {
  const row = (/** @type {Lane} */ lane) => h("tr", {}, h("td", { text: lane.thread || `thread ${lane.tid}` }), h("td", { text: valueLabel(lane.total, data.unit) }), h("td", { text: valueLabel(lane.waits.reduce((sum, wait) => sum + wait, 0), data.unit) }));
  const head = h("tr", {}, ...["Thread", "Total", "Waiting"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: `Threads over ${timeLabel(data.span)}` }), h("thead", {}, head), h("tbody", {}, ...data.lanes.map(row)));
}

/**
 * The time range after an arrow key, which moves it (or only its end) by a twentieth of the whole.
 * @param {[number, number] | null} span @param {number} step @param {boolean} onlyEnd @param {number} whole @returns {[number, number]}
 */
export function movedSpan(span, step, onlyEnd, whole) {
  const by = Math.max(1, Math.round(whole / 20));
  if (!span) return [0, by];
  const [from, to] = span;
  if (onlyEnd) return [from, Math.max(from + by, Math.min(whole, to + step * by))];
  const moved = Math.max(0, Math.min(whole - (to - from), from + step * by));
  return [moved, moved + (to - from)];
}

/** The state without its time range. @param {State} state @returns {State} */
export function wholeTime(state) {
  return { ...state, time: "", base: state.base.startsWith("@") ? "" : state.base };
}

/** @param {string} time @returns {[number, number] | null} */
export function chosenSpan(time) {
  const match = /^(\d+)-(\d+)$/.exec(time);
  return match ? [Number(match[1]), Number(match[2])] : null;
}

/** A value with its unit; counts are samples. @param {number} value @param {string} unit */
function amountText(value, unit) {
  return unit === "count" ? `${valueLabel(value, unit)} samples` : valueLabel(value, unit);
}

/** The next round number of nanoseconds. @param {number} least */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= least) ?? power * 10;
}
