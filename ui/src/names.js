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
 * A C++ name without its arguments, what follows them, and its return type; other names are left as they are.
 * @param {string} name @returns {string}
 */
export function withoutArguments(name) {
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
