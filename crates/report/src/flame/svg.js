(() => {
// Rust names are long; this finds the parts that people read first.

/** Cache of short names by full name, since a picture is drawn many times. @type {Map<string, string>} */
const shortNames = new Map();
const MOST_SHORT_NAMES = 20_000;

/**
 * The last two segments of a path, without generics: `Context::run_task`.
 * @param {string} name @returns {string}
 */
function shortName(name) {
  const known = shortNames.get(name);
  if (known !== undefined) return known;
  if (shortNames.size > MOST_SHORT_NAMES) shortNames.clear();
  const short = shortened(name);
  shortNames.set(name, short);
  return short;
}

/** @param {string} name */
function shortened(name) {
  const plain = withoutArguments(withoutGenerics(name));
  const steps = pathSteps(plain).filter((step) => step !== "");
  if (steps.length <= 2) return plain;
  const last = steps[steps.length - 1];
  // A closure says nothing without the function around it.
  const count = last.startsWith("{") ? 3 : 2;
  return steps.slice(-count).join("::");
}

/** How a bracket changes the depth. @param {string} letter */
const depthStep = (letter) => ("({[".includes(letter) ? 1 : ")}]".includes(letter) ? -1 : 0);

/** A path split at `::`, except within brackets. @param {string} path */
function pathSteps(path) {
  const steps = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < path.length; at++) {
    depth += depthStep(path[at]);
    if (depth !== 0 || at < start || !path.startsWith("::", at)) continue;
    steps.push(path.slice(start, at));
    start = at + 2;
  }
  return [...steps, path.slice(start)];
}

/** The name of an operator with angle brackets. */
const ANGLE_OPERATOR = /^operator(?:<=>|<<=|<<|<=|<|>>=|>>|>=|->\*|->|>)/;

/**
 * A name without the text between angle brackets; `<T as Trait>::f` becomes `T::f`.
 * @param {string} name @returns {string}
 */
function withoutGenerics(name) {
  let text = name;
  if (text.startsWith("<")) {
    const end = closingBracket(text, 0);
    if (end < 0) return name;
    const inside = withoutGenerics(text.slice(1, end).trim());
    const self = inside.split(" as ")[0];
    text = self + text.slice(end + 1);
  }
  let depth = 0;
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    const operator = depth === 0 && letter === "o" && !/\w/.test(text[at - 1] ?? "") ? ANGLE_OPERATOR.exec(text.slice(at)) : null;
    if (operator) {
      out += operator[0];
      at += operator[0].length - 1;
      continue;
    }
    const isArrow = letter === ">" && text[at - 1] === "-";
    if (letter === "<") depth++;
    if (depth === 0) out += letter;
    if (letter === ">" && !isArrow && depth > 0) depth--;
  }
  return depth === 0 && out !== "" ? out.replaceAll("::::", "::") : name;
}

/** @param {string} text @param {number} open */
function closingBracket(text, open) {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "<") depth++;
    if (text[at] === ">" && text[at - 1] !== "-" && --depth === 0) return at;
  }
  return -1;
}

/** Pixels per letter in names made of narrow letters. */
const NARROW_LETTER = 4;

/**
 * As much of a name as fits into `width`: the whole name, its short form, or that cut off with an ellipsis.
 * @param {string} name @param {number} width @param {(text: string) => number} measure @returns {string}
 */
function fittedName(name, width, measure) {
  if (width < 14) return "";
  // Measuring is slow and most names are far too long; this estimate is a lower bound.
  if (name.length * NARROW_LETTER <= width && measure(name) <= width) return name;
  const short = shortName(name);
  const whole = measure(short);
  if (whole <= width) return short;
  const room = Math.floor((short.length * width) / whole) - 1;
  return room < 2 ? "" : `${short.slice(0, room)}…`;
}

/**
 * A C++ name without its arguments, what follows them, and its return type; other names are left as they are.
 * @param {string} name @returns {string}
 */
function withoutArguments(name) {
  const own = name.replace(/( \[clone [^\]]*\])+$/, "");
  const text = own.replace(/( const| volatile| &&?| noexcept)+$/, "");
  if (!text.endsWith(")")) return own;
  let depth = 0;
  for (let at = text.length - 1; at > 0; at--) {
    if (text[at] === ")") depth++;
    if (text[at] !== "(" || --depth > 0) continue;
    const before = text.slice(0, at).trimEnd();
    return before.endsWith("operator") || before.endsWith(".") ? own : withoutReturnType(before);
  }
  return own;
}

/** What follows the last space outside of brackets and before the name of an operator. @param {string} name */
function withoutReturnType(name) {
  const operators = [...name.matchAll(/(?<!\w)operator/g)];
  const end = operators.at(-1)?.index ?? name.length;
  let depth = 0;
  let start = 0;
  for (let at = 0; at < end; at++) {
    depth += depthStep(name[at]) + (name[at] === "<" ? 1 : name[at] === ">" ? -1 : 0);
    if (name[at] === " " && depth === 0) start = at + 1;
  }
  return name.slice(start);
}
// Zoom, search and folded frames inside an SVG file. Where scripts are disabled, the picture is still complete.

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
})();
