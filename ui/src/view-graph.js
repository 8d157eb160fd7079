// @ts-check
// The call graph: the heaviest functions and the calls between them, laid out in Rust.

import { currentPalette } from "./colour.js";
import { h, replaceContent } from "./dom.js";
import { fittedName } from "./names.js";
import { hideTooltip, showTooltip } from "./overlay.js";
import { changeLabel, exactLabel, isNoise, shareLabel, valueLabel } from "./units.js";
import { legendOf, relativeChange } from "./view-flame.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./state.js").State} State */
/** @typedef {{name: string, hue: number, owner: string, chain: boolean, flat: number, cum: number, flat_new: number, flat_base: number, cum_new: number, cum_base: number, x: number, y: number, width: number, height: number}} GraphNode */
/** @typedef {{from: number, to: number, weight: number, new: number, base: number, direct: boolean, points: [number, number][]}} GraphEdge */
/** @typedef {{nodes: GraphNode[], edges: GraphEdge[], diff: boolean, left_out: number, width: number, height: number}} Graph */

const SVG_NS = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG_NS, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** @param {App} app */
export function graphView(app) {
  const scene = s("g", {});
  const dots = s("pattern", { id: "graph-system", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("circle", { cx: 2, cy: 2, r: 1, class: "hatch" }));
  const lines = s("pattern", { id: "graph-kernel", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 1, height: 6, class: "hatch" }));
  const svg = s("svg", { class: "graph", tabindex: 0, role: "list", "aria-label": "Call graph: the heaviest functions. The sandwich view shows who calls whom." }, s("defs", {}, dots, lines), scene);
  const note = h("div.graph-note.soft");
  const element = h("div.graph-holder", {}, note, legendOf());
  element.prepend(svg);
  const view = { x: 0, y: 0, scale: 1 };
  let shown = "nothing yet";
  /** @type {Graph | null} */
  let drawn = null;
  const move = () => scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = svg.getBoundingClientRect();
    zoomGraph(view, Math.exp(-event.deltaY * 0.0015), event.clientX - place.left, event.clientY - place.top);
    move();
  });
  svg.addEventListener("pointerdown", (start) => {
    const from = { x: view.x - start.clientX, y: view.y - start.clientY };
    const drag = (/** @type {PointerEvent} */ now) => {
      view.x = from.x + now.clientX;
      view.y = from.y + now.clientY;
      move();
    };
    const end = () => removeEventListener("pointermove", drag);
    addEventListener("pointermove", drag);
    addEventListener("pointerup", end, { once: true });
  });
  svg.addEventListener("keydown", (event) => {
    const steps = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] });
    const step = steps[event.key];
    if (step) [view.x, view.y] = [view.x + step[0], view.y + step[1]];
    else if (event.key === "+" || event.key === "-") zoomGraph(view, event.key === "+" ? 1.2 : 1 / 1.2, element.clientWidth / 2, element.clientHeight / 2);
    else return;
    event.preventDefault();
    move();
  });
  const fit = (/** @type {number} */ width, /** @type {number} */ height) => {
    // Names are unreadable at a smaller scale; the user can drag to see what does not fit.
    view.scale = Math.max(0.8, Math.min(1, (element.clientWidth - 40) / width, (element.clientHeight - 40) / height));
    view.x = (element.clientWidth - width * view.scale) / 2;
    view.y = 20;
    move();
  };
  return {
    element,
    controls: [],
    /** @param {State} state */
    async update(state) {
      if (app.dataKey() === shown) return;
      const graph = /** @type {Graph | null} */ (await app.waitFor(app.provider.data("graph", state)));
      if (graph === null) return;
      shown = app.dataKey();
      drawn = graph;
      drawGraph(app, scene, graph);
      const chosen = graph.diff ? "functions that changed most" : "heaviest functions";
      note.textContent = graph.left_out > 0 ? `The ${graph.nodes.length} ${chosen}; ${graph.left_out} others are not drawn. Dashed lines: calls through functions that are not drawn.` : "";
      fit(graph.width, graph.height);
    },
    themeChanged: () => drawn && drawn.diff && drawGraph(app, scene, drawn),
    focus: () => /** @type {SVGElement} */ (/** @type {unknown} */ (svg)).focus(),
  };
}

