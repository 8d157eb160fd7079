// @ts-check
// The timeline: one lane per thread, grouped by process, or per task; those that did nothing share one. Strips above the bars mark spans, and system calls, page faults and collections. Dragging selects a time range, which every other view uses.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { dataQuery } from "./state.js";
import { shareLabel, timeLabel, valueLabel } from "./units.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{thread: string, process: string, pid: number, tid: number, threads: number, total: number, values: number[], waits: number[], kernel: number[], hues: number[], tops: number[], marks: number[], marked: number[], spans: number[]}} Lane */
/** @typedef {{kind: "call" | "fault" | "gc" | "span", name: string}} Mark */
/** @typedef {{y: number, lane: Lane, title: string}} Placed a lane, and the title of its process if it is the first of it */
/** @typedef {{span: number, bucket: number, peak: number, unit: string, lanes: Lane[], names: string[], marks: Mark[]}} Timeline */

/** Limits of the lane height; within them, the lanes fill the window. */
const LANE_LEAST = 34;
const LANE_MOST = 84;
/** The hues of dependencies tell spans apart. */
const SPAN_HUES = 24;
/** The least samples per bar for a busy thread: with fewer, bars look like gaps. */
const SAMPLES_A_BAR = 4;
const LANE_TOP = 26;
const LANE_LABEL = 170;
/** The height of a strip of marks: system calls and the like above the bars, and spans above those. */
const MARK = 4;
/** The height of the title of a process. */
const PROCESS_TITLE = 20;

/** @type {Record<Mark["kind"], string>} */
const MARK_NAMES = { call: "system call", fault: "page faults", gc: "collecting garbage", span: "span" };

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
      const tall = Math.max(2, (high - 8 - 2 * MARK) * Math.min(1, value / data.peak));
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
    drawMarks(context, lane, y, step);
    context.fillStyle = palette.line;
    context.fillRect(left, y + high - 5, width, 1);
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.fillText(laneName(lane), 12, y + high - 24, LANE_LABEL - 24);
    context.fillStyle = palette.soft;
    const which = lane.threads > 1 || lane.tid === 0 ? "" : `${lane.tid}  ·  `;
    context.fillText(`${which}${amountText(lane.total, data.unit)}`, 12, y + high - 10, LANE_LABEL - 24);
  }

  /** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {number} y @param {number} step the width of a bucket */
  function drawMarks(context, lane, y, step) {
    const { left } = place();
    const marks = data?.marks ?? [];
    for (const [top, rows] of /** @type {[number, number[]][]} */ ([[y, lane.spans], [y + MARK, lane.marks]])) {
      for (const { from, to, row } of runsOf(rows)) {
        const mark = marks[row];
        if (!mark) continue;
        context.fillStyle = { call: palette.accent, fault: palette.heatOf(0.8), gc: palette.hit, span: palette.hues[row % SPAN_HUES][0] }[mark.kind];
        context.fillRect(left + from * step, top, Math.max(1, (to - from) * step), MARK - 1);
      }
    }
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
      ...markRows(lane, bucket, data),
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
export function bucketCount(width, about) {
  const taken = ((about?.duration_nanos ?? 0) / 1e9) * (about?.quality?.achieved_hertz ?? 0);
  const filled = taken > 0 ? taken / SAMPLES_A_BAR : Infinity;
  return Math.max(50, Math.min(2000, Math.floor(width / 3), Math.floor(filled)));
}

/** Whether samples name tasks or routes. @param {Record<string, any> | null} about */
export function hasTasks(about) {
  return ["task", "route"].some((label) => about?.label_keys?.includes(label));
}

/** The lanes as a table for screen readers. @param {Timeline} data */
function lanesTable(data) {
  const sum = (/** @type {number[]} */ values) => valueLabel(values.reduce((all, value) => all + value, 0), data.unit);
  const marks = (/** @type {Lane} */ lane) => [...new Set([...lane.marks, ...lane.spans])].filter((row) => row >= 0).map((row) => data.marks[row]).map((mark) => `${MARK_NAMES[mark.kind]} ${mark.name}`.trim()).join(", ");
  const row = (/** @type {Lane} */ lane) => h("tr", {}, ...[processTitle(lane), laneName(lane), valueLabel(lane.total, data.unit), sum(lane.kernel), sum(lane.waits), marks(lane)].map((text) => h("td", { text })));
  const head = h("tr", {}, ...["Process", "Thread or task", "Total", "Kernel", "Waiting", "Marks"].map((text) => h("th", { text, scope: "col" })));
  return h("table", {}, h("caption", { text: `Lanes over ${timeLabel(data.span)}` }), h("thead", {}, head), h("tbody", {}, ...data.lanes.map(row)));
}

/**
 * Stretches of buckets with the same mark.
 * @param {number[]} rows @returns {{from: number, to: number, row: number}[]}
 */
export function runsOf(rows) {
  /** @type {{from: number, to: number, row: number}[]} */
  const runs = [];
  rows.forEach((row, at) => {
    const last = runs.at(-1);
    if (row < 0) return;
    if (last && last.row === row && last.to === at) last.to = at + 1;
    else runs.push({ from: at, to: at + 1, row });
  });
  return runs;
}

/** What the marks of a bucket say, for the tooltip. @param {Lane} lane @param {number} bucket @param {Timeline} data @returns {[string, string][]} */
export function markRows(lane, bucket, data) {
  const [mark, span] = [data.marks[lane.marks[bucket] ?? -1], data.marks[lane.spans[bucket] ?? -1]];
  /** @type {[string, string][]} */
  const rows = [];
  if (mark) rows.push([MARK_NAMES[mark.kind], `${mark.name} ${valueLabel(lane.marked[bucket], data.unit)}`.trim()]);
  if (span) rows.push([MARK_NAMES.span, span.name]);
  return rows;
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
export function placedLanes(lanes, high) {
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
