// @ts-check
// Rust names are long; this finds the parts that people read first.

/** Cache of short names by full name, since a picture is drawn many times. @type {Map<string, string>} */
const shortNames = new Map();
const MOST_SHORT_NAMES = 20_000;

/**
 * The last two segments of a path, without generics: `Context::run_task`.
 * @param {string} name @returns {string}
 */
export function shortName(name) {
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
  const steps = plain.split("::").filter((step) => step !== "");
  if (steps.length <= 2) return plain;
  const last = steps[steps.length - 1];
  // A closure says nothing without the function around it.
  const count = last.startsWith("{") ? 3 : 2;
  return steps.slice(-count).join("::");
}

/**
 * A name without the text between angle brackets; `<T as Trait>::f` becomes `T::f`.
 * @param {string} name @returns {string}
 */
export function withoutGenerics(name) {
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
export function fittedName(name, width, measure) {
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
 * A C++ name without its arguments; other names are left as they are.
 * @param {string} name @returns {string}
 */
export function withoutArguments(name) {
  const text = name.replace(/ const$/, "");
  if (!text.endsWith(")")) return name;
  let depth = 0;
  for (let at = text.length - 1; at > 0; at--) {
    if (text[at] === ")") depth++;
    if (text[at] !== "(" || --depth > 0) continue;
    const before = text.slice(0, at);
    return before.endsWith("operator") || before.endsWith(".") ? name : before;
  }
  return name;
}
