// @ts-check
// Zoom, search and folded frames inside an SVG file. Where scripts are disabled, the picture is still complete.
import { shortName } from "./src/names.js";

(() => {
  const svg = document.documentElement;
  const margin = Number(svg.dataset.margin);
  const width = Number(svg.getAttribute("width")) - 2 * margin;
  const height = Number(svg.getAttribute("height"));
  const CHARACTER = 6.1;
  const [TOP, ROW] = [46, 17];
  /** Below the boxes: the legend, and what the mouse points at. */
  const FOOT = 42;

  const element = (/** @type {string} */ id) => /** @type {SVGElement} */ (/** @type {unknown} */ (document.getElementById(id)));

  /** @typedef {{group: SVGGElement, rect: SVGRectElement, text: SVGTextElement, title: string, name: string, x: number, y: number, width: number}} Box */

  /** @param {Element} group @returns {Box} */
  function boxOf(group) {
    const rect = /** @type {SVGRectElement} */ (group.querySelector("rect"));
    const title = group.querySelector("title")?.textContent ?? "";
    const box = {
      group: /** @type {SVGGElement} */ (group),
      rect,
      text: /** @type {SVGTextElement} */ (group.querySelector("text")),
      title,
      name: title.replace(/ \([^(]*\)$/, ""),
      x: Number(rect.getAttribute("x")) - margin,
      y: Number(rect.getAttribute("y")),
      width: Number(rect.getAttribute("width")),
    };
    box.group.addEventListener("click", () => (box.group.classList.contains("chain") ? open(box) : zoom(box)));
    box.group.addEventListener("mouseenter", () => (element("details").textContent = box.title));
    box.group.addEventListener("mouseleave", () => (element("details").textContent = ""));
    return box;
  }

  const folded = { group: element("boxes"), boxes: [...document.querySelectorAll("#boxes > g")].map(boxOf), height };
  /** The picture with every frame, once it was asked for. @type {typeof folded | null} */
  let every = null;
  let shown = folded;

  /** @param {Box} target */
  function zoom(target) {
    const root = shown.boxes[0];
    const scale = width / Math.max(target.width, 1e-9);
    const end = target.x + target.width;
    for (const box of shown.boxes) {
      const below = box.x <= target.x + 1e-3 && box.x + box.width >= end - 1e-3 && isBelow(box, target);
      const inside = box.x >= target.x - 1e-3 && box.x + box.width <= end + 1e-3 && !isBelow(box, target);
      box.group.style.display = below || inside ? "" : "none";
      box.group.classList.toggle("faded", below);
      if (!below && !inside) continue;
      const x = below ? 0 : (box.x - target.x) * scale;
      const wide = below ? width : box.width * scale;
      box.rect.setAttribute("x", String(margin + x));
      box.rect.setAttribute("width", String(wide));
      box.text.setAttribute("x", String(margin + x + 3));
      box.text.textContent = clipped(box.name, wide);
    }
    element("reset").setAttribute("visibility", target === root ? "hidden" : "visible");
  }

  /** Whether `box` is nearer to the root than `target`. @param {Box} box @param {Box} target */
  function isBelow(box, target) {
    const root = shown.boxes[0];
    return target.y > root.y ? box.y < target.y : target.y < root.y ? box.y > target.y : false;
  }

  /** @param {string} name @param {number} wide */
  function clipped(name, wide) {
    const room = Math.floor(Math.max(0, wide - 6) / CHARACTER);
    if (name.length <= room) return name;
    if (room < 3) return "";
    const short = shortName(name);
    return short.length <= room ? short : `${short.slice(0, room - 1)}…`;
  }

  /** Shows every frame, zoomed to the box from which the chain was called. @param {Box} chain */
  function open(chain) {
    every ??= everyFrame();
    const callers = folded.boxes.filter((box) => box !== chain && isBelow(box, chain) && box.x <= chain.x + 1e-3 && box.x + box.width >= chain.x + chain.width - 1e-3);
    const caller = callers.filter((box) => !box.group.classList.contains("chain")).sort((a, b) => a.width - b.width || Math.abs(a.y - chain.y) - Math.abs(b.y - chain.y))[0];
    show(every);
    const same = every.boxes.filter((box) => box.name === caller?.name).sort((a, b) => b.width - a.width);
    zoom(same[0] ?? every.boxes[0]);
  }

  /** @param {typeof folded} picture */
  function show(picture) {
    zoom(shown.boxes[0]);
    shown.group.setAttribute("display", "none");
    shown = picture;
    picture.group.removeAttribute("display");
    svg.setAttribute("height", String(picture.height));
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${picture.height}`);
    element("foot").setAttribute("transform", `translate(0 ${picture.height - height})`);
    element("fold").setAttribute("visibility", picture === folded ? "hidden" : "visible");
    element("matched").textContent = "";
    zoom(picture.boxes[0]);
  }

  /** Draws the picture with every frame, which the file has as data. */
  function everyFrame() {
    const data = JSON.parse(element("frames").textContent ?? "");
    const make = (/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
      made.textContent = text;
      return made;
    };
    const group = /** @type {SVGElement} */ (make("g", { class: "boxes", display: "none" }));
    for (const [name, fill, yours, depth, x, wide, values] of data.boxes) {
      const y = TOP + ROW * (data.icicle ? depth : data.rows - 1 - depth);
      const box = make("g", yours ? { class: "yours" } : {});
      const colours = Object.fromEntries([...data.fills[fill].matchAll(/([\w-]+)="([^"]*)"/g)].map((found) => [found[1], found[2]]));
      box.append(make("title", {}, `${data.names[name]} (${values})`), make("rect", { x, y, width: wide, height: ROW - 1, rx: 1, ...colours }), make("text", { x: x + 3, y: y + 12 }, clipped(data.names[name], wide)));
      group.append(box);
    }
    folded.group.after(group);
    return { group, boxes: [...group.children].map(boxOf), height: TOP + data.rows * ROW + FOOT };
  }

  function search() {
    const text = prompt("Search (regular expression):", "");
    if (text === null) return;
    let pattern = null;
    try {
      pattern = text === "" ? null : new RegExp(text, "i");
    } catch (error) {
      element("matched").textContent = String(error);
      return;
    }
    let matched = 0;
    let covered = 0;
    for (const box of shown.boxes) {
      const hit = pattern !== null && pattern.test(box.name);
      box.group.classList.toggle("hit", hit);
      // Boxes come after their parents, so an outer match covers the inner ones.
      if (hit && box.x + 1e-6 >= covered) {
        matched += box.width;
        covered = box.x + box.width;
      }
    }
    const without = shown.group.querySelector(".chain") ? ", without folded frames" : "";
    element("matched").textContent = pattern ? `matched ${((100 * matched) / shown.boxes[0].width).toFixed(2)}%${without}` : "";
  }

  element("reset").addEventListener("click", () => zoom(shown.boxes[0]));
  element("fold").addEventListener("click", () => show(folded));
  element("search").addEventListener("click", search);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(shown.boxes[0]);
    if ((event.ctrlKey && event.key === "f") || event.key === "/") {
      event.preventDefault();
      search();
    }
  });
})();
