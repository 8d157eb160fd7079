// @ts-check
// Colours of boxes, read from the style sheet so that themes stay in one place.

/** @typedef {[number, number, number]} Rgb */

/** @param {string} hex @returns {Rgb} */
export function rgbOf(hex) {
  const number = parseInt(hex.trim().slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

/** @param {Rgb} from @param {Rgb} to @param {number} share @returns {Rgb} */
export function mixed(from, to, share) {
  const part = (/** @type {number} */ at) => Math.round(from[at] + (to[at] - from[at]) * share);
  return [part(0), part(1), part(2)];
}

/** The WCAG contrast ratio of two colours, 1 to 21. @param {Rgb} one @param {Rgb} other */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** @param {Rgb} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {Rgb} colour */
export function cssOf(colour) {
  return `rgb(${colour.join(",")})`;
}

/** How much of the background shows through the two shades of a hue. */
export const SHADES = [0, 0.16];
const HUE_COUNT = 31;
const HEAT_STEPS = 16;

/** The least contrast of text that passes WCAG AA. */
export const LEAST_CONTRAST = 4.5;

/** A text colour that is readable on `paper`: `ink` if its contrast is enough, else black or white. @param {Rgb} paper @param {Rgb} ink @returns {Rgb} */
export function inkOn(paper, ink) {
  if (contrast(paper, ink) >= LEAST_CONTRAST) return ink;
  return contrast(paper, [0, 0, 0]) > contrast(paper, [255, 255, 255]) ? [0, 0, 0] : [255, 255, 255];
}

/** The colours of the current theme. */
export class Palette {
  /** @param {(name: string) => string} variable reads a custom property of the style sheet */
  constructor(variable) {
    const bg = rgbOf(variable("--bg"));
    /** By hue and shade. @type {string[][]} */
    this.hues = [];
    for (let hue = 0; hue < HUE_COUNT; hue++) {
      const colour = rgbOf(variable(`--h${hue}`));
      this.hues.push(SHADES.map((share) => cssOf(mixed(colour, bg, share))));
    }
    const heats = Array.from({ length: HEAT_STEPS + 1 }, (_, at) => heatColour(variable, at / HEAT_STEPS));
    this.heat = heats.map(cssOf);
    /** The text colour for each step of heat. */
    this.heatInk = heats.map((paper) => cssOf(inkOn(paper, rgbOf(variable("--box-ink")))));
    const heat = [1, 3].map((step) => rgbOf(variable(`--heat-${step}`)));
    const cool = rgbOf(variable("--h0"));
    const rest = rgbOf(variable("--root-box"));
    const change = (/** @type {number} */ share) => {
      const strength = Math.sqrt(Math.abs(share));
      return share < 0 ? mixed(rest, cool, strength) : mixed(rest, strength < 0.5 ? heat[0] : heat[1], strength);
    };
    this.changes = Array.from({ length: 2 * HEAT_STEPS + 1 }, (_, at) => cssOf(change(at / HEAT_STEPS - 1)));
    this.root = variable("--root-box");
    this.ink = variable("--box-ink");
    this.hit = variable("--hit");
    this.hitInk = variable("--hit-ink");
    this.bg = variable("--bg");
    this.accent = variable("--accent");
    this.soft = variable("--soft");
    this.line = variable("--line");
    this.text = variable("--ink");
  }

  /** @param {number} share 0 to 1 */
  heatOf(share) {
    return this.heat[heatStep(share)];
  }

  /** @param {number} share 0 to 1 */
  heatInkOf(share) {
    return this.heatInk[heatStep(share)];
  }

  /** @param {number} share of what changed, -1 (gone) to 1 (new) */
  changeOf(share) {
    return this.changes[Math.round((Math.max(-1, Math.min(1, share)) + 1) * HEAT_STEPS)];
  }
}

/** @param {number} share */
function heatStep(share) {
  return Math.round(Math.max(0, Math.min(1, share)) * HEAT_STEPS);
}

/** @param {(name: string) => string} variable @param {number} share @returns {Rgb} */
function heatColour(variable, share) {
  const place = share * 4;
  const step = Math.min(3, Math.floor(place));
  return mixed(rgbOf(variable(`--heat-${step}`)), rgbOf(variable(`--heat-${step + 1}`)), place - step);
}

/** Patterns that distinguish system libraries and the kernel without colour. @typedef {{system: CanvasPattern | null, kernel: CanvasPattern | null}} Patterns */

/** @param {Palette} palette @returns {Patterns} */
export function patternsOf(palette) {
  const tile = (/** @type {(context: CanvasRenderingContext2D) => void} */ draw) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [6, 6];
    const context = canvas.getContext("2d");
    if (!context) return null;
    context.globalAlpha = 0.2;
    context.fillStyle = context.strokeStyle = palette.ink;
    draw(context);
    return context.createPattern(canvas, "repeat");
  };
  return {
    system: tile((context) => context.fillRect(1, 1, 2, 2)),
    kernel: tile((context) => {
      context.beginPath();
      for (const shift of [-6, 0, 6]) {
        context.moveTo(shift, 6);
        context.lineTo(shift + 6, 0);
      }
      context.stroke();
    }),
  };
}

/** The palette of the current theme. @returns {Palette} */
export function currentPalette() {
  const style = getComputedStyle(document.documentElement);
  return new Palette((name) => style.getPropertyValue(name).trim());
}
