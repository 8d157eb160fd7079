// pprof's page: when its first picture is there, and how long its zooms take.

const ZOOMS = 12;

/** Its address leads to the flame graph. */
export const entry = "";

/** What is there once boxes are. */
export const boxes = "#stack-chart .boxbg";

/** Clicks boxes, each from the whole graph. @param {any} page */
export async function moves(page) {
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
