// How long the page takes: `node ui/tests/bench.mjs COMMAND…`, where COMMAND prints the viewer's address and
// serves until it is ended (`flamelet view --no-browser FILE`). Prints one line of JSON.
//
// first_ms      from the command's start to the first flame graph painted in Chromium, the browser running
// zoom_ms       from a click to the finer boxes painted, as the page itself measures it: the median of the zooms
// bytes         the largest answer that a view got
// cpu_s, peak_mb  of the command

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { Picture } from "../src/picture.js";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const out = process.env.FLAMELET_UI_OUT ?? path.join(root, "target/ui-tests");
const { chromium } = createRequire(path.join(out, "package.json"))("playwright-core");
const [command, ...args] = process.argv.slice(2);
const ZOOMS = 12;

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const page = await browser.newPage({ viewport: { width: 1600, height: 900 }, reducedMotion: "reduce" });

let largest = 0;
page.on("response", async (response) => {
  const body = await response.body().catch(() => Buffer.alloc(0));
  if (response.url().includes("/api/")) largest = Math.max(largest, body.length);
});

const start = performance.now();
const server = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
try {
  const address = await new Promise((resolve, reject) => {
    server.stdout.once("data", (data) => resolve(String(data).trim().split("\n")[0]));
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`${command} ended with ${code}`)));
  });
  await page.goto(address);
  await painted();
  const first = performance.now() - start;
  const zooms = [];
  for (const target of await targets(address)) zooms.push(await zoomed(target));
  zooms.sort((a, b) => a - b);
  const line = { first_ms: Math.round(first), zoom_ms: Math.round(zooms[zooms.length >> 1]), zoom_worst_ms: Math.round(zooms[zooms.length - 1]), bytes: largest, ...spent(server.pid) };
  console.log(JSON.stringify(line));
} finally {
  server.kill();
  await browser.close();
}

/** Until boxes are on the canvas and a frame has been shown. */
async function painted() {
  await page.waitForSelector("main[aria-busy=false] .flame-holder .for-readers td", { state: "attached" });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Places of boxes to zoom into, spread over the picture: a few pixels wide or more. */
async function targets(address) {
  const picture = new Picture(await (await fetch(`${address}api/flame?dir=callees&w=1600`)).json());
  const scale = 1600 / picture.weight[0];
  const boxes = Array.from({ length: picture.count }, (_, at) => at).filter((at) => {
    const wide = picture.weight[at] * scale;
    return wide > 6 && wide < 700 && picture.depth[at] < 38;
  });
  const step = Math.max(1, Math.floor(boxes.length / ZOOMS));
  return boxes.filter((_, at) => at % step === 0).slice(0, ZOOMS).map((at) => ({ x: (picture.x[at] + picture.weight[at] / 2) * scale, y: 104 + 19 * picture.depth[at] + 9 }));
}

/** Zooms into a box from the whole graph, and how long that takes. @param {{x: number, y: number}} target */
async function zoomed(target) {
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.hash.includes("z="));
  await painted();
  const before = await measures();
  await page.mouse.click(target.x, target.y);
  await page.waitForFunction((count) => performance.getEntriesByName("flamelet-zoom").length > count, before.length);
  return (await measures()).at(-1);
}

/** How long each zoom took so far. */
function measures() {
  return page.evaluate(() => performance.getEntriesByName("flamelet-zoom").map((entry) => entry.duration));
}

/** What a process used so far. @param {number} pid */
function spent(pid) {
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return { cpu_s: (Number(fields[11]) + Number(fields[12])) / 100, peak_mb: Math.round(Number(peak[1]) / 1024) };
}
