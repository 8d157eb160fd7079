// @ts-check
// Builds elements without parsing HTML, so a name in a profile can never be anything but text.

/**
 * @param {string} tag an element's name, with classes after dots: `div.row.wide`
 * @param {Record<string, any>} attributes `onclick` and the like are listeners, `text` is the content
 * @param {(Node | string | null | undefined | false)[]} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) setAttribute(element, key, value);
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** @param {HTMLElement} element @param {string} key @param {any} value */
function setAttribute(element, key, value) {
  if (key.startsWith("aria-") && typeof value === "boolean") return element.setAttribute(key, String(value));
  if (value === null || value === undefined || value === false) return;
  if (key === "text") element.textContent = value;
  else if (key === "style") Object.assign(element.style, value);
  else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "value") /** @type {HTMLInputElement} */ (element).value = value;
  else element.setAttribute(key, value === true ? "" : String(value));
}

/** @param {Element} parent @param {(Node | string | null | false)[]} children */
export function replaceContent(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== false));
}

/**
 * Calls `action` once, after `wait` milliseconds without another call.
 * @param {number} wait @param {() => void} action @returns {() => void}
 */
export function debounced(wait, action) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(action, wait);
  };
}

/** Calls `action` after the next paint. @param {() => void} action */
export function afterPaint(action) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = action;
    channel.port2.postMessage(null);
  });
}

/**
 * Rebuilds a part of the page and gives the focus back to the element that had it, if it still exists.
 * @param {Element} parent @param {() => void} build
 */
export function keepingFocus(parent, build) {
  const before = document.activeElement;
  const key = before && parent.contains(before) ? focusKey(before) : null;
  build();
  if (key === null) return;
  const same = [...parent.querySelectorAll("button, select, input")].find((element) => focusKey(element) === key);
  if (same instanceof HTMLElement) same.focus();
}

/** @param {Element} element */
function focusKey(element) {
  return element.getAttribute("data-key") ?? element.getAttribute("aria-label") ?? element.textContent;
}

/** Copies text, also in pages opened from disk. @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = /** @type {HTMLTextAreaElement} */ (h("textarea", { value: text }));
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
