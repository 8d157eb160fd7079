// The page in a real browser: `ui/test` prepares what this needs and runs it.
//
// FLAMELET_UI_SERVE  the example server of flamelet-view (target/debug/examples/serve)
// FLAMELET_UI_OUT    where node_modules with playwright-core is, and where screenshots go (target/ui-tests)
// CHROMIUM           the browser (/usr/bin/chromium)

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const serve = process.env.FLAMELET_UI_SERVE ?? path.join(root, "target/debug/examples/serve");
const out = process.env.FLAMELET_UI_OUT ?? path.join(root, "target/ui-tests");
const shots = path.join(out, "screenshots");
const { chromium } = createRequire(path.join(out, "package.json"))("playwright-core");

/** The height of a row of a flame graph, and the y of the middle of a row. */
const ROW = 19;
const FIRST_ROW = 104;
const rowY = (row) => FIRST_ROW + row * ROW + ROW / 2;

/** How long something is waited for: on a busy machine nothing is fast, and only a failure takes so long. */
const PATIENCE = 120_000;

let browser;
const servers = [];

before(async () => {
  mkdirSync(shots, { recursive: true });
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args, timeout: PATIENCE });
});

after(async () => {
  await browser?.close();
  for (const server of servers) server.kill();
});

/** Starts the example server. @returns {Promise<string>} its address */
async function served(...what) {
  const server = spawn(serve, what, { stdio: ["ignore", "pipe", "inherit"] });
  servers.push(server);
  const line = await new Promise((resolve, reject) => {
    server.stdout.once("data", (data) => resolve(String(data).trim()));
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return line;
}

/** Writes a page to a file. @returns {Promise<string>} its address */
async function exported(kind) {
  const file = path.join(out, `${kind}.html`);
  const writer = spawn(serve, ["export", kind, file], { stdio: "inherit" });
  const code = await new Promise((resolve) => writer.once("exit", resolve));
  assert.equal(code, 0);
  return pathToFileURL(file).href;
}

/** Opens a page; anything that goes wrong in it fails the test. */
async function opened(address, { expect, ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, reducedMotion: "reduce", ...options });
  page.setDefaultTimeout(PATIENCE);
  page.problems = [];
  page.requests = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("request", (request) => page.requests.push(request.url()));
  await page.goto(address.includes("#") ? address : `${address}#/flame`);
  const view = /#\/(\w+)/.exec(address)?.[1] ?? "flame";
  if (expect) await page.waitForSelector(expect);
  else if (["flame", "sandwich"].includes(view)) await settled(page);
  return page;
}

/** Until the flame graph at hand is there. */
async function settled(page) {
  await page.waitForSelector("main[aria-busy=false] .flame-holder .for-readers td", { state: "attached" });
}

/** Waits until the page says so: no fixed pauses. */
const until = (page, condition, argument) => page.waitForFunction(condition, argument);
const hashHas = (page, text) => until(page, (text) => decodeURIComponent(location.hash).includes(text), text);
const hashLacks = (page, text) => until(page, (text) => !decodeURIComponent(location.hash).includes(text), text);
const textIs = (page, selector, text) => until(page, ([selector, text]) => document.querySelector(selector)?.textContent?.includes(text), [selector, text]);
const shot = (page, name) => page.screenshot({ path: path.join(shots, `${name}.png`) });

/** The text of the tooltip of the box at a place, once it is as expected: a page follows its address a moment later. */
async function tooltipAt(page, x, row, expected) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    await settled(page);
    await page.mouse.move(x, rowY(row) + 1);
    await page.mouse.move(x, rowY(row));
    const text = await page.evaluate(() => document.querySelector(".tooltip:not([hidden])")?.textContent ?? "");
    if (expected.test(text)) return text;
    if (Date.now() > end) assert.match(text, expected);
    await page.waitForTimeout(50);
  }
}

async function closed(page) {
  assert.deepEqual(page.problems, []);
  await page.close();
}

let service;

/** The address of what the service answers at a path, with its token. */
function api(path) {
  const token = new URL(service).searchParams.get("token");
  return `${new URL(path.split("?")[0], service).href.split("?")[0]}?${path.split("?")[1] ?? ""}&token=${token}`;
}

test("opens with the flame graph painted", async () => {
  service = await served("service");
  const page = await opened(service);
  assert.equal(await page.title(), "service – flamelet");
  assert.equal(await page.textContent(".total"), "8.89s");
  assert.equal(await page.getAttribute(".tab[aria-selected=true]", "title"), "Flame graph (2)");
  const colours = await page.evaluate(() => {
    const canvas = document.querySelector(".flame canvas");
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(pixels).size;
  });
  assert.ok(colours > 8, `${colours} colours on the canvas`);
  const tooltip = await tooltipAt(page, 600, 2, /checkout::main/);
  assert.match(tooltip, /8\.89s \(8\u202f888\u202f000\u202f000 nanoseconds\) · 100%/);
  await shot(page, "flame");
  await closed(page);
});

test("zoom, back, forward, reload", async () => {
  const page = await opened(service);
  await page.mouse.click(1100, rowY(4));
  await hashHas(page, "z=");
  await settled(page);
  const zoomed = page.url();
  await tooltipAt(page, 30, 4, /checkout::routes::pay::submit/);
  await page.reload();
  await settled(page);
  assert.equal(page.url(), zoomed);
  await tooltipAt(page, 30, 4, /checkout::routes::pay::submit.*of the zoomed box100%/);
  await page.goBack();
  await hashLacks(page, "z=");
  await tooltipAt(page, 30, 4, /checkout::routes::cart::show/);
  await page.goForward();
  await hashHas(page, "z=");
  await page.click("text=Zoom out");
  await hashLacks(page, "z=");
  await closed(page);
});

test("search shows the share that matches", async () => {
  const page = await opened(service);
  await page.keyboard.press("/");
  await page.keyboard.type("serde_json");
  await textIs(page, ".matched", "26.10% matched");
  await hashHas(page, "q=serde_json");
  await shot(page, "search");
  await page.keyboard.type("(");
  await textIs(page, ".matched", "invalid expression");
  await page.keyboard.press("Escape");
  await page.click(".tab >> text=Top");
  await page.fill(".search", "serde");
  await textIs(page, ".table-footer", "4 functions");
  await closed(page);
});

