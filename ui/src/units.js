// @ts-check
// Formats values with the units and rounding of pprof (and of `flamelet top`).

/** @typedef {{name: string, aliases: string[], factor: number}} Unit */

/** @type {{fallback: [string, number], units: Unit[]}[]} */
const UNIT_FAMILIES = [
  {
    fallback: ["B", 1],
    units: [
      { name: "B", aliases: ["b", "byte"], factor: 1 },
      { name: "kB", aliases: ["kb", "kbyte", "kilobyte"], factor: 2 ** 10 },
      { name: "MB", aliases: ["mb", "mbyte", "megabyte"], factor: 2 ** 20 },
      { name: "GB", aliases: ["gb", "gbyte", "gigabyte"], factor: 2 ** 30 },
      { name: "TB", aliases: ["tb", "tbyte", "terabyte"], factor: 2 ** 40 },
      { name: "PB", aliases: ["pb", "pbyte", "petabyte"], factor: 2 ** 50 },
    ],
  },
  {
    fallback: ["s", 1e9],
    units: [
      { name: "ns", aliases: ["ns", "nanosecond"], factor: 1 },
      { name: "us", aliases: ["μs", "us", "microsecond"], factor: 1e3 },
      { name: "ms", aliases: ["ms", "millisecond"], factor: 1e6 },
      { name: "s", aliases: ["s", "sec", "second"], factor: 1e9 },
      { name: "hrs", aliases: ["hour", "hr"], factor: 3600e9 },
    ],
  },
];

/**
 * `1536, "bytes"` is `1.50kB`; a unit that says nothing, such as `count`, is left out.
 * @param {number} value @param {string} unit @returns {string}
 */
export function valueLabel(value, unit) {
  const lower = unit.toLowerCase();
  const singular = lower.length > 2 && lower.endsWith("s") ? lower.slice(0, -1) : lower;
  for (const family of UNIT_FAMILIES) {
    const from = family.units.find((candidate) => candidate.aliases.includes(singular));
    if (!from) continue;
    const base = Math.abs(value) * from.factor;
    const fitting = family.units.findLast((candidate) => base / candidate.factor >= 1);
    const [name, factor] = fitting ? [fitting.name, fitting.factor] : family.fallback;
    return withUnit((Math.sign(value) * base) / factor, name);
  }
  return Number.isInteger(value) ? grouped(value) : withUnit(value, "");
}

/** @param {number} value @param {string} unit */
function withUnit(value, unit) {
  const text = value.toFixed(2).replace(/\.00$/, "");
  return text === "0" || text === "-0" ? "0" : text + unit;
}

/**
 * Whole numbers with thin spaces between groups of three, for exact values.
 * @param {number} value @returns {string}
 */
export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/**
 * The value and, where the label rounds it, the exact one: `1.23s (1 234 567 890 nanoseconds)`.
 * @param {number} value @param {string} unit @returns {string}
 */
export function exactLabel(value, unit) {
  const label = valueLabel(value, unit);
  const plain = ["", "count", "samples", "objects"].includes(unit);
  return plain ? label : `${label} (${grouped(value)} ${unit})`;
}

/**
 * A share in percent: `100%`, `12.34%`, `0.12%`.
 * @param {number} value @param {number} total @returns {string}
 */
export function shareLabel(value, total) {
  if (total === 0) return "0%";
  const share = (100 * Math.abs(value)) / Math.abs(total);
  if (share >= 99.95 && share <= 100.05) return "100%";
  if (share >= 1) return `${share.toFixed(2)}%`;
  if (share === 0) return "0%";
  return `${Number(share.toPrecision(2))}%`;
}

/**
 * A change with its sign: `+1.50s`.
 * @param {number} value @param {string} unit @returns {string}
 */
export function changeLabel(value, unit) {
  return (value > 0 ? "+" : "") + valueLabel(value, unit);
}

/**
 * A duration: `1.250s`, `40ms`.
 * @param {number} nanos @returns {string}
 */
export function timeLabel(nanos) {
  if (nanos >= 100e9) return `${(nanos / 1e9).toFixed(0)}s`;
  if (nanos >= 1e9) return `${(nanos / 1e9).toFixed(2)}s`;
  return `${Number((nanos / 1e6).toPrecision(3))}ms`;
}

/** A change of at least this many standard deviations is more than noise. */
const NOISE_SIGMAS = 3;

/** How much two runs of the same program differ, as a share of the value; `flamelet diff` assumes the same. */
const ASSUMED_VARIATION = 0.08;

/**
 * Whether a change may be noise: a value of `count` samples varies by the square root of `count`, and by how much runs
 * differ. For rows that `flamelet diff` does not judge; of functions, its verdict comes with the answer.
 * @param {number} base @param {number} now @param {number} perSample what one sample stands for @returns {boolean}
 */
export function isNoise(base, now, perSample) {
  const sampling = (Math.abs(base) + Math.abs(now)) * perSample;
  const runs = ASSUMED_VARIATION ** 2 * (base ** 2 + now ** 2);
  const deviation = Math.sqrt(sampling + runs);
  return now === base || Math.abs(now - base) < NOISE_SIGMAS * deviation;
}
