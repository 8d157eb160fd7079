// flamelet's page: when its first picture is there, how long its zooms take, and how evenly it pans.

import { Picture } from "../../ui/src/picture.js";

const WIDTH = 1600;
const ZOOMS = 12;
/** Where the flame graph starts on the page, and how tall a row of it is. */
const [TOP, ROW] = [104, 19];
const PAN_MILLISECONDS = 1500;

/** The page opens with its summary; this is its flame graph. */
export const entry = "#/flame";

/** What is there once the summary is. */
export const summary = "main[aria-busy=false] .summary .summary-list";

/** What is there once boxes are. */
export const boxes = "main[aria-busy=false] .flame-holder .for-readers td";

/** From clicks to the finer boxes painted, as the page itself measures it; and a pan. @param {any} page @param {string} address @param {() => Promise<void>} painted */
export async function moves(page, address, painted) {
  const picture = new Picture(await asked(new URL(`api/flame?dir=callees&w=${WIDTH}`, address), new URL(address).searchParams));
  const zooms = [];
  for (const place of targets(picture)) zooms.push(await zoomed(page, place, painted));
  zooms.sort((a, b) => a - b);
  const frames = await panned(page, painted);
  return { zoom_ms: Math.round(zooms[zooms.length >> 1]), zoom_worst_ms: Math.round(zooms.at(-1)), frame_ms: round(quantile(frames, 0.5)), frame_p95_ms: round(quantile(frames, 0.95)) };
}

/** An answer of the viewer, which wants the token of the address that it printed. @param {URL} url @param {URLSearchParams} of */
async function asked(url, of) {
  url.searchParams.set("token", of.get("token") ?? "");
  return (await fetch(url)).json();
}

/** Places of boxes to zoom into, spread over the picture: a few pixels wide or more. @param {Picture} picture */
function targets(picture) {
  const scale = WIDTH / picture.weight[0];
  const wide = Array.from({ length: picture.count }, (_, at) => at).filter((at) => {
    const width = picture.weight[at] * scale;
    return width > 6 && width < 700 && picture.depth[at] < 38;
  });
  const step = Math.max(1, Math.floor(wide.length / ZOOMS));
  const chosen = wide.filter((_, at) => at % step === 0).slice(0, ZOOMS);
  return chosen.map((at) => ({ x: (picture.x[at] + picture.weight[at] / 2) * scale, y: TOP + ROW * picture.depth[at] + ROW / 2 }));
}

/** Zooms into a box from the whole graph, and how long that takes. */
async function zoomed(page, place, painted) {
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.hash.includes("z="));
  await painted();
  const measures = () => page.evaluate(() => performance.getEntriesByName("flamelet-zoom").map((entry) => entry.duration));
  const before = (await measures()).length;
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction((count) => performance.getEntriesByName("flamelet-zoom").length > count, before);
  return (await measures()).at(-1);
}

/** Drags the magnified graph to and fro; the time from each frame to the next. */
async function panned(page, painted) {
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.hash.includes("z="));
  await painted();
  await page.focus(".flame canvas");
  for (let step = 0; step < 5; step++) await page.keyboard.press("+");
  await page.waitForLoadState("networkidle");
  await page.evaluate(() => {
    const times = (window.frameTimes = []);
    const tick = (time) => {
      times.push(time);
      if (!window.framesDone) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  await page.mouse.move(800, 300);
  await page.mouse.down();
  const start = performance.now();
  while (performance.now() - start < PAN_MILLISECONDS) {
    const turn = (performance.now() - start) / 300;
    await page.mouse.move(800 + 500 * Math.sin(turn), 300 + 30 * Math.sin(turn / 2));
  }
  const times = await page.evaluate(() => ((window.framesDone = true), window.frameTimes));
  await page.mouse.up();
  return times.slice(1).map((time, at) => time - times[at]);
}

/** @param {number[]} values @param {number} share */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}
