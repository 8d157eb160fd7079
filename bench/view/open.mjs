// Opens a profile in Chromium: `node bench/view/open.mjs flamelet|pprof COMMAND…`. Prints one line of JSON.
//
// COMMAND serves until it is ended; flamelet prints its address, pprof is told one (`-http=ADDRESS`).
//
// first_ms                from the command's start to the first flame graph painted, the browser running
// zoom_ms, zoom_worst_ms  from a click on a box to the picture painted (pprof; flamelet's is ui/tests/bench.mjs' work)
// bytes                   all that the page asked for until then
// cpu_s, peak_mb          of the command, until then
// browser_cpu_s, browser_mb   of Chromium until then, and what it holds more than with an empty page (proportional set)

import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const out = process.env.FLAMELET_UI_OUT ?? path.join(root, "target/ui-tests");
const { chromium } = createRequire(path.join(out, "package.json"))("playwright-core");
const [kind, command, ...args] = process.argv.slice(2);
const ZOOMS = 12;
const PATIENCE = 300_000;

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const host = await chromium.launchServer({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const browser = await chromium.connect(host.wsEndpoint());
const page = await browser.newPage({ viewport: { width: 1600, height: 900 }, reducedMotion: "reduce" });
page.setDefaultTimeout(PATIENCE);

// What came over the wire: reading the bodies would weigh on the page that is measured.
let bytes = 0;
const network = await page.context().newCDPSession(page);
await network.send("Network.enable");
network.on("Network.loadingFinished", (event) => { bytes += event.encodedDataLength; });

const idle = tree(host.process().pid);
const start = performance.now();
const server = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
try {
  await page.goto(await address(), { waitUntil: "commit", timeout: PATIENCE });
  await painted();
  const first = performance.now() - start;
  const after = tree(host.process().pid);
  const line = { first_ms: Math.round(first), bytes, ...spent(server.pid), browser_cpu_s: round(after.cpu - idle.cpu), browser_mb: Math.round(after.memory - idle.memory) };
  if (kind === "pprof") Object.assign(line, await zooms());
  console.log(JSON.stringify(line));
} finally {
  server.kill();
  await browser.close();
  await host.close();
}

/** Where the flame graph is, once the command answers. */
async function address() {
  if (kind === "flamelet") {
    return new Promise((resolve, reject) => {
      server.stdout.once("data", (data) => resolve(String(data).trim().split("\n")[0]));
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

/** Until boxes are there and a frame has been shown. */
async function painted() {
  const boxes = kind === "flamelet" ? "main[aria-busy=false] .flame-holder .for-readers td" : "#stack-chart .boxbg";
  await page.waitForSelector(boxes, { state: "attached" });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Clicks boxes of pprof's page, each from the whole graph. */
async function zooms() {
  const times = await page.evaluate(async (count) => {
    const shown = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const wide = () => [...document.querySelectorAll("#stack-chart .boxbg")].filter((box) => {
      const width = box.getBoundingClientRect().width;
      return width > 6 && width < 700;
    });
    const times = [];
    for (let turn = 0; turn < count; turn++) {
      const boxes = wide();
      const box = boxes[Math.floor((turn * boxes.length) / count)];
      if (!box) break;
      const start = performance.now();
      box.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      await shown();
      times.push(performance.now() - start);
      history.replaceState(null, "", location.pathname);
      dispatchEvent(new PopStateEvent("popstate"));
      await shown();
    }
    return times;
  }, ZOOMS);
  times.sort((a, b) => a - b);
  return times.length > 0 ? { zoom_ms: Math.round(times[times.length >> 1]), zoom_worst_ms: Math.round(times.at(-1)) } : {};
}

/** What a process used so far. @param {number} pid */
function spent(pid) {
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return { cpu_s: round(cpu(pid)), peak_mb: Math.round(Number(peak[1]) / 1024) };
}

/** CPU seconds of a process. @param {number | string} pid */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** CPU seconds and proportional megabytes of a process and all below it. @param {number} top */
function tree(top) {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      parents.set(pid, readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ")[1]);
    } catch {
      // It has ended meanwhile.
    }
  }
  const total = { cpu: 0, memory: 0 };
  for (const pid of parents.keys()) {
    let at = pid;
    while (at !== undefined && at !== String(top)) at = parents.get(at);
    if (at === undefined) continue;
    try {
      total.cpu += cpu(pid);
      total.memory += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0) / 1024;
    } catch {
      // It has ended meanwhile.
    }
  }
  return total;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}
