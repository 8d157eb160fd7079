// @ts-check
// A flame graph on a canvas: drawing, finding the box under the mouse, zoom by wheel, keys.

import { currentPalette, patternsOf } from "./colour.js";
import { h } from "./dom.js";
import { fittedName } from "./names.js";

/** @typedef {import("./picture.js").Picture} Picture */

const ROW_HEIGHT = 19;
const FACE = "system-ui, -apple-system, 'Segoe UI', sans-serif";
/** Your code is bold, and what a chain holds is small. */
const FONTS = { plain: `12px ${FACE}`, yours: `600 12px ${FACE}`, chain: `10px ${FACE}` };
/** How much lower a chain is than a frame, above and below. */
const CHAIN_INSET = 3;
const ZOOM_MILLISECONDS = 140;
/** About three printed pages. */
const MOST_PRINTED_ROWS = 150;

/**
 * @typedef {object} FlameEvents
 * @property {(picture: Picture, box: number, since: number) => void} zoom `since` is the time of the click
 * @property {(picture: Picture, box: number, event: MouseEvent) => void} menu
 * @property {(picture: Picture, box: number, event: MouseEvent | null) => void} hover `box` is -1 when the mouse left
 * @property {(picture: Picture, box: number) => void} select
 * @property {(scale: number) => void} magnified the wheel zoomed in by this much: finer boxes may be needed
 */