test("another sample type", async () => {
  const page = await opened(service);
  await page.selectOption("select[aria-label='Sample type']", "samples");
  await textIs(page, ".total", "8\u202f888");
  await hashHas(page, "type=samples");
  await until(page, () => document.querySelector(".for-readers td:nth-child(2)")?.textContent === "1\u202f313");
  await tooltipAt(page, 600, 2, /total8\u202f888 · 100%/);
  await page.locator(".flame canvas").first().focus();
  await page.keyboard.press("t");
  await textIs(page, ".total", "8.89s");
  await closed(page);
});

test("filters are chips that can be added, undone and removed", async () => {
  const page = await opened(service);
  await page.mouse.click(200, rowY(5), { button: "right" });
  await page.click(".menu >> text=Focus on it");
  await textIs(page, ".chip", "focus:^checkout::store::Cart::load$");
  await until(page, () => document.querySelector(".for-readers td:nth-child(2)")?.textContent === "809ms");
  await page.keyboard.press("a");
  await page.selectOption("dialog select", "hide");
  await page.fill("dialog input", "^tokio::");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelectorAll(".chip").length === 2);
  await shot(page, "chips");
  await page.keyboard.press("u");
  await until(page, () => document.querySelectorAll(".chip").length === 1);
  await page.click(".chip button");
  await until(page, () => document.querySelectorAll(".chip").length === 0);
  await page.keyboard.press("a");
  await page.fill("dialog input", "(");
  await page.keyboard.press("Enter");
  await textIs(page, ".error", "focus: '(' is not a regular expression");
  page.problems = page.problems.filter((problem) => !problem.includes("400"));
  await closed(page);
});

test("the top table shows what the server counts, and sorts", async () => {
  const page = await opened(service);
  await page.keyboard.press("3");
  await page.waitForSelector(".tr");
  const answer = await (await fetch(api("api/functions?sort=flat"))).json();
  const first = await page.textContent(".tr >> nth=0");
  assert.equal(answer.flat[0], 1_313_000_000);
  assert.match(first, /1\.31s14\.77%1\.31s14\.77%regex_automata::dfa::search::find_fwd/);
  await page.click("text=Total >> nth=0");
  await hashHas(page, "sort=cum");
  await textIs(page, ".tr", "100%");
  await page.focus(".table-scroll");
  await page.keyboard.press("End");
  await textIs(page, ".tr.selected", "axum::response::into_response");
  await shot(page, "top");
  await page.dblclick(".tr >> text=serde_json::de::from_slice");
  await hashHas(page, "/sandwich");
  await textIs(page, ".pivot-name", "serde_json::de::from_slice");
  await closed(page);
});

test("sandwich: callers above, callees below, both as heavy as the function", async () => {
  const page = await opened(`${service}#/sandwich?fn=checkout::store::Cart::load`);
  await textIs(page, ".pivot-facts", "total 2.25s (2\u202f251\u202f000\u202f000 nanoseconds) · 25.33%");
  const tables = await page.$$eval(".flame-holder .for-readers", (places) => places.map((place) => place.textContent));
  assert.match(tables[0], /std::rt::lang_start::\{\{closure\}\}2\.25s/);
  assert.match(tables[1], /parse_str/);
  await shot(page, "sandwich");
  await page.click(".sandwich-list .tr >> text=checkout::pay::sign");
  await textIs(page, ".pivot-name", "checkout::pay::sign");
  await page.goBack();
  await textIs(page, ".pivot-name", "checkout::store::Cart::load");
  await closed(page);
});

test("the call tree opens by keyboard", async () => {
  const page = await opened(service);
  await page.click(".tab >> text=Call tree");
  await textIs(page, ".table-body", "checkout::routes::cart::show");
  await page.click(".tr >> text=checkout::routes::cart::show");
  await page.focus(".table-scroll");
  await page.keyboard.press("ArrowRight");
  await textIs(page, ".table-body", "checkout::store::Cart::load");
  await shot(page, "tree");
  await page.keyboard.press("ArrowLeft");
  await until(page, () => !document.querySelector(".table-body").textContent.includes("Cart::load"));
  await closed(page);
});

test("brushing the timeline narrows every view", async () => {
  const page = await opened(service);
  await page.click(".tab >> text=Timeline");
  await page.waitForSelector(".timeline canvas");
  await until(page, () => document.querySelector(".timeline-height")?.style.height !== "");
  const seconds = () => page.evaluate(() => Number(/([\d\s]+) nanoseconds/.exec(document.querySelector(".total")?.title ?? "")?.[1].replace(/\s/g, "")) / 1e9);
  const whole = await seconds();
  await page.mouse.move(400, 200);
  await page.mouse.down();
  await page.mouse.move(600, 210, { steps: 4 });
  await page.mouse.up();
  await hashHas(page, "t=");
  await textIs(page, ".chip", "time:");
  await shot(page, "timeline");
  await page.keyboard.press("2");
  await settled(page);
  const tooltip = await tooltipAt(page, 600, 2, /· [\d.]+%/);
  const share = Number(/· ([\d.]+)%/.exec(tooltip)[1]);
  assert.equal(share, 100, `shares are of the range: ${tooltip}`);
  const range = await seconds();
  assert.ok(range > 0.05 * whole && range < 0.6 * whole, `${range} of ${whole}`);
  const before = page.requests.length;
  for (const title of await page.$$eval(".tab", (tabs) => tabs.map((tab) => tab.title))) {
    await page.click(`.tab[title="${title}"]`);
    await page.waitForSelector("main[aria-busy=false]");
    assert.equal(await seconds(), range, title);
  }
  // The timeline and the heatmap show the whole recording, to choose another range.
  const asked = page.requests.slice(before).filter((url) => /\/api\/(?!timeline|heatmap)/.test(url));
  assert.ok(asked.length > 3, asked.join());
  for (const url of asked) assert.match(url, /[?&]t=/, "every tab shows the range");
  await page.click(".tab[title^='Info']");
  await textIs(page, ".info", "in the whole recording");
  await page.keyboard.press("9");
  await page.click("text=Compare with this range");
  await textIs(page, ".chip", "against time:");
  await page.waitForSelector("main[aria-busy=false] .timeline canvas");
  await page.mouse.move(800, 200);
  await page.mouse.down();
  await page.mouse.move(1000, 210, { steps: 4 });
  await page.mouse.up();
  await hashHas(page, "t=");
  await page.keyboard.press("2");
  await until(page, () => document.querySelector(".controls")?.textContent?.includes("Colour: change"));
  await settled(page);
  await tooltipAt(page, 600, 2, /before[\d.]+s.*now[\d.]+s.*change/);
  await closed(page);
});

