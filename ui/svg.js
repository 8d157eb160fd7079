// @ts-check
// Zoom and search inside an SVG file. Where scripts are disabled, the picture is still complete.
(() => {
  const svg = document.documentElement;
  const margin = Number(svg.dataset.margin);
  const width = Number(svg.getAttribute("width")) - 2 * margin;
  const CHARACTER = 6.1;

  const boxes = [...document.querySelectorAll("#boxes > g")].map((group) => {
    const rect = /** @type {SVGRectElement} */ (group.querySelector("rect"));
    const title = group.querySelector("title")?.textContent ?? "";
    return {
      group: /** @type {SVGGElement} */ (group),
      rect,
      text: /** @type {SVGTextElement} */ (group.querySelector("text")),
      title,
      name: title.replace(/ \([^(]*\)$/, ""),
      x: Number(rect.getAttribute("x")) - margin,
      y: Number(rect.getAttribute("y")),
      width: Number(rect.getAttribute("width")),
    };
  });
  const root = boxes[0];
  const element = (/** @type {string} */ id) => /** @type {SVGElement} */ (/** @type {unknown} */ (document.getElementById(id)));

  /** @param {typeof root} target */
  function zoom(target) {
    const scale = width / Math.max(target.width, 1e-9);
    const end = target.x + target.width;
    for (const box of boxes) {
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

  /** Whether `box` is nearer to the root than `target`. @param {typeof root} box @param {typeof root} target */
  function isBelow(box, target) {
    return target.y > root.y ? box.y < target.y : target.y < root.y ? box.y > target.y : false;
  }

  /** @param {string} name @param {number} wide */
  function clipped(name, wide) {
    const room = Math.floor(Math.max(0, wide - 6) / CHARACTER);
    if (name.length <= room) return name;
    return room < 3 ? "" : `${name.slice(0, room - 1)}…`;
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
    for (const box of boxes) {
      const hit = pattern !== null && pattern.test(box.name);
      box.group.classList.toggle("hit", hit);
      // Boxes come after their parents, so an outer match covers the inner ones.
      if (hit && box.x + 1e-6 >= covered) {
        matched += box.width;
        covered = box.x + box.width;
      }
    }
    const folded = document.querySelector("#boxes > .chain") ? ", without folded frames" : "";
    element("matched").textContent = pattern ? `matched ${((100 * matched) / root.width).toFixed(2)}%${folded}` : "";
  }

  for (const box of boxes) {
    box.group.addEventListener("click", () => zoom(box));
    box.group.addEventListener("mouseenter", () => (element("details").textContent = box.title));
    box.group.addEventListener("mouseleave", () => (element("details").textContent = ""));
  }
  element("reset").addEventListener("click", () => zoom(root));
  element("search").addEventListener("click", search);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(root);
    if ((event.ctrlKey && event.key === "f") || event.key === "/") {
      event.preventDefault();
      search();
    }
  });
})();
