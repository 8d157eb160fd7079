// Opens a profile in Chromium: `node bench/view/open.mjs time|summary|memory flamelet|pprof COMMAND…`. One line of JSON.
//
// COMMAND serves until it is ended; flamelet prints its address, pprof is told one (`-http=ADDRESS`). The browser is
// running and has shown a small page of the same host before the command starts.
//
// time:    first_ms                    from the command's start to the first flame graph painted
//          bytes, view_bytes           all that the page asked for until then, and the largest single answer of all
//          cpu_s, peak_mb              of the command, until then
//          browser_cpu_s, browser_mb   of Chromium until then, and what it holds more than before (proportional set)
//          zoom_ms, zoom_worst_ms      from the click to the picture painted
//          frame_ms, frame_p95_ms      from a frame to the next while the graph is dragged (flamelet)
// summary: summary_ms                  from the command's start to the page as it opens: with its summary (flamelet)
//          summary_cpu_s               of the command, until then
// memory:  total_mb                    the highest sum, at any moment until the summary and then the flame graph are
//                                      there, of what the command holds and what the browser holds more than before.
//                                      Looking that often slows everything down, so it is a run of its own.

import { spawn } from "node:child_process";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

import * as flamelet from "./flamelet.mjs";
import * as pprof from "./pprof.mjs";
import { resident, round, spent, tree } from "./processes.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const out = process.env.FLAMELET_UI_OUT ?? path.join(root, "target/ui-tests");
const { chromium } = createRequire(path.join(out, "package.json"))("playwright-core");
const [what, kind, command, ...args] = process.argv.slice(2);
const program = kind === "flamelet" ? flamelet : pprof;
const PATIENCE = 300_000;

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const host = await chromium.launchServer({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const browser = await chromium.connect(host.wsEndpoint());
const page = await browser.newPage({ viewport: { width: 1600, height: 900 }, reducedMotion: "reduce" });
page.setDefaultTimeout(PATIENCE);
const chrome = host.process().pid;
await showSomethingSmall();

// What came over the wire: reading the bodies would weigh on the page that is measured.
let [bytes, largest] = [0, 0];
const network = await page.context().newCDPSession(page);
await network.send("Network.enable");
network.on("Network.loadingFinished", (event) => {
  bytes += event.encodedDataLength;
  largest = Math.max(largest, event.encodedDataLength);
});

const idle = tree(chrome);
const start = performance.now();
const server = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
try {
  console.log(JSON.stringify(await { time, summary, memory }[what]()));
} finally {
  server.kill();
  await browser.close();
  await host.close();
}

async function time() {
  const place = await address();
  await page.goto(place + program.entry, { waitUntil: "commit", timeout: PATIENCE });
  await painted();
  const first = performance.now() - start;
  const after = tree(chrome);
  const line = { first_ms: Math.round(first), bytes, ...spent(server.pid), browser_cpu_s: round(after.cpu - idle.cpu), browser_mb: Math.round(after.memory - idle.memory) };
  Object.assign(line, await program.moves(page, place, painted));
  return { ...line, view_bytes: largest };
}

async function summary() {
  await page.goto(await address(), { waitUntil: "commit", timeout: PATIENCE });
  await painted(program.summary);
  return { summary_ms: Math.round(performance.now() - start), summary_cpu_s: spent(server.pid).cpu_s };
}

async function memory() {
  let [total, isOver] = [0, false];
  const watch = (async () => {
    while (!isOver) {
      total = Math.max(total, resident(server.pid) + tree(chrome).memory - idle.memory);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const place = await address();
  await page.goto(place, { waitUntil: "commit", timeout: PATIENCE });
  await painted(program.summary);
  await page.evaluate((entry) => (location.hash = entry), program.entry);
  await painted();
  isOver = true;
  await watch;
  return { total_mb: Math.round(total) };
}

/** A page of the same host, so that the browser has all its processes before anything is measured. */
async function showSomethingSmall() {
  const small = http.createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<p>ready</p>"));
  await new Promise((resolve) => small.listen(0, "127.0.0.1", resolve));
  await page.goto(`http://127.0.0.1:${small.address().port}/`, { waitUntil: "networkidle" });
  small.close();
}

/** Where the flame graph is, once the command answers. */
async function address() {
  if (kind === "flamelet") {
    return new Promise((resolve, reject) => {
      server.stdout.once("data", (data) => resolve(String(data).trim().split("\n")[0]));
      server.once("error", reject);
      server.once("exit", (code) => reject(new Error(`${command} ended with ${code}`)));
    });
  }
  const flag = args.find((argument) => argument.startsWith("-http="));
  const base = `http://${flag.slice("-http=".length)}/ui/flamegraph`;
  // The page itself is expensive to make: the server is asked for something small until it is there.
  for (;;) {
    if (server.exitCode !== null) throw new Error(`${command} ended with ${server.exitCode}`);
    const answer = await fetch(base.replace("/ui/flamegraph", "/no-such-page")).catch(() => undefined);
    if (answer) return base;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Until boxes (or something else) are there and a frame has been shown. */
async function painted(selector = program.boxes) {
  await page.waitForSelector(selector, { state: "attached" });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}