test("the timeline has lanes for tasks", async () => {
  const page = await opened(service);
  await page.click(".tab >> text=Timeline");
  const lanes = () => document.querySelector(".timeline .for-readers")?.textContent ?? "";
  await until(page, () => document.querySelector(".timeline .for-readers")?.textContent?.includes("Lanes over"));
  assert.ok(!(await page.evaluate(lanes)).includes("cart::show"), "threads first");
  await page.click("text=Lanes: threads");
  await hashHas(page, "lanes=task");
  await until(page, () => document.querySelector(".timeline .for-readers")?.textContent?.includes("cart::show"));
  await shot(page, "timeline-tasks");
  await page.click("text=Lanes: tasks");
  await until(page, () => !document.querySelector(".timeline .for-readers")?.textContent?.includes("cart::show"));
  await closed(page);
});

test("labels filter and group", async () => {
  const page = await opened(service);
  await page.click(".tab >> text=Labels");
  await page.click("text=cart::show");
  await textIs(page, ".chip", "tagfocus:route=^cart::show$");
  await page.keyboard.press("u");
  await until(page, () => document.querySelectorAll(".chip").length === 0);
  await page.click(".tag:has-text('route') >> text=Group by");
  await textIs(page, ".chip", "tagroot:route");
  await shot(page, "labels");
  await page.keyboard.press("2");
  await settled(page);
  await tooltipAt(page, 100, 1, /cart::show/);
  await closed(page);
});

test("graph, heatmap, source and info draw", async () => {
  const page = await opened(service);
  await page.click(".tab >> text=Graph >> nth=1").catch(() => page.click(".tab[title^='Graph']"));
  await page.waitForSelector(".graph .node");
  assert.ok((await page.$$(".graph .node")).length > 20);
  await shot(page, "graph");
  await page.click(".tab[title^='Heatmap']");
  await page.waitForSelector("main[aria-busy=false] .heatmap .for-readers td", { state: "attached" });
  await shot(page, "heatmap");
  // A span by keys alone: its start, and its end five cells up.
  await page.locator(".heatmap canvas").focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  for (let step = 0; step < 5; step++) await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await hashHas(page, "t=0-120000000");
  await shot(page, "heatmap-span");
  await page.goto(`${service}#/source?fn=checkout::price::with_tax`);
  await textIs(page, ".listing", "tokio::runtime::runtime::Runtime::block_on");
  await shot(page, "source");
  await page.click(".tab[title^='Info']");
  await textIs(page, ".verdict", "This profile is good.");
  await shot(page, "info");
  await closed(page);
});

