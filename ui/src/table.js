// @ts-check
// A table of any length: only the visible rows are elements.

import { h } from "./dom.js";

const TABLE_ROW = 24;
/** The number of rows to print, a few pages. */
const MOST_PRINTED = 200;
let tables = 0;

/**
 * @typedef {object} Column
 * @property {string} id @property {string} title @property {string} [hint]
 * @property {boolean} [number] @property {boolean} [sortable]
 */

export class VirtualTable {
  /**
   * @param {object} options
   * @param {Column[]} options.columns
   * @param {string} options.label
   * @param {(row: number) => HTMLElement[]} options.cells the cells of a row
   * @param {(column: string) => void} [options.sort]
   * @param {(row: number) => void} [options.open] Enter or a double click
   * @param {(row: number, event: MouseEvent) => void} [options.menu]
   * @param {(row: number) => void} [options.select]
   * @param {(row: number, key: string) => boolean} [options.key] returns whether it handled the key
   * @param {(row: number) => {level: number, open: boolean | null}} [options.level] in a tree: the depth of a row, and whether it is open
   */
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.selected = -1;
    this.first = -1;
    this.isPrinted = false;
    this.id = `table-${tables++}`;
    this.headings = h("div.table-head", { role: "row" });
    this.body = h("div.table-body", { role: "rowgroup" });
    this.spacer = h("div.table-spacer", {}, this.body);
    this.scroller = h("div.table-scroll", { tabindex: 0, role: options.level ? "treegrid" : "grid", "aria-label": options.label }, this.headings, this.spacer);
    this.element = h("div.table", {}, this.scroller);
    this.setColumns(options.columns, "");
    this.scroller.addEventListener("scroll", () => this.draw(false));
    this.scroller.addEventListener("keydown", (event) => this.keyDown(event));
    new ResizeObserver(() => this.draw(true)).observe(this.scroller);
  }

  /** @param {Column[]} columns @param {string} sorted */
  setColumns(columns, sorted) {
    this.columns = columns;
    this.headings.replaceChildren(
      ...columns.map((column) => {
        const isSorted = column.id === sorted;
        const classes = `th col-${column.id}${column.number ? " number" : ""}`;
        const attributes = { role: "columnheader", title: column.hint, "aria-sort": isSorted ? "descending" : null, class: classes };
        if (!column.sortable) return h("div", attributes, column.title);
        const sort = () => this.options.sort?.(column.id);
        return h("div", attributes, h("button.quiet", { onclick: sort, text: column.title + (isSorted ? " ▾" : "") }));
      }),
    );
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    this.selected = Math.min(this.selected, count - 1);
    this.spacer.style.height = `${count * TABLE_ROW}px`;
    this.scroller.setAttribute("aria-rowcount", String(count));
    this.draw(true);
  }

  /** @param {boolean} force */
  draw(force) {
    const first = this.isPrinted ? 0 : Math.max(0, Math.floor(this.scroller.scrollTop / TABLE_ROW) - 8);
    if (!force && first === this.first) return;
    this.first = first;
    const room = this.isPrinted ? MOST_PRINTED : Math.ceil(this.scroller.clientHeight / TABLE_ROW) + 18;
    const last = Math.min(this.count, first + room);
    const rows = [];
    for (let row = first; row < last; row++) rows.push(this.rowElement(row));
    this.body.style.transform = `translateY(${first * TABLE_ROW}px)`;
    this.body.replaceChildren(...rows);
    const selected = this.selected >= first && this.selected < last;
    if (selected) this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  /** Shows the first rows in full for printing, where nothing scrolls. @param {boolean} on */
  printed(on) {
    this.isPrinted = on;
    this.spacer.style.height = on ? "auto" : `${this.count * TABLE_ROW}px`;
    this.draw(true);
  }

  /** @param {number} row */
  rowElement(row) {
    const cells = this.options.cells(row);
    cells.forEach((cell, at) => {
      const column = this.columns?.[at];
      cell.classList.add("td", `col-${column?.id}`);
      if (column?.number) cell.classList.add("number");
      cell.setAttribute("role", "gridcell");
    });
    const place = this.options.level?.(row);
    return h(
      `div.tr${row === this.selected ? ".selected" : ""}`,
      {
        role: "row",
        id: `${this.id}-${row}`,
        "aria-level": place?.level,
        "aria-expanded": place?.open ?? null,
        "aria-rowindex": row + 1,
        "aria-selected": row === this.selected,
        onclick: () => this.select(row),
        ondblclick: () => this.options.open?.(row),
        oncontextmenu: (/** @type {MouseEvent} */ event) => {
          if (!this.options.menu) return;
          event.preventDefault();
          this.select(row);
          this.options.menu(row, event);
        },
      },
      ...cells,
    );
  }

  /** @param {number} row */
  select(row) {
    if (row < 0 || row >= this.count) return;
    this.selected = row;
    const top = row * TABLE_ROW;
    const room = this.scroller.clientHeight - TABLE_ROW - 28;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.options.select?.(row);
    this.draw(true);
  }

  /** @param {KeyboardEvent} event */
  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / TABLE_ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (move !== undefined) this.select(Math.max(0, Math.min(this.count - 1, this.selected + move)));
    else if (event.key === "Enter" && this.selected >= 0) this.options.open?.(this.selected);
    else if (this.selected < 0 || !this.options.key?.(this.selected, event.key)) return;
    event.preventDefault();
  }
}

/** A number with a bar behind it that shows its share. @param {string} text @param {number} share @param {string} [title] */
export function barCell(text, share, title) {
  const width = `${Math.max(0, Math.min(100, share * 100)).toFixed(2)}%`;
  return h("div", { title }, h("span.share", { style: { width } }), h("span.bar-text", { text }));
}
