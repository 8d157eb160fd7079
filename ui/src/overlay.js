// @ts-check
// Overlays: tooltip, context menu, dialogs, short messages.

import { h, replaceContent } from "./dom.js";

/** @typedef {[string, string]} Fact a name and a value */

/** @type {HTMLElement | null} */
let tooltipElement = null;

/** @param {string} title @param {string} subtitle @param {Fact[]} facts @param {MouseEvent} event */
export function showTooltip(title, subtitle, facts, event) {
  if (tooltipElement === null) document.body.append((tooltipElement = h("div.tooltip", { role: "tooltip", hidden: true })));
  const rows = facts.map(([name, value]) => h("tr", {}, h("th", { text: name }), h("td", { text: value })));
  replaceContent(
    tooltipElement,
    h("div.tooltip-title", { text: title }),
    subtitle !== "" && h("div.tooltip-subtitle", { text: subtitle }),
    h("table", {}, h("tbody", {}, ...rows)),
  );
  tooltipElement.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tooltipElement;
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const below = event.clientY + 18;
  const top = below + height > innerHeight - 8 ? event.clientY - height - 10 : below;
  tooltipElement.style.left = `${Math.max(8, left)}px`;
  tooltipElement.style.top = `${Math.max(8, top)}px`;
}

export function hideTooltip() {
  if (tooltipElement) tooltipElement.hidden = true;
}

/** @typedef {{label: string, hint?: string, run: () => void} | null} MenuItem nothing is a line */

/** @param {MenuItem[]} items @param {{clientX: number, clientY: number}} place */
export function showMenu(items, place) {
  document.querySelector(".menu")?.remove();
  hideTooltip();
  const before = document.activeElement;
  const close = () => {
    menu.remove();
    removeEventListener("pointerdown", outside, true);
    if (before instanceof HTMLElement) before.focus();
  };
  const outside = (/** @type {Event} */ event) => {
    if (!menu.contains(/** @type {Node} */ (event.target))) close();
  };
  const buttons = items.map((item) =>
    item === null
      ? h("hr")
      : h("button.menu-item", { role: "menuitem", onclick: () => (close(), item.run()) }, h("span", { text: item.label }), h("kbd", { text: item.hint ?? "" })),
  );
  const menu = h("div.menu", { role: "menu", onkeydown: (/** @type {KeyboardEvent} */ event) => menuKey(menu, event, close) }, ...buttons);
  document.body.append(menu);
  menu.style.left = `${Math.min(place.clientX, innerWidth - menu.offsetWidth - 8)}px`;
  menu.style.top = `${Math.min(place.clientY, innerHeight - menu.offsetHeight - 8)}px`;
  addEventListener("pointerdown", outside, true);
  menu.querySelector("button")?.focus();
}

/** @param {HTMLElement} menu @param {KeyboardEvent} event @param {() => void} close */
function menuKey(menu, event, close) {
  const items = [...menu.querySelectorAll("button")];
  const at = items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  event.stopPropagation();
  if (event.key === "Escape") close();
  else if (event.key === "ArrowDown") items[(at + 1) % items.length].focus();
  else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length].focus();
  else return;
  event.preventDefault();
}

/** @param {string} text */
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

let messageTimer = 0;

/** Shows a message that disappears by itself. @param {string} text */
export function flash(text) {
  let place = document.querySelector(".flash");
  if (!place) document.body.append((place = h("div.flash", { role: "status" })));
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(messageTimer);
  messageTimer = window.setTimeout(() => place.classList.remove("shown"), 2500);
}

/** @type {[string, [string, string][]][]} */
const KEY_MAP = [
  ["Everywhere", [
    ["?", "this list"], ["/", "search"], ["u", "undo the last step"], ["1 … 9", "switch the view"],
    ["t", "next sample type"], ["d", "dark or light"], ["x", "remove the last filter"], ["a", "add a filter"], ["Esc", "leave search, zoom out"],
  ]],
  ["Flame graph", [
    ["← → ↑ ↓", "move between boxes"], ["Enter", "zoom to the box"], ["0", "zoom out to everything"],
    ["+ −", "magnify"], ["Ctrl + wheel", "magnify at the mouse"], ["drag", "move"], ["i", "callers instead of callees"],
    ["g", "grow upwards or downwards"], ["r", "show every frame, or fold those of others"], ["n", "fold generics"],
  ]],
  ["Timeline", [["drag", "select a time range"], ["← →", "move the range"], ["Shift + ← →", "move its end"]]],
  ["On the selected function", [
    ["f", "focus: keep only stacks with it"], ["o", "ignore: drop stacks with it"], ["h", "hide its frames"],
    ["s", "sandwich: callers and callees"], ["e", "source and instructions"], ["c", "copy its name"],
  ]],
];

export function showHelp() {
  const parts = KEY_MAP.map(([title, keys]) =>
    h("section", {}, h("h3", { text: title }), h("dl", {}, ...keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: what })]))),
  );
  showDialog("Keys", h("div.key-map", {}, ...parts));
}

/** @param {string} title @param {HTMLElement} content @returns {HTMLDialogElement} */
export function showDialog(title, content) {
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": title, onclose: () => dialog.remove() }));
  const close = h("button.quiet", { "aria-label": "Close", text: "✕", onclick: () => dialog.close() });
  dialog.append(h("header", {}, h("h2", { text: title }), close), content);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
