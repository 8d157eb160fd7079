// @ts-check
// The timeline: a lane a thread; dragging over it chooses a span that every other view follows.

import { currentPalette } from "./colour.js";
import { h } from "./dom.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { dataQuery } from "./state.js";
import { shareLabel, timeLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{thread: string, process: string, tid: number, total: number, values: number[], waits: number[], hues: number[], tops: number[]}} Lane */
/** @typedef {{span: number, bucket: number, peak: number, unit: string, lanes: Lane[], names: string[]}} Timeline */

const LANE_HEIGHT = 34;
const LANE_TOP = 26;
const LANE_LABEL = 170;

/** @param {App} app */
export function timelineView(app) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline of threads. Drag to choose a span of time." }));
  const height = h("div.timeline-height");
  const element = h("div.timeline", {}, h("div.flame-pane", {}, canvas), height);
  const clear = h("button.toggle", { text: "Whole time", onclick: () => app.set({ time: "" }) });
  const compare = h("button.toggle", {
    text: "Compare with this span",
    title: "Choose another span after this: every view shows how the two differ",
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
    data.lanes.forEach((lane, at) => drawLane(context, lane, LANE_TOP + at * LANE_HEIGHT - element.scrollTop));
    drawAxis(context, width);
    drawBrush(context, tall);
  }

  /** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {number} y */
  function drawLane(context, lane, y) {
    if (!data || y < -LANE_HEIGHT || y > element.clientHeight) return;
    const { left, width } = place();
    const step = width / lane.values.length;
    lane.values.forEach((value, at) => {
      if (value === 0 || !data) return;
      const tall = Math.max(2, (LANE_HEIGHT - 8) * Math.min(1, value / data.peak));
      context.fillStyle = palette.hues[lane.hues[at]]?.[0] ?? palette.root;
      const wide = Math.max(1, step - (step > 4 ? 1 : 0));
      context.fillRect(left + at * step, y + LANE_HEIGHT - 5 - tall, wide, tall);
      if (lane.waits[at] === 0) return;
      // Waiting is drawn over the top of the bar, pale: off the CPU.
      const idle = tall * (lane.waits[at] / value);
      context.fillStyle = palette.line;
      context.fillRect(left + at * step, y + LANE_HEIGHT - 5 - tall, wide, idle);
    });
    context.fillStyle = palette.line;
    context.fillRect(left, y + LANE_HEIGHT - 5, width, 1);
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.fillText(lane.thread || `thread ${lane.tid}`, 12, y + 12, LANE_LABEL - 24);
    context.fillStyle = palette.soft;
    context.fillText(`${lane.tid}  ·  ${valueLabel(lane.total, data.unit)}`, 12, y + 25, LANE_LABEL - 24);
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
      app.set({ time: wide && span ? `${Math.round(span[0])}-${Math.round(span[1])}` : "", zoom: "" });
      redraw();
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", up, { once: true });
  });
  canvas.addEventListener("mousemove", (event) => {
    const lane = data?.lanes[Math.floor((event.offsetY - LANE_TOP + element.scrollTop) / LANE_HEIGHT)];
    if (!lane || !data || event.offsetX < LANE_LABEL || brush) return hideTooltip();
    const bucket = Math.min(lane.values.length - 1, Math.floor(timeAt(event.offsetX) / data.bucket));
    showTooltip(lane.thread || `thread ${lane.tid}`, lane.process, [
      ["at", timeLabel(bucket * data.bucket)],
      ["busy", `${valueLabel(lane.values[bucket], data.unit)} of ${timeLabel(data.bucket)}`],
      ...(lane.waits[bucket] > 0 ? [/** @type {[string, string]} */ (["of which waiting", valueLabel(lane.waits[bucket], data.unit)])] : []),
      ["mostly in", lane.tops[bucket] >= 0 ? data.names[lane.tops[bucket]] : "–"],
      ["share of the lane", shareLabel(lane.values[bucket], lane.total)],
    ], event);
  });
  canvas.addEventListener("mouseleave", hideTooltip);
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
        const buckets = String(Math.max(50, Math.min(2000, Math.floor(place().width / 3))));
        const answer = await app.waitFor(app.provider.data("timeline", whole, { buckets }));
        if (answer === null) return;
        data = answer;
        shown = wanted;
        height.style.height = `${LANE_TOP + answer.lanes.length * LANE_HEIGHT + 8}px`;
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

/** The state whose data covers all of the time. @param {State} state @returns {State} */
export function wholeTime(state) {
  return { ...state, time: "", base: state.base.startsWith("@") ? "" : state.base };
}

/** @param {string} time @returns {[number, number] | null} */
export function chosenSpan(time) {
  const match = /^(\d+)-(\d+)$/.exec(time);
  return match ? [Number(match[1]), Number(match[2])] : null;
}

/** A round number of nanoseconds at least as long. @param {number} least */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= least) ?? power * 10;
}
