// @ts-check
// Sub-second heatmap: one column per second, which runs from bottom to top. Selecting two cells, by mouse or keyboard, selects a time range.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { announce, flash, hideTooltip, showTooltip } from "./overlay.js";
import { dataQuery } from "./state.js";
import { timeLabel, valueLabel } from "./units.js";
import { chosenSpan, wholeTime } from "./view-timeline.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{columns: number, rows: number, column: number, peak: number, unit: string, cells: number[]}} Heatmap */

/** @param {App} app */
export function heatmapView(app) {
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
export function movedCell(cell, key, columns, rows) {
  /** @type {Record<string, [number, number]>} */
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const way = ways[key];
  if (!way || columns === 0 || rows === 0) return null;
  if (cell === null) return 0;
  const column = Math.max(0, Math.min(columns - 1, Math.floor(cell / rows) + way[0]));
  const row = Math.max(0, Math.min(rows - 1, (cell % rows) + way[1]));
  return column * rows + row;
}
