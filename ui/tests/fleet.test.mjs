// The pages of a collector in a real browser: `ui/test` prepares what this needs and runs it.
//
// FLAMELET_UI_FLEET  the example of flamelet-collect (target/debug/examples/fleet)
// FLAMELET_UI_OUT    where node_modules with playwright-core is, and where screenshots go (target/ui-tests)
// CHROMIUM           the browser (/usr/bin/chromium)

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const fleet = process.env.FLAMELET_UI_FLEET ?? path.join(root, "target/debug/examples/fleet");
const out = process.env.FLAMELET_UI_OUT ?? path.join(root, "target/ui-tests");
const shots = path.join(out, "screenshots");
const { chromium } = createRequire(path.join(out, "package.json"))("playwright-core");

/** How long something is waited for: on a busy machine nothing is fast, and only a failure takes so long. */
const PATIENCE = 120_000;

let browser;
let collector;
let address;
let store;

before(async () => {
  mkdirSync(shots, { recursive: true });
  store = mkdtempSync(path.join(out, "fleet-"));
  collector = spawn(fleet, [store], { stdio: ["ignore", "pipe", "inherit"] });
  address = await new Promise((resolve, reject) => {
    collector.stdout.once("data", (data) => resolve(String(data).trim()));
    collector.once("error", reject);
    collector.once("exit", (code) => reject(new Error(`the collector ended with ${code}`)));
  });
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args, timeout: PATIENCE });
});

after(async () => {
  await browser?.close();
  if (collector?.exitCode === null) {
    const ended = new Promise((resolve) => collector.once("exit", resolve));
    collector.kill("SIGKILL");
    await ended;
  }
  if (store) rmSync(store, { recursive: true, force: true });
});

/** A new browser without cookies. */
async function visitor() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 760 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  return page;
}

test("a token in the address opens the services, once", async () => {
  const page = await visitor();
  await page.goto(address);
  assert.equal(new URL(page.url()).search, "", "the token leaves the address");
  const rows = await page.locator("table a[href^=view]").allTextContents();
  assert.deepEqual(rows, ["checkout", "<b>search</b>", "cart"], "by CPU time, then by name");
  assert.ok((await page.locator("svg rect").count()) > 100, "every service has a sparkline");
  await page.screenshot({ path: path.join(shots, "services.png") });
  await page.reload();
  assert.equal(await page.locator("h1").textContent(), "Services", "the cookie is enough");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a service leads to the viewer, and its link works for others who have the token", async () => {
  const page = await visitor();
  await page.goto(address);
  await page.getByRole("link", { name: "checkout", exact: true }).click();
  await page.waitForFunction(() => document.querySelector(".title")?.textContent?.startsWith("checkout, "));
  await page.waitForFunction(() => document.querySelector("select[aria-label=Service]")?.value === "checkout");
  await page.getByRole("tab", { name: "Top" }).click();
  await page.getByText("shop::total").first().waitFor();
  await page.screenshot({ path: path.join(shots, "fleet-viewer.png") });
  const link = page.url();
  assert.deepEqual(page.problems, []);
  await page.context().close();
  const other = await visitor();
  assert.equal((await other.goto(link)).status(), 401);
  await other.goto(link.replace("/view/", `/view/${new URL(address).search}`));
  await other.getByText("shop::total").first().waitFor();
  assert.equal(new URL(other.url()).search, "");
  assert.ok(other.url().includes("#/top?"), other.url());
  await other.context().close();
});

test("two versions are compared by their label, and the link says which", async () => {
  const page = await visitor();
  await page.goto(address);
  await page.getByRole("link", { name: "checkout", exact: true }).click();
  await page.getByLabel("Label to compare by").waitFor();
  assert.equal(await page.getByLabel("Label to compare by").inputValue(), "version");
  assert.deepEqual([await page.getByLabel("First value").inputValue(), await page.getByLabel("Second value").inputValue()], ["1", "2"]);
  const offered = await page.locator("#label-completions option").evaluateAll((options) => options.map((option) => option.value));
  assert.deepEqual(offered, ['{version="1"}', '{version="2"}']);
  await page.getByRole("button", { name: "Compare these two values" }).click();
  await page.waitForFunction(() => location.hash.includes("base="));
  const hash = new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
  assert.match(hash.get("p"), /^range:\d+-\d+\{version="2"\}:checkout$/);
  assert.match(hash.get("base"), /^range:\d+-\d+\{version="1"\}:checkout$/);
  await page.getByRole("tab", { name: "Top" }).click();
  await page.getByText("shop::total").first().waitFor();
  await page.screenshot({ path: path.join(shots, "versions.png") });
  const link = page.url();
  // One version alone, by the field.
  await page.getByLabel("Labels", { exact: true }).fill('{version="2"}');
  await page.getByLabel("Labels", { exact: true }).press("Enter");
  await page.waitForFunction(() => document.querySelector(".title")?.textContent?.startsWith('checkout{version="2"}, '));
  assert.deepEqual(page.problems, []);
  await page.context().close();
  const other = await visitor();
  await other.goto(link.replace("/view/", `/view/${new URL(address).search}`));
  await other.getByText("shop::total").first().waitFor();
  assert.equal(new URL(other.url()).hash, new URL(link).hash);
  assert.deepEqual(other.problems, []);
  await other.context().close();
});

test("what costs most and what changed have pages whose addresses can be sent", async () => {
  const page = await visitor();
  await page.goto(address);
  await page.getByRole("link", { name: "Top", exact: true }).click();
  await page.locator("select[name=by]").selectOption("crate");
  await page.locator("input[name=price]").fill("0.5");
  await page.locator("input[name=select]").fill('{version="2"}');
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByRole("columnheader", { name: "Cost a month" }).waitFor();
  const asked = new URL(page.url()).searchParams;
  assert.deepEqual([asked.get("by"), asked.get("price"), asked.get("select")], ["crate", "0.5", '{version="2"}']);
  assert.equal(await page.locator("table tr").nth(1).locator("td").first().textContent(), "shop");
  await page.screenshot({ path: path.join(shots, "fleet-top.png") });
  await page.getByRole("link", { name: "What changed" }).click();
  await page.getByText("One version: version 2").first().waitFor();
  await page.locator("input[name=select]").fill("");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("shop::total").waitFor();
  await page.screenshot({ path: path.join(shots, "what-changed.png") });
  await page.locator("h2", { hasText: "checkout" }).locator("xpath=following-sibling::p[1]").getByRole("link", { name: "compare" }).click();
  await page.waitForFunction(() => location.hash.includes("base="));
  await page.getByText("shop::total").first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("without the token there is nothing", async () => {
  const { origin } = new URL(address);
  for (const place of ["/", "/top", "/changes", "/api/top", "/fleet.css", "/view/", "/view/app.js", "/view/api/open", "/api/changes", "/?token=wrong", "/view/?token="]) {
    const answer = await fetch(origin + place, { redirect: "manual" });
    assert.equal(answer.status, 401, place);
  }
  const posted = await fetch(`${origin}/view/api/range?from=1&to=2`, { method: "POST", headers: { "X-Flamelet": "1" } });
  assert.equal(posted.status, 401);
});