test("keys: move, zoom, help, theme, inverted, upwards", async () => {
  const page = await opened(service);
  await page.locator(".flame canvas").first().focus();
  for (let step = 0; step < 3; step++) await page.keyboard.press("ArrowDown");
  await textIs(page, ".status", "checkout::main — total 8.89s");
  for (let step = 0; step < 2; step++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await textIs(page, ".status", "checkout::routes::search::query");
  await page.keyboard.press("Enter");
  await hashHas(page, "z=");
  await page.keyboard.press("0");
  await hashLacks(page, "z=");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog >> text=Keys");
  await shot(page, "keys");
  await page.keyboard.press("Escape");
  await until(page, () => document.querySelector("dialog") === null);
  await page.keyboard.press("i");
  await hashHas(page, "dir=callers");
  await until(page, () => document.querySelector(".controls button")?.textContent === "Callers");
  await page.keyboard.press("g");
  await hashHas(page, "grow=up");
  await page.keyboard.press("d");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await settled(page);
  await shot(page, "dark");
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await closed(page);
});

test("the frames of others are one box that opens", async () => {
  const page = await opened(service);
  await tooltipAt(page, 600, 3, /tokio · 6 frames.*8\.89s/);
  await tooltipAt(page, 30, 4, /checkout::routes::cart::show.*yours/);
  await shot(page, "folded");
  await page.fill(".search", "block_on");
  await textIs(page, ".matched", "100% matched, 100% folded");
  // The folded box that holds the match has the colour of matches.
  await until(page, ([x, y]) => {
    const canvas = document.querySelector(".flame canvas");
    const place = canvas.getBoundingClientRect();
    const [red, green, blue] = canvas.getContext("2d").getImageData(x - place.left, y - place.top, 1, 1).data;
    const hit = getComputedStyle(document.documentElement).getPropertyValue("--hit").trim();
    return hit === `#${[red, green, blue].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  }, [1200, rowY(3)]);
  await shot(page, "folded-match");
  await page.fill(".search", "");
  await hashLacks(page, "q=");
  await page.mouse.click(600, rowY(3));
  await hashHas(page, "open=");
  await tooltipAt(page, 600, 3, /tokio::runtime::runtime::Runtime::block_on/);
  await tooltipAt(page, 30, 9, /checkout::routes::cart::show/);
  await page.reload();
  await tooltipAt(page, 600, 3, /Runtime::block_on/);
  await page.click("text=Close 1 opened");
  await tooltipAt(page, 600, 3, /tokio · 6 frames/);
  await page.keyboard.press("r");
  await hashHas(page, "fold=all");
  await tooltipAt(page, 600, 3, /Runtime::block_on/);
  assert.equal(await page.getAttribute("text=Show everything", "aria-pressed"), "true");
  await shot(page, "everything");
  await page.keyboard.press("r");
  await hashLacks(page, "fold=all");
  // By keys alone: down to the chain, and Enter opens it.
  await page.locator(".flame canvas").first().focus();
  for (let step = 0; step < 4; step++) await page.keyboard.press("ArrowDown");
  await textIs(page, ".status", "tokio · 6 frames");
  await page.keyboard.press("Enter");
  await hashHas(page, "open=");
  await page.click(".tab[title^='Graph']");
  await page.waitForSelector(".graph .node.chain");
  assert.ok((await page.$$(".graph .node.yours")).length > 5);
  await closed(page);
});

/** The rows and the area of the boxes that a page of this size shows of a flame graph. */
function shownOf(payload, { width, rows }) {
  const count = payload.parent.length;
  const [depth, x, next] = [new Array(count).fill(0), new Array(count).fill(0), new Array(count).fill(0)];
  const kindOf = (at) => (payload.name[at] < 0 ? "" : payload.chains.includes(payload.name[at]) ? "chain" : payload.owner_kinds[payload.owner[payload.name[at]]]);
  const [names, area] = [Array.from({ length: rows }, () => []), { all: 0, yours: 0 }];
  for (let at = 0; at < count; at++) {
    const parent = payload.parent[at];
    if (parent >= 0) {
      [depth[at], x[at]] = [depth[parent] + 1, next[parent]];
      next[parent] += payload.weight[at];
    }
    next[at] = x[at];
    if (depth[at] >= rows || payload.name[at] < 0 || (payload.weight[at] * width) / payload.weight[0] < 0.5) continue;
    names[depth[at]].push([kindOf(at), payload.names[payload.name[at]]]);
    area.all += payload.weight[at];
    if (kindOf(at) === "yours" || kindOf(parent) === "yours") area.yours += payload.weight[at];
  }
  return { names, area };
}

/** Opens a profile of testdata at 1500 × 950, and returns what asks what its flame graph draws, with more parameters. */
async function firstScreen(name) {
  const page = await opened(await served("file", path.join(root, "testdata", name)), { viewport: { width: 1500, height: 950 } });
  const height = await page.evaluate(() => document.querySelector(".flame canvas").clientHeight);
  const shown = async (more = "") => {
    const payload = await page.evaluate((more) => fetch(`api/flame?w=1500${more}`).then((answer) => answer.json()), more);
    const { names, area } = shownOf(payload, { width: 1500, rows: Math.floor(height / ROW) });
    return { own: names.slice(0, 5).flat().filter(([kind]) => kind === "yours").map(([, name]) => name), area };
  };
  return { page, shown };
}

test("the demo opens on its own functions", async () => {
  const { page, shown } = await firstScreen("demo-cpu.pb.gz");
  const { own, area } = await shown();
  for (const name of ["primes", "count_primes", "words", "count_words"]) assert.ok(own.some((other) => other.includes(`demo::service::${name}`)), `${name} in ${own.join(", ")}`);
  assert.ok(area.yours >= area.all / 2, `${area.yours} of ${area.all}`);
  assert.deepEqual((await shown("&fold=all")).own, [], "without folding there is none of it");
  await shot(page, "demo");
  await closed(page);
});

test("the demo's heap opens on its own functions", async () => {
  const { page, shown } = await firstScreen("demo-heap.pb.gz");
  const { own } = await shown();
  assert.ok(own.some((name) => name.includes("demo::service::")), own.join(", "));
  await shot(page, "demo-heap");
  await closed(page);
});

test("a profile of a Go program opens on its own functions", async () => {
  const { page, shown } = await firstScreen("go-cpu.pb.gz");
  const { own } = await shown();
  assert.ok(own.some((name) => name.startsWith("main.")), own.join(", "));
  await shot(page, "go");
  await closed(page);
});

test("what is said to be yours is, and stays so", async () => {
  const page = await opened(service);
  const field = "input[aria-label^='Your code']";
  await page.fill(field, "^hyper::|<hyper::");
  await page.keyboard.press("Enter");
  await hashHas(page, "mine=");
  await tooltipAt(page, 600, 3, /tokio · 3 frames/);
  await tooltipAt(page, 600, 4, /hyper::server.*yours/);
  await page.goto(new URL("/", service).href);
  await until(page, () => document.querySelector("input[aria-label^='Your code']")?.value === "^hyper::|<hyper::");
  await page.fill(field, "matches_nothing");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await page.click(".tab[title^='Flame graph']");
  await textIs(page, ".notice", "matches_nothing matches no function or file");
  await page.click(".tab[title^='Summary']");
  await textIs(page, ".summary-notes", "matches_nothing matches no function or file");
  await page.fill(field, "(");
  await page.keyboard.press("Enter");
  await textIs(page, ".error", "mine: '(' is not a regular expression");
  page.problems = page.problems.filter((problem) => !problem.includes("400"));
  await page.evaluate(() => localStorage.clear());
  await closed(page);
});

test("the summary answers first, and each line leads to a view", async () => {
  const page = await browser.newPage({ viewport: { width: 1500, height: 950 }, reducedMotion: "reduce" });
  page.setDefaultTimeout(PATIENCE);
  await page.goto(service);
  await textIs(page, ".tab[aria-selected=true]", "Summary");
  await textIs(page, ".summary-head", "8.89s cpu in");
  await textIs(page, ".summary-head", "This profile is good.");
  await textIs(page, ".summary-list", "checkout::search::Index::lookup");
  assert.match(await page.textContent(".summary-list .parts >> nth=0"), /in regex|iterating|own code/);
  await shot(page, "summary");
  await page.click(".summary-list >> text=checkout::pay::sign");
  await textIs(page, ".pivot-name", "checkout::pay::sign");
  await page.goBack();
  const first = page.locator(".finding h3 .link").first();
  const view = { "the flame graph": "flame", "the sandwich view": "sandwich", "the source": "source", "the timeline": "timeline" }[(await first.getAttribute("title"))?.replace("Show it in ", "") ?? ""];
  await first.click();
  await until(page, (view) => location.hash.startsWith(`#/${view}`), view);
  await page.goBack();
  await page.click(".summary-list:has-text('Crates') >> text=ring");
  await textIs(page, ".chip", "focus:");
  await settled(page);
  await page.goBack();
  await page.click(".summary-head .link");
  await textIs(page, ".tab[aria-selected=true]", "Info");
  await page.goBack();
  const route = page.locator(".summary-label").filter({ has: page.locator("h3", { hasText: "route" }) });
  assert.deepEqual(await route.locator("td .link").allTextContents(), ["cart::show", "search::query", "pay::submit"]);
  await route.locator("text=pay::submit").click();
  await hashHas(page, "#/flame");
  await textIs(page, ".chip", "tagfocus:route=^pay::submit$");
  await tooltipAt(page, 600, 4, /checkout::routes::pay::submit/);
  await page.goBack();
  await route.locator("h3 .link").click();
  await textIs(page, ".tags", "search::query");
  await page.close();
  const heap = await opened(`${await served("heap")}#/summary`, { expect: ".summary-list td" });
  await textIs(heap, ".summary", "Who holds memory");
  await textIs(heap, ".summary", "Who allocates");
  await textIs(heap, ".summary", "64MB at 30.00s; click to see who holds memory");
  await heap.locator(".size-over-time").press("ArrowLeft");
  await textIs(heap, ".summary", "7.50MB at 29.00s");
  const line = await heap.getAttribute(".size-line", "points");
  assert.equal(line?.split(" ").length, 60);
  await shot(heap, "summary-heap");
  await closed(heap);
});

test("a folder lists its profiles by service, the newest first", async () => {
  const folder = mkdtempSync(path.join(out, "folder-"));
  const now = Date.now() / 1000;
  for (const [name, age] of [["checkout/cpu-1.pb.gz", 60], ["checkout/cpu-2.pb.gz", 10], ["billing/perf/2026-11-16T10-00-00Z/profile.pb.gz", 30], ["loose.pb.gz", 90]]) {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    copyFileSync(path.join(root, "testdata/demo-cpu.pb.gz"), file);
    utimesSync(file, now - age, now - age);
  }
  const page = await opened(`${await served("folder", folder)}#/summary`, { expect: ".shelf-row" });
  const lines = await page.$$eval(".shelf h3, .shelf-row > span:first-child", (found) => found.map((one) => one.textContent));
  assert.deepEqual(lines, ["checkout", "cpu-2.pb.gz", "cpu-1.pb.gz", "billing/perf", "2026-11-16T10-00-00Z/profile.pb.gz", "in this folder", "loose.pb.gz"]);
  assert.match((await page.textContent(".shelf-row .soft")) ?? "", /\d:\d\d.* · \d+ kB$/);
  await page.click(".shelf-row >> text=cpu-2.pb.gz");
  await page.waitForSelector(".summary-head");
  const groups = await page.$$eval("select[aria-label=Profile] optgroup", (found) => found.map((one) => `${one.label}: ${[...one.children].map((child) => child.textContent).join(", ")}`));
  assert.deepEqual(groups, ["checkout: cpu-2.pb.gz, cpu-1.pb.gz", "billing/perf: 2026-11-16T10-00-00Z/profile.pb.gz"]);
  await closed(page);
  rmSync(folder, { recursive: true });
});

test("a folded box of an SVG file opens on a click", async () => {
  const page = await opened(pathToFileURL(path.join(root, "docs/images/flame.svg")).href, { expect: "#boxes .chain", viewport: { width: 1500, height: 950 } });
  const visible = () => page.$$eval(".boxes:not([display=none]) > g", (groups) => groups.filter((group) => group.style.display !== "none").length);
  const names = () => page.$$eval(".boxes:not([display=none]) > g > title", (titles) => titles.map((title) => title.textContent));
  const before = await visible();
  assert.ok(!(await names()).some((name) => name.includes("lang_start")));
  await page.click("#boxes .chain >> nth=0");
  assert.ok((await visible()) > before);
  assert.ok((await names()).some((name) => /start_thread|clone3/.test(name)));
  await shot(page, "svg-opened");
  await page.click("#fold");
  assert.equal(await visible(), before);
  assert.equal(await page.getAttribute("#fold", "visibility"), "hidden");
  await closed(page);
});

test("two profiles are compared", async () => {
  const address = await served("several");
  const page = await opened(address);
  assert.equal(await page.$eval("select[aria-label=Profile]", (select) => select.selectedOptions[0].text), "after");
  await page.selectOption("select[aria-label='Compare with']", { label: "against before" });
  await hashHas(page, "base=0");
  await until(page, () => document.querySelector(".controls")?.textContent?.includes("Colour: change"));
  await settled(page);
  await tooltipAt(page, 600, 2, /before8\.89s.*now\d.*change/);
  await shot(page, "diff-flame");
  await page.click(".tab >> text=Summary");
  await textIs(page, ".changes", "checkout::price::with_tax");
  assert.match(await page.textContent(".changes"), /checkout::price::with_tax got slower: \S+ → \S+ \(\+\d+ %\), mostly own code \+/);
  await shot(page, "diff-summary");
  await page.click(".tab >> text=Top");
  await page.click("text=Total change");
  await page.waitForSelector(".more");
  assert.match(await page.textContent(".table-body"), /checkout::price::with_tax/);
  await shot(page, "diff-top");
  await page.reload();
  await page.waitForSelector(".more");
  await closed(page);
});

test("two runs of an unchanged program show no change", async () => {
  const page = await opened(await served("unchanged"));
  await page.selectOption("select[aria-label='Compare with']", { label: "against before" });
  await hashHas(page, "base=0");
  for (const tab of ["Top", "Call tree"]) {
    await page.click(`.tab >> text=${tab}`);
    await page.waitForSelector("main[aria-busy=false] .table-body .tr");
    assert.match(await page.textContent(".table-body"), /\+\d/, "values differ");
    assert.equal(await page.$$eval(".table-body .more, .table-body .less", (cells) => cells.length), 0, tab);
  }
  await closed(page);
});

/** A whole number as the page writes it. */
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

test("a live service offers to take and compare profiles", async () => {
  const address = await served("live");
  const page = await opened(address);
  await page.click("text=Take a 10 s CPU profile");
  await hashHas(page, "p=1");
  await page.click("text=Compare with the one before");
  await hashHas(page, "base=0");
  await until(page, () => document.querySelector(".controls")?.textContent?.includes("Colour: change"));
  await shot(page, "live");
  await page.click("text=Heap…");
  await page.click(".menu >> text=Lifetimes of freed memory");
  await hashHas(page, "/heap?p=2");
  await textIs(page, ".heap-side", "Lifetime");
  assert.ok(!(await page.isVisible("text=Compare with the one before")), "a CPU profile is not compared with a heap");
  await page.click("text=Heap…");
  await page.click(".menu >> text=Where memory is freed");
  await textIs(page, ".error", "made up: not this one");
  page.problems = page.problems.filter((problem) => !problem.includes("422"));
  await closed(page);
});

test("a live service shows what its requests spend their time on", async () => {
  const address = await served("live");
  const page = await opened(`${address}#/requests`, { expect: ".requests tbody tr" });
  const rows = await page.$$eval(".requests tbody tr", (all) => all.map((row) => row.querySelector("th")?.textContent));
  assert.deepEqual(rows, ["GET /checkout/{id}", "POST <img src=x onerror=hacked()>", "GET /lock"], "as the service orders them");
  const bars = await page.$$eval(".request-bar", (all) => all.map((bar) => bar.getAttribute("aria-label")));
  assert.equal(bars[0], "CPU 10.0 %, blocked 5.0 %, awaiting 80.0 %, runnable 5.0 %");
  assert.equal(bars[1], "CPU 1.0 %, blocked 0.0 %, awaiting 98.0 %, runnable 1.0 %");
  const times = await page.$eval(".requests tbody tr", (row) => [...row.querySelectorAll("td.number")].map((cell) => cell.textContent));
  assert.deepEqual(times.slice(-4), ["4.20ms", "9ms", "87ms", "310ms"], "p50, p90, p99 and the longest");
  // The parts fill the bar, in the order of the legend.
  const widths = await page.$eval(".request-bar", (bar) => [...bar.children].map((part) => part.getBoundingClientRect().width / bar.getBoundingClientRect().width));
  [0.1, 0.05, 0.8, 0.05].forEach((share, at) => assert.ok(Math.abs(widths[at] - share) < 0.01, `${widths}`));
  await shot(page, "requests");
  await page.click(".tab >> text=Flame graph");
  await page.click(".tab >> text=Requests");
  // Each answer draws the table again: a click must not fall between two of them.
  await page.waitForSelector("main[aria-busy=false] .requests table");
  await page.$eval(".requests table", (table) => table.setAttribute("data-old", ""));
  await page.click("text=Refresh");
  await page.waitForSelector("main[aria-busy=false] .requests table:not([data-old])");
  // A part leads to its profile, of this route alone.
  await page.click(".requests tbody tr:first-child >> text=awaiting");
  await hashHas(page, "/flame?p=1");
  await textIs(page, ".chip-text", "route=^/checkout/\\{id\\}$");
  await until(page, () => document.querySelector(".for-readers")?.textContent?.includes("Acquire"));
  assert.ok(!(await page.$eval("body", (body) => body.textContent))?.includes("shop::lock"), "the other route");
  await page.click("text=Waiting…");
  await page.click(".menu >> text=Who holds the locks");
  await hashHas(page, "/flame?p=2");
  // A route that blocks by system calls is in the profile of long polls, not in that of locks.
  await page.click(".tab >> text=Requests");
  await page.waitForSelector("main[aria-busy=false] .requests table");
  await page.click(".requests tbody tr:last-child >> text=blocked: long polls");
  await hashHas(page, "/flame?p=3");
  await until(page, () => document.querySelectorAll(".chip-text").length === 2);
  assert.deepEqual(await page.$$eval(".chip-text", (all) => all.map((chip) => chip.textContent)), ["route=^/lock$", "part=^blocked$"]);
  await until(page, () => document.querySelector(".for-readers")?.textContent?.includes("shop::read_file"));
  assert.ok(!(await page.textContent(".for-readers")).includes("shop::hash"), "it was on the CPU");
  await page.click(".tab >> text=Requests");
  await page.waitForSelector("main[aria-busy=false] .requests table");
  await page.click(".requests tbody tr:last-child >> text=blocked: locks");
  await hashHas(page, "/flame?p=4");
  await until(page, () => document.querySelector(".for-readers")?.textContent?.includes("shop::lock"));
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await closed(page);
});

test("the profiles of a route are shown side by side", async () => {
  const address = await served("live");
  const page = await opened(`${address}#/requests`, { expect: ".requests tbody tr" });
  await page.click(".requests tbody tr:first-child >> text=side by side");
  await until(page, () => document.querySelectorAll(".request-side .for-readers table").length === 4);
  const titles = await page.$$eval(".request-side-head .link", (all) => all.map((link) => link.textContent));
  assert.deepEqual(titles, ["CPU", "blocked: locks", "blocked: long polls", "awaiting"]);
  const lefts = await page.$$eval(".request-column", (all) => all.map((column) => column.getBoundingClientRect().left));
  assert.ok(lefts.length === 3 && lefts[0] < lefts[1] && lefts[1] < lefts[2], `${lefts}`);
  const awaiting = await page.$eval(".request-column:last-child", (column) => column.textContent);
  assert.ok(awaiting?.includes("Acquire"), awaiting ?? "");
  assert.ok(!awaiting?.includes("shop::lock"), "the other route");
  await shot(page, "requests-side-by-side");
  await page.click(".request-column:last-child .link");
  await hashHas(page, "/flame?p=4");
  await textIs(page, ".chip-text", "route=^/checkout/\\{id\\}$");
  await closed(page);
});

test("names that are HTML and script stay text, in every view", async () => {
  const address = await served("hostile");
  const page = await opened(address);
  // What only the view itself has, once it is drawn.
  const drawn = {
    summary: ["Summary", ".summary-list td"],
    flame: ["Flame graph", ".for-readers td"],
    top: ["Top", ".tr"],
    tree: ["Call tree", ".tr"],
    sandwich: ["Sandwich", ".pivot-name"],
    graph: ["Graph", ".node"],
    source: ["Source", ".listing"],
    tags: ["Labels", ".tag"],
    info: ["Info", ".verdict"],
  };
  for (const [view, [title, part]] of Object.entries(drawn)) {
    const name = encodeURIComponent("<script>window.hacked = 1</script>");
    await page.goto(`${address}#/${view}?fn=${name}&q=${encodeURIComponent("<img")}`);
    await page.waitForSelector(`main[aria-busy=false] [role=tabpanel][aria-label="${title}"] ${part}`, { state: "attached" });
    assert.equal(await page.evaluate(() => window.hacked), undefined, view);
    assert.equal(await page.evaluate(() => document.querySelectorAll("#app script, #app img, #app b, #app i").length), 0, view);
  }
  await page.goto(`${address}#/flame`);
  await settled(page);
  await tooltipAt(page, 600, 1, /<script>window\.hacked = 1<\/script>/);
  await shot(page, "hostile");
  await closed(page);
});

test("an exported page works from disk and loads nothing", async () => {
  const address = await exported("service");
  const page = await opened(address);
  assert.equal(await page.textContent(".total"), "8.89s");
  await page.mouse.click(1100, rowY(4));
  await hashHas(page, "z=");
  await tooltipAt(page, 30, 4, /checkout::routes::pay::submit/);
  await page.reload();
  await settled(page);
  await tooltipAt(page, 30, 4, /checkout::routes::pay::submit/);
  await page.fill(".search", "serde_json");
  await textIs(page, ".matched", "26.10% matched");
  await page.selectOption("select[aria-label='Sample type']", "samples");
  await textIs(page, ".total", "8\u202f888");
  await page.fill(".search", "");
  await page.click(".tab >> text=Top");
  await textIs(page, ".tr", "regex_automata::dfa::search::find_fwd");
  await page.goto(`${address}#/sandwich?fn=checkout::store::Cart::load`);
  await textIs(page, ".pivot-facts", "25.33%");
  await page.click(".tab >> text=Call tree");
  await textIs(page, ".table-body", "checkout::routes::cart::show");
  await shot(page, "exported");
  assert.deepEqual(page.requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []);
  await closed(page);
  const hostile = await opened(await exported("hostile"));
  assert.equal(await hostile.evaluate(() => window.hacked), undefined);
  await closed(hostile);
});

test("a large export says what it left out", async () => {
  const page = await opened(await exported("30000"));
  await textIs(page, ".notice", "boxes under");
  await shot(page, "exported-large");
  await closed(page);
});

test("an exported page has what its data allows, and says what needs the profile", async () => {
  const address = await exported("service");
  const page = await opened(`${address}#/graph`);
  await page.waitForSelector(".graph .node");
  const tabs = await page.$$eval(".tab", (all) => all.map((tab) => tab.textContent));
  assert.deepEqual(tabs, ["Summary", "Flame graph", "Top", "Call tree", "Sandwich", "Graph", "Labels", "Timeline", "Heatmap", "Info"]);
  await page.click(".tab >> text=Labels");
  await textIs(page, ".tags", "search::query");
  await page.click(".tag >> text=search::query");
  await textIs(page, ".flash", "Open the profile with");
  await page.click(".tab >> text=Timeline");
  await textIs(page, ".timeline .for-readers", "tokio-worker-0");
  await page.click(".tab >> text=Heatmap");
  await page.waitForSelector(".heatmap .for-readers td", { state: "attached" });
  await textIs(page, ".chips", "This is a saved page");
  await closed(page);
  const heap = await opened(`${await exported("heap")}#/heap`);
  await textIs(heap, ".heap-totals", "Live");
  await textIs(heap, ".table-body", "checkout::search::Index::build");
  await closed(heap);
});

/** Opens the heap view of the synthetic heap profiles. */
async function openedHeap() {
  const page = await opened(await served("heap"));
  await page.click(".tab >> text=Heap");
  await page.waitForSelector(".heap .tr");
  return page;
}

test("the heap by size, by lifetime, by place and by growth", async () => {
  const page = await openedHeap();
  const { about } = await page.evaluate(() => fetch("api/open").then((answer) => answer.json()));
  const total = (kind) => about.types.find((type) => type.kind === kind).total;
  assert.equal(await page.getAttribute(".heap-figure >> nth=0", "title"), `${await page.textContent(".heap-figure >> nth=0")} (${grouped(total("inuse_space"))} bytes)`);
  assert.match(await page.textContent(".heap-total >> nth=0"), new RegExp(`^Live.*B${grouped(total("inuse_objects"))} objects$`));
  assert.match(await page.textContent(".tr >> nth=0"), /checkout::search::Index::build {2}through hashbrown/);
  await shot(page, "heap");
  await page.click(".heap .th >> text=Allocated");
  await hashHas(page, "sort=alloc_space");
  await page.click(".heap .th >> text=Kept");
  await textIs(page, ".tr", "100%");
  await page.click(".heap-classes >> text='512 B'");
  await textIs(page, ".chip", "tagfocus:bytes=512b:1023b");
  await until(page, () => document.querySelectorAll(".heap-classes tbody tr").length === 1);
  await page.keyboard.press("u");
  await until(page, () => document.querySelectorAll(".heap-classes tbody tr").length > 5);
  await page.dblclick(".tr >> text=checkout::pay::sign");
  await textIs(page, ".pivot-name", "checkout::pay::sign");
  await page.goBack();
  await page.click(".heap-more >> text=lifetime");
  await textIs(page, ".heap-side", "Lifetime");
  const classes = await page.$$eval(".heap-classes:nth-of-type(1) tbody th", (all) => all.map((one) => one.textContent));
  assert.deepEqual(classes, ["temporary", "<1ms", "1ms-10ms", "10ms-100ms", "1s-10s", "1m-10m"]);
  await textIs(page, ".table-head", "Temporary");
  await shot(page, "heap-lifetime");
  await page.click(".heap-more >> text=growth");
  await textIs(page, ".heap-totals", "Grown");
  await closed(page);
});

test("a difference is shown as one in graph, labels and sandwich", async () => {
  const address = await served("several");
  const page = await opened(`${address}#/graph?base=0`);
  await page.waitForSelector(".graph .node");
  const labels = await page.$$eval(".graph .node", (nodes) => nodes.map((node) => node.getAttribute("aria-label")));
  assert.ok(labels.some((label) => /^checkout::price::total: \+1\.03s · \+122%$/.test(label)), labels.join("\n"));
  assert.ok((await page.$$(".graph .edge.more")).length > 0);
  await shot(page, "diff-graph");
  await page.click(".tab >> text=Labels");
  // No route changed by as much as two runs of one program may differ.
  await page.waitForSelector(".tag [title$='within noise']");
  assert.match(await page.textContent(".tags"), /\+[\d.]+m?s/);
  assert.ok(!(await page.textContent(".tags")).includes("pprof::base"));
  await shot(page, "diff-labels");
  await page.goto(`${address}#/sandwich?base=0&fn=checkout::price::total`);
  await textIs(page, ".pivot-facts", "total +1.03s (+122%), from 842ms to 1.87s");
  assert.match(await page.textContent(".sandwich-list .tr >> nth=0"), /^\+1\.03scheckout::price::total$/);
  await shot(page, "diff-sandwich");
  await closed(page);
});

test("on paper everything is light and nothing is cut by scrolling", async () => {
  const page = await opened(`${service}#/top`, { colorScheme: "dark", expect: ".tr" });
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(22, 24, 28)");
  await page.emulateMedia({ media: "print" });
  await until(page, () => getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)");
  await until(page, () => document.querySelectorAll(".tr").length === 36);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".search-box")).display), "none");
  await page.emulateMedia({ media: "screen" });
  await page.keyboard.press("2");
  await settled(page);
  await page.emulateMedia({ media: "print" });
  const cornerIs = (light) => until(page, (light) => {
    const pixel = document.querySelector(".flame canvas").getContext("2d").getImageData(2, 2, 1, 1).data;
    return (pixel.slice(0, 3).join() === "230,232,235") === light;
  }, light);
  await cornerIs(true);
  await page.screenshot({ path: path.join(shots, "print.png"), fullPage: true });
  const pdf = await page.pdf({ path: path.join(shots, "print.pdf"), format: "A4", landscape: true });
  assert.ok(pdf.length > 5_000, `${pdf.length} bytes`);
  await page.emulateMedia({ media: "screen" });
  await cornerIs(false);
  await closed(page);
});