/** @param {{x: number, y: number, scale: number}} view @param {number} factor @param {number} x @param {number} y */
function zoomGraph(view, factor, x, y) {
  const scale = Math.max(0.1, Math.min(4, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
}

/** @param {App} app @param {SVGElement} scene @param {Graph} graph */
function drawGraph(app, scene, graph) {
  const { unit, per_sample: perSample } = app.sampleType();
  const all = app.total() || 1;
  const palette = currentPalette();
  const most = Math.max(1, ...graph.edges.map((edge) => Math.abs(edge.new - edge.base)));
  const lines = graph.edges.map((edge) => {
    const change = edge.new - edge.base;
    const noise = isNoise(edge.base, edge.new, perSample);
    const look = !graph.diff || noise ? "" : change > 0 ? " more" : " less";
    const line = s("path", {
      d: edge.from === edge.to ? loopPath(graph.nodes[edge.from]) : edgePath(edge.points),
      class: `edge${edge.direct ? "" : " indirect"}${look}`,
      "stroke-width": 1 + 6 * Math.sqrt(graph.diff ? Math.abs(change) / most : edge.weight / all),
    });
    const value = graph.diff ? `${changeLabel(change, unit)}, from ${valueLabel(edge.base, unit)} to ${valueLabel(edge.new, unit)}` : `${exactLabel(edge.weight, unit)} · ${shareLabel(edge.weight, all)}`;
    line.append(s("title", {}, `${graph.nodes[edge.from].name} → ${graph.nodes[edge.to].name}: ${value}`));
    return line;
  });
  const boxes = graph.nodes.map((node) => {
    const { x, y, width, height } = node;
    const group = s(
      "g",
      { class: `node ${node.chain ? "chain" : node.owner}`, role: "listitem", "aria-label": `${node.name}: ${nodeText(node, graph.diff, unit, all)}`, transform: `translate(${x - width / 2} ${y - height / 2})` },
      s("rect", { width, height, rx: 3, fill: graph.diff ? palette.changeOf((node.cum_new - node.cum_base) / Math.max(1, node.cum)) : `var(--h${node.hue})` }),
      ...(["system", "kernel"].includes(node.owner) && !graph.diff ? [s("rect", { width, height, rx: 3, fill: `url(#graph-${node.owner})` })] : []),
      s("rect", { width: Math.max(0, width * Math.min(1, node.flat / all)), height: 3, y: height - 3, class: "heat" }),
      s("text", { x: 7, y: 15 }, fittedName(node.name, width - 14, (text) => text.length * 7)),
      s("text", { x: 7, y: 30 }, nodeText(node, graph.diff, unit, all)),
    );
    group.addEventListener("mousemove", (event) => showTooltip(node.name, "", nodeFacts(node, graph.diff, unit), /** @type {MouseEvent} */ (event)));
    group.addEventListener("mouseleave", hideTooltip);
    group.addEventListener("dblclick", () => (node.chain ? app.toggleFold("all") : app.set({ view: "sandwich", pivot: node.name })));
    group.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      if (node.chain) return;
      app.functionMenu(node.name, /** @type {MouseEvent} */ (event));
    });
    return group;
  });
  replaceContent(scene, ...lines, ...boxes);
}

/** @param {GraphNode} node @param {boolean} diff @param {string} unit @param {number} all */
function nodeText(node, diff, unit, all) {
  if (diff) return `${changeLabel(node.cum_new - node.cum_base, unit)} · ${relativeChange(node.cum_base, node.cum_new)}`;
  return `${valueLabel(node.cum, unit)} · ${shareLabel(node.cum, all)}`;
}

/** @param {GraphNode} node @param {boolean} diff @param {string} unit @returns {[string, string][]} */
function nodeFacts(node, diff, unit) {
  if (!diff) return [["total", exactLabel(node.cum, unit)], ["self", exactLabel(node.flat, unit)]];
  const change = (/** @type {number} */ base, /** @type {number} */ now) => `${changeLabel(now - base, unit)} (${relativeChange(base, now)}), from ${valueLabel(base, unit)} to ${valueLabel(now, unit)}`;
  return [["total", change(node.cum_base, node.cum_new)], ["self", change(node.flat_base, node.flat_new)]];
}

/** A line that leaves a box on its right and comes back to it. @param {GraphNode} node */
function loopPath({ x, y, width }) {
  const right = x + width / 2;
  return `M ${right} ${y - 8} C ${right + 30} ${y - 20}, ${right + 30} ${y + 20}, ${right} ${y + 8}`;
}

/** A line through all points that leaves and enters each vertically. @param {[number, number][]} points */
function edgePath(points) {
  let path = `M ${points[0].join(" ")}`;
  for (let at = 1; at < points.length; at++) {
    const [[x1, y1], [x2, y2]] = [points[at - 1], points[at]];
    const middle = (y1 + y2) / 2;
    path += ` C ${x1} ${middle}, ${x2} ${middle}, ${x2} ${y2}`;
  }
  return path;
}
