// @ts-check
// Label selectors of a fleet, such as {version="2"}: reading, completing, and choosing two values to compare.

import { h, replaceContent } from "./dom.js";

/**
 * @typedef {{name: string, values: string[]}} LabelValues
 */

/** Options that are offered at once. */
const MOST_OFFERED = 200;

/** A condition that a label has a value. @param {string} name @param {string} value */
export function condition(name, value) {
  return `${name}="${value.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}

/** The inside of a selector, without braces. @param {string} select */
function inside(select) {
  return select.trim().replace(/^\{/, "").replace(/\}$/, "").trim().replace(/,$/, "").trim();
}

/** Adds a condition to a selector. @param {string} select @param {string} name @param {string} value */
export function withLabel(select, name, value) {
  const before = inside(select);
  return `{${before === "" ? "" : `${before}, `}${condition(name, value)}}`;
}

/**
 * The selectors that complete what was typed: the conditions before the last one stay.
 * @param {LabelValues[]} labels @param {string} typed @returns {string[]}
 */
export function completions(labels, typed) {
  const parts = /^(.*,)?([^,]*)$/s.exec(typed.trim().replace(/^\{/, "").replace(/\}$/, "")) ?? ["", "", ""];
  const [before, last] = [(parts[1] ?? "").trim(), (parts[2] ?? "").trim().toLowerCase()];
  const found = [];
  for (const { name, values } of labels) {
    for (const value of values) {
      const text = condition(name, value);
      if (found.length < MOST_OFFERED && text.toLowerCase().includes(last)) found.push(`{${before}${before === "" ? "" : " "}${text}}`);
    }
  }
  return found;
}

/**
 * The row below the time picker: a selector with completion, and two values of a label to compare.
 * @param {{onSelect: (select: string) => void, onCompare: (base: string, wanted: string) => void}} actions
 */
export function labelRow(actions) {
  const list = h("datalist", { id: "label-completions" });
  const field = /** @type {HTMLInputElement} */ (h("input.label-select", { list: "label-completions", "aria-label": "Labels", placeholder: '{version="2"}', spellcheck: "false", autocomplete: "off" }));
  const name = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Label to compare by", onchange: () => showValues() }));
  const base = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "First value" }));
  const wanted = /** @type {HTMLSelectElement} */ (h("select.profiles", { "aria-label": "Second value" }));
  const compare = h("button.toggle", { text: "Compare these two values", title: "Show what changes from the first value to the second in the selected range", onclick: () => compareValues() });
  const pair = h("span.label-pair", {}, name, base, "→", wanted, compare);
  const element = h("div.picker-actions.label-row", { hidden: true }, h("span", { text: "Labels" }), field, list, h("span.spring"), pair);
  /** @type {LabelValues[]} */
  let labels = [];

  const offer = () => replaceContent(list, ...completions(labels, field.value).map((value) => h("option", { value })));
  field.addEventListener("input", offer);
  field.addEventListener("change", () => actions.onSelect(field.value.trim()));

  function showValues() {
    const values = labels.find((label) => label.name === name.value)?.values ?? [];
    const options = () => values.map((value) => h("option", { value, text: value }));
    replaceContent(base, ...options());
    replaceContent(wanted, ...options());
    base.value = values.at(-2) ?? values[0] ?? "";
    wanted.value = values.at(-1) ?? "";
  }

  function compareValues() {
    const [one, other] = [base, wanted].map((side) => withLabel(field.value, name.value, side.value));
    if (base.value !== wanted.value) actions.onCompare(one, other);
  }

  return {
    element,
    /** @param {string} select */
    show(select) {
      field.value = select;
    },
    /** @param {LabelValues[]} next @param {string} select */
    update(next, select) {
      labels = next;
      element.hidden = next.length === 0;
      field.value = select;
      const several = next.filter((label) => label.values.length > 1);
      pair.hidden = several.length === 0;
      const before = name.value;
      replaceContent(name, ...several.map((label) => h("option", { value: label.name, text: label.name })));
      const usual = several.find((label) => label.name === before) ?? several.find((label) => /version|git_ref/.test(label.name)) ?? several[0];
      name.value = usual?.name ?? "";
      showValues();
      offer();
    },
  };
}