test("a screen reader finds its way, and so does the keyboard alone", async () => {
  const page = await opened(service);
  const whole = await page.locator("body").ariaSnapshot();
  assert.match(whole, /tablist "Views"/);
  assert.match(whole, /tab "Flame graph" \[selected\]/);
  assert.match(whole, /tabpanel "Flame graph"/);
  assert.match(whole, /img "Flame graph\. Use the arrow keys/);
  assert.match(whole, /table "The boxes with the highest cost of their own"/);
  await page.focus(".tab[aria-selected=true]");
  for (let step = 0; step < 2; step++) await page.keyboard.press("ArrowRight");
  await textIs(page, ".tab[aria-selected=true]", "Call tree");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Call tree", "the tab keeps the focus");
  await textIs(page, ".table-body", "checkout::routes::cart::show");
  const tree = await page.locator("[role=treegrid]").ariaSnapshot();
  assert.match(tree, /treegrid "Call tree"/);
  assert.match(tree, /row ".*checkout::main" \[expanded\] \[level=2\]|row ".*checkout::main" \[level=2\] \[expanded\]|row ".*checkout::main".*level=2/);
  await page.focus("[role=treegrid]");
  await page.keyboard.press("ArrowDown");
  await until(page, () => document.getElementById(document.querySelector("[role=treegrid]")?.getAttribute("aria-activedescendant") ?? "")?.getAttribute("aria-selected") === "true");
  await page.click(".tab >> text=Timeline");
  await textIs(page, ".timeline .for-readers", "tokio-worker-0");
  await page.focus(".timeline canvas");
  await page.keyboard.press("ArrowRight");
  await textIs(page, ".chip", "time:");
  await page.keyboard.press("Shift+ArrowRight");
  await until(page, () => /t=0-8\d+/.test(location.hash));
  await closed(page);
});

/** A plain request with any host name. @returns {Promise<{status: number, text: string, headers: object}>} */
function asked(address, { host, method = "GET", headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(address, { method, headers: { ...(host ? { Host: host } : {}), ...headers } }, (response) => {
      let text = "";
      response.on("data", (data) => (text += data));
      response.on("end", () => resolve({ status: response.statusCode, text, headers: response.headers }));
    });
    request.on("error", reject);
    request.end();
  });
}