export class FlameCanvas {
  /** @param {FlameEvents} events @param {string} label */
  constructor(events, label) {
    this.events = events;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabindex: 0, "aria-label": label }));
    this.filler = h("div.flame-height");
    this.element = h("div.flame", {}, h("div.flame-pane", {}, this.canvas), this.filler);
    /** @type {Picture | null} */
    this.picture = null;
    /** The visible range, in weight. */
    this.from = 0;
    this.to = 1;
    /** The range at the end of the running animation. @type {[number, number] | null} */
    this.target = null;
    this.dragged = false;
    this.isPrinted = false;
    this.selected = -1;
    this.hovered = -1;
    /** @type {Uint8Array | null} */
    this.hit = null;
    this.upward = false;
    this.colour = "crate";
    this.palette = currentPalette();
    this.patterns = patternsOf(this.palette);
    this.frame = 0;
    /** Widths of letters, by font. @type {Record<string, Map<string, number>>} */
    this.letters = { plain: new Map(), yours: new Map(), chain: new Map() };
    /** The size and scroll position of the element, cached because reading them during changes is slow. */
    this.size = { width: 0, height: 0 };
    this.scrolled = 0;
    this.element.addEventListener("scroll", () => {
      this.scrolled = this.element.scrollTop;
      this.redraw();
    });
    new ResizeObserver(() => {
      this.size = { width: this.element.clientWidth, height: this.element.clientHeight };
      this.resized();
    }).observe(this.element);
    this.listen();
  }

  get width() {
    return Math.max(1, this.size.width || this.element.clientWidth);
  }

  /** The height of all rows together. */
  get rowsHeight() {
    return (this.picture?.rows ?? 1) * ROW_HEIGHT + 8;
  }

  /** @param {number} top */
  scrollTo(top) {
    this.element.scrollTop = top;
    this.scrolled = this.element.scrollTop;
  }

  /** @param {Picture} picture @param {boolean} animate */
  show(picture, animate) {
    const zoom = picture.zoom;
    this.picture = picture;
    this.selected = -1;
    this.hovered = -1;
    this.resized();
    const from = picture.x[zoom] ?? 0;
    this.moveTo(from, from + (picture.weight[zoom] || 1), animate);
    this.scrollToRoot();
  }

  /** Replaces the picture by a finer one of the same boxes, without moving anything. @param {Picture} picture */
  refine(picture) {
    const old = this.picture;
    if (!old) return this.show(picture, false);
    const scale = picture.weight[picture.zoom] / (old.weight[old.zoom] || 1);
    const offset = picture.x[picture.zoom] - old.x[old.zoom] * scale;
    const selected = this.selected >= 0 ? old.pathOf(this.selected) : null;
    this.picture = picture;
    [this.from, this.to] = [this.from * scale + offset, this.to * scale + offset];
    if (this.target) this.target = [this.target[0] * scale + offset, this.target[1] * scale + offset];
    this.hovered = -1;
    this.selected = selected ? picture.find(selected) : -1;
    this.resized();
  }

  /** Moves the view, animated unless the user prefers reduced motion. @param {number} from @param {number} to @param {boolean} animate */
  moveTo(from, to, animate) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || !animate;
    this.target = [from, to];
    if (still) {
      [this.from, this.to, this.target] = [from, to, null];
      return this.redraw();
    }
    const [startFrom, startTo, start] = [this.from, this.to, performance.now()];
    const step = () => {
      if (!this.target) return;
      const share = Math.min(1, (performance.now() - start) / ZOOM_MILLISECONDS);
      const eased = share * (2 - share);
      this.from = startFrom + (this.target[0] - startFrom) * eased;
      this.to = startTo + (this.target[1] - startTo) * eased;
      this.draw();
      if (share < 1) requestAnimationFrame(step);
      else this.target = null;
    };
    requestAnimationFrame(step);
  }

  themeChanged() {
    this.palette = currentPalette();
    this.patterns = patternsOf(this.palette);
    // Draws at once: printing does not wait for an animation frame.
    this.draw();
  }

  /** Draws every row for printing, where nothing scrolls. @param {boolean} on */
  printed(on) {
    this.isPrinted = on;
    this.resized();
    this.draw();
  }

  /** The height of the picture on the screen or in print. */
  get height() {
    if (this.isPrinted) return Math.min(MOST_PRINTED_ROWS * ROW_HEIGHT, this.rowsHeight);
    return Math.max(1, this.size.height || this.element.clientHeight);
  }

  resized() {
    this.filler.style.height = `${this.rowsHeight}px`;
    const ratio = devicePixelRatio || 1;
    const { width, height } = this;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.redraw();
  }

  scrollToRoot() {
    if (this.upward || this.scrolled !== 0) this.scrollTo(this.upward ? this.rowsHeight : 0);
  }

  redraw() {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** The y of a row on the canvas. @param {number} row */
  yOf(row) {
    const height = this.isPrinted ? this.height : Math.max(this.rowsHeight, this.height);
    const place = this.upward ? height - 4 - (row + 1) * ROW_HEIGHT : row * ROW_HEIGHT;
    return place - (this.isPrinted ? 0 : this.scrolled);
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const picture = this.picture;
    if (!context) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.palette.bg;
    const { width, height } = this;
    context.fillRect(0, 0, width, height);
    if (!picture) return;
    context.textBaseline = "middle";
    const rows = picture.rowsOfBoxes();
    const first = this.yOf(0);
    const step = this.upward ? -ROW_HEIGHT : ROW_HEIGHT;
    for (let row = 0; row < rows.length; row++) {
      const y = first + row * step;
      if (y + ROW_HEIGHT < 0 || y > height) continue;
      this.drawRow(context, picture, rows[row], y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Picture} picture @param {Int32Array} boxes @param {number} y */
  drawRow(context, picture, boxes, y) {
    const { width } = this;
    const scale = width / (this.to - this.from);
    for (const box of boxes) {
      const left = Math.max(0, (picture.x[box] - this.from) * scale);
      const right = Math.min(width, (picture.x[box] + picture.weight[box] - this.from) * scale);
      if (right - left < 0.35) continue;
      const gap = right - left > 3 ? 1 : 0;
      const isHit = this.hit !== null && this.hit[box] === 1;
      context.globalAlpha = this.hit !== null && !isHit ? 0.45 : 1;
      const isChain = picture.isChain(box);
      const [top, high] = isChain ? [y + CHAIN_INSET, ROW_HEIGHT - 1 - 2 * CHAIN_INSET] : [y, ROW_HEIGHT - 1];
      const wide = Math.max(0.6, right - left - gap);
      context.fillStyle = isHit ? this.palette.hit : this.fillOf(picture, box);
      context.fillRect(left, top, wide, high);
      if (wide > 2 && !isHit) this.drawPattern(context, picture, box, left, top, wide, high);
      context.globalAlpha = this.hit !== null && !isHit ? 0.8 : 1;
      if (right - left > 16) this.drawName(context, picture, box, left, right, y, isHit);
      context.globalAlpha = 1;
      if (box === this.selected || box === this.hovered) {
        context.strokeStyle = box === this.selected ? this.palette.accent : this.palette.soft;
        context.lineWidth = box === this.selected ? 2 : 1;
        context.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1 - gap), ROW_HEIGHT - 2);
      }
    }
  }

  /** Distinguishes owners without colour. @param {CanvasRenderingContext2D} context @param {Picture} picture @param {number} box @param {number} left @param {number} top @param {number} wide @param {number} high */
  drawPattern(context, picture, box, left, top, wide, high) {
    if (picture.isChain(box)) {
      context.strokeStyle = this.palette.soft;
      context.lineWidth = 1;
      context.setLineDash([3, 2]);
      context.strokeRect(left + 0.5, top + 0.5, Math.max(0, wide - 1), high - 1);
      context.setLineDash([]);
      return;
    }
    if (picture.diff || this.colour === "heat") return;
    const kind = picture.ownerKind(box);
    const pattern = kind === "system" ? this.patterns.system : kind === "kernel" ? this.patterns.kernel : null;
    if (pattern === null) return;
    context.fillStyle = pattern;
    context.fillRect(left, top, wide, high);
  }

  /** @param {CanvasRenderingContext2D} context @param {Picture} picture @param {number} box @param {number} left @param {number} right @param {number} y @param {boolean} isHit */
  drawName(context, picture, box, left, right, y, isHit) {
    const room = right - left - 7;
    const font = picture.isChain(box) ? "chain" : picture.ownerKind(box) === "yours" ? "yours" : "plain";
    context.font = FONTS[font];
    const text = fittedName(picture.nameOf(box), room, (part) => this.widthOf(context, this.letters[font], part));
    if (text === "") return;
    context.fillStyle = isHit ? this.palette.hitInk : this.inkOf(picture, box);
    context.fillText(text, left + 4, y + ROW_HEIGHT / 2, room);
  }

  /** The approximate width of a text: each letter is measured once, whole texts never. @param {CanvasRenderingContext2D} context @param {Map<string, number>} letters @param {string} text */
  widthOf(context, letters, text) {
    let width = 0;
    for (const letter of text) {
      let one = letters.get(letter);
      if (one === undefined) letters.set(letter, (one = context.measureText(letter).width));
      width += one;
    }
    return width;
  }

  /** @param {Picture} picture @param {number} box @returns {string} */
  fillOf(picture, box) {
    if (picture.diff && this.colour !== "crate") {
      const { now, base } = picture.valueOf(box);
      return this.palette.changeOf((now - base) / Math.max(1, picture.weight[box]));
    }
    if (picture.name[box] < 0) return this.palette.root;
    if (this.colour === "heat") return this.palette.heatOf(this.heatOf(picture, box));
    const shade = (picture.data.keys[picture.name[box]] >>> 6) % 2;
    return this.palette.hues[picture.hueOf(box)][shade];
  }

  /** @param {Picture} picture @param {number} box @returns {string} */
  inkOf(picture, box) {
    const hot = this.colour === "heat" && !picture.diff && picture.name[box] >= 0;
    return hot ? this.palette.heatInkOf(this.heatOf(picture, box)) : this.palette.ink;
  }

  /** @param {Picture} picture @param {number} box */
  heatOf(picture, box) {
    return Math.sqrt(picture.own[box] / (picture.weight[0] || 1));
  }

  /** @param {MouseEvent} event @returns {number} */
  boxUnder(event) {
    const picture = this.picture;
    if (!picture) return -1;
    const place = this.canvas.getBoundingClientRect();
    const y = event.clientY - place.top;
    const x = this.from + ((event.clientX - place.left) / this.width) * (this.to - this.from);
    const row = Math.floor(this.upward ? (this.yOf(-1) - y) / ROW_HEIGHT : (y - this.yOf(0)) / ROW_HEIGHT);
    return picture.boxAt(row, x, (this.to - this.from) / this.width / 2);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("mousemove", (event) => this.hover(this.boxUnder(event), event));
    canvas.addEventListener("mouseleave", () => this.hover(-1, null));
    canvas.addEventListener("click", (event) => {
      const box = this.boxUnder(event);
      if (box >= 0 && this.picture && !this.dragged) this.events.zoom(this.picture, box, event.timeStamp);
    });
    canvas.addEventListener("contextmenu", (event) => {
      const box = this.boxUnder(event);
      if (box < 0 || !this.picture) return;
      event.preventDefault();
      this.select(box);
      this.events.menu(this.picture, box, event);
    });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerdown", (event) => this.drag(event));
  }

  /** @param {number} box @param {MouseEvent | null} event */
  hover(box, event) {
    if (!this.picture) return;
    if (box !== this.hovered) {
      this.hovered = box;
      this.canvas.style.cursor = box >= 0 ? "pointer" : "default";
      this.redraw();
    }
    this.events.hover(this.picture, box, event);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) {
      if (event.deltaX !== 0 && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX / this.width) * (this.to - this.from));
      }
      return;
    }
    event.preventDefault();
    const place = this.canvas.getBoundingClientRect();
    this.magnify(Math.exp(event.deltaY * 0.004), (event.clientX - place.left) / this.width);
  }

  /** @param {number} factor below 1 to zoom in @param {number} at the share of the width that stays in place */
  magnify(factor, at) {
    const picture = this.picture;
    if (!picture) return;
    const [low, high] = this.limits(picture);
    const pin = this.from + (this.to - this.from) * at;
    const span = Math.min(high - low, Math.max((high - low) / 1e4, (this.to - this.from) * factor));
    this.target = null;
    this.from = Math.max(low, Math.min(high - span, pin - span * at));
    this.to = this.from + span;
    this.redraw();
    this.events.magnified((high - low) / span);
  }

  /** @param {number} distance in weight */
  pan(distance) {
    const picture = this.picture;
    if (!picture) return;
    const [low, high] = this.limits(picture);
    const span = this.to - this.from;
    this.target = null;
    this.from = Math.max(low, Math.min(high - span, this.from + distance));
    this.to = this.from + span;
    this.redraw();
  }

  /** @param {Picture} picture @returns {[number, number]} */
  limits(picture) {
    const low = picture.x[picture.zoom];
    return [low, low + (picture.weight[picture.zoom] || 1)];
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0) return;
    let last = event;
    this.dragged = false;
    const move = (/** @type {PointerEvent} */ now) => {
      if (Math.abs(now.clientX - event.clientX) + Math.abs(now.clientY - event.clientY) > 4) this.dragged = true;
      if (!this.dragged) return;
      this.pan(((last.clientX - now.clientX) / this.width) * (this.to - this.from));
      this.scrollTo(this.scrolled + last.clientY - now.clientY);
      last = now;
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  /** @param {number} box */
  select(box) {
    this.selected = box;
    if (box >= 0 && this.picture) {
      const y = this.yOf(this.picture.depth[box]);
      const below = y + ROW_HEIGHT - this.height;
      if (y < 0) this.scrollTo(this.scrolled + y);
      else if (below > 0) this.scrollTo(this.scrolled + below);
      this.events.select(this.picture, box);
    }
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const picture = this.picture;
    if (!picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: this.upward ? "in" : "out", ArrowDown: this.upward ? "out" : "in" };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step) {
      event.preventDefault();
      this.select(this.selected < 0 ? picture.zoom : this.neighbour(picture, this.selected, step));
    } else if (event.key === "Enter" && this.selected >= 0) {
      event.preventDefault();
      this.events.zoom(picture, this.selected, event.timeStamp);
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      this.magnify(event.key === "-" ? 1.4 : 1 / 1.4, 0.5);
    }
  }

  /** @param {Picture} picture @param {number} box @param {string} step @returns {number} */
  neighbour(picture, box, step) {
    if (step === "out") return Math.max(0, picture.parent[box]);
    if (step === "in") return picture.childrenOf(box)[0] ?? box;
    const row = picture.rowsOfBoxes()[picture.depth[box]];
    const next = row[row.indexOf(box) + (step === "left" ? -1 : 1)];
    return next === undefined || !picture.standsOn(picture.zoom, next) ? box : next;
  }
}