test("the server answers only its own page", async () => {
  assert.equal((await asked(service, { host: "evil.example" })).status, 403);
  assert.equal((await asked(api("api/open"), { host: `evil.example:${new URL(service).port}` })).status, 403);
  assert.equal((await asked(api("api/take"), { method: "POST" })).status, 403);
  for (const id of ["../../../etc/passwd", "/etc/passwd", "99", "..%2f..%2fetc%2fpasswd"]) {
    const answer = await asked(api(`api/open?p=${id}`));
    assert.equal(answer.status, 404, id);
    assert.match(answer.text, /this profile is no longer available/);
  }
  const { headers, status } = await asked(service);
  assert.equal(status, 200);
  assert.match(headers["content-security-policy"], /default-src 'none'; script-src 'self'/);
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal((await asked(api("api/flame?w=wide"))).status, 400);
  assert.equal((await asked(api("api/flame?fn=nobody"))).status, 404);
});

test("the token opens the page, leaves the address, and is needed", async () => {
  const page = await opened(service);
  assert.equal(new URL(page.url()).search, "");
  await page.reload();
  await settled(page);
  assert.deepEqual((await page.context().cookies()).map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Strict" }]);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await closed(page);
  const other = await (await browser.newContext()).newPage();
  assert.equal((await other.goto(new URL("/", service).href)).status(), 403);
  assert.match(await other.textContent("body"), /open the whole URL that flamelet printed/);
  await other.close();
  assert.equal((await asked(new URL("/api/take?seconds=1", service).href, { method: "POST", headers: { "X-Flamelet": "1" } })).status, 403);
});

test("errors say what happened", async () => {
  const page = await browser.newPage();
  await page.goto(`${service}#/flame?p=77`);
  await textIs(page, ".error", "this profile is no longer available; choose another one");
  await page.close();
});

test("a history has a time picker: ranges are selected, shown and compared", async () => {
  const page = await opened(await served("past"), { expect: ".picker canvas" });
  const canvas = page.locator(".picker canvas");
  await textIs(page, ".picker-chosen", "Drag over the history");
  const { x, y, width, height } = await canvas.boundingBox();
  assert.ok(width > 1000 && height > 40, `${width} by ${height}`);
  const drawn = await canvas.evaluate((element) => {
    const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    return data.some((value, at) => at % 4 === 3 && value > 0);
  });
  assert.ok(drawn, "the course is drawn");
  const drag = async (from, to) => {
    await page.mouse.move(x + width * from, y + 20);
    await page.mouse.down();
    await page.mouse.move(x + width * to, y + 25, { steps: 4 });
    await page.mouse.up();
  };
  const compare = page.getByRole("button", { name: "Compare these two ranges" });
  await drag(0.45, 0.55);
  await textIs(page, ".picker-chosen", "UTC");
  assert.equal(await compare.isVisible(), false, "one range is nothing to compare");
  await page.getByRole("button", { name: "Show this range" }).click();
  await hashHas(page, "p=range:");
  await settled(page);
  // The second range is the base: it is the earlier one.
  await drag(0.25, 0.1);
  await compare.click();
  await hashHas(page, "base=range:");
  await settled(page);
  await shot(page, "past");
  const names = await page.locator("select.profiles").first().locator("option").allTextContents();
  assert.ok(names.some((name) => /^2160 s from /.test(name)), names.join());
  // The keyboard does the same.
  await page.getByRole("button", { name: "Clear" }).click();
  await canvas.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  await page.keyboard.press("Enter");
  await hashLacks(page, "base=");
  await settled(page);
  await closed(page);
});

test("a fleet has a choice of services, and links carry the service and the ranges", async () => {
  const address = await served("fleet");
  const page = await opened(`${address}#/`, { expect: ".picker canvas" });
  // Without a choice, the first one is shown.
  await hashHas(page, "s=cart");
  await textIs(page, ".title", "s from");
  const services = page.getByRole("combobox", { name: "Service" });
  assert.deepEqual(await services.locator("option").allTextContents(), ["cart", "checkout", "<b>search</b>"]);
  await services.selectOption("checkout");
  await hashHas(page, "s=checkout");
  await hashHas(page, ":checkout");
  await textIs(page, ".title", "s from");
  await shot(page, "fleet");
  const hash = (await page.evaluate(() => location.hash)).replace("#/", "#/flame");
  await closed(page);
  // Another server has not opened this range before.
  const token = await served("fleet");
  const from = 1_794_700_800_000;
  const other = await opened(`${token}${hash}&base=range:${from}-${from + 3_600_000}:checkout`);
  await until(other, () => document.querySelector("select[aria-label=Service]")?.value === "checkout");
  await textIs(other, ".total", "(");
  const second = await opened(`${token}#/flame?s=search&p=range:1-2:nobody`, { expect: ".error" });
  await textIs(second, ".error", "there is no service");
  await second.close();
  await closed(other);
});

test("without a history there is no time picker", async () => {
  const page = await opened(await served("service"));
  assert.equal(await page.locator(".picker").isVisible(), false);
  await closed(page);
});
