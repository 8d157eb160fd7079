// The page's logic without a browser: `node --test ui/tests/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { LEAST_CONTRAST, Palette, contrast, mixed, rgbOf } from "../src/colour.js";
import { fittedName, shortName, withoutGenerics } from "../src/names.js";
import { Picture } from "../src/picture.js";
import { foldedPicture, invertedPicture, pivotPicture } from "../src/rebuild.js";
import { FIRST_STATE, dataQuery, exactPattern, formatState, parseState, searchPattern, zoomKeys, zoomPath } from "../src/state.js";
import { changeLabel, exactLabel, isNoise, shareLabel, valueLabel } from "../src/units.js";
import { facts, findings } from "../src/view-info.js";
import { cratePattern, shownBy } from "../src/view-summary.js";
import { heapPairs } from "../src/view-heap.js";
import { movedCell } from "../src/view-heatmap.js";
import { completions, condition, withLabel } from "../src/labels.js";
import { axisStep, clockText } from "../src/picker.js";
import { partsText, routeFilters } from "../src/view-requests.js";
import { bucketCount, chosenSpan, hasTasks, markRows, movedSpan, niceStep, placedLanes, runsOf } from "../src/view-timeline.js";
import { heaviestOfYours, isReal, listName } from "../src/view-top.js";

test("values read as `flamelet top` prints them", () => {
  assert.equal(valueLabel(1536, "bytes"), "1.50kB");
  assert.equal(valueLabel(10_000_000, "nanoseconds"), "10ms");
  assert.equal(valueLabel(90, "seconds"), "90s");
  assert.equal(valueLabel(7200, "s"), "2hrs");
  assert.equal(valueLabel(-2048, "bytes"), "-2kB");
  assert.equal(valueLabel(0, "nanoseconds"), "0");
  assert.equal(valueLabel(3, "requests"), "3");
  assert.equal(valueLabel(1234567, "count"), "1\u202f234\u202f567");
  assert.equal(exactLabel(1500, "bytes"), "1.46kB (1\u202f500 bytes)");
  assert.equal(changeLabel(2048, "bytes"), "+2kB");
});

test("shares keep two digits", () => {
  assert.equal(shareLabel(1, 8), "12.50%");
  assert.equal(shareLabel(9996, 10000), "100%");
  assert.equal(shareLabel(1, 800), "0.13%");
  assert.equal(shareLabel(0, 10), "0%");
  assert.equal(shareLabel(5, 0), "0%");
});

test("changes within chance are marked", () => {
  assert.ok(isNoise(100, 110, 1));
  assert.ok(!isNoise(100, 200, 1));
  assert.ok(isNoise(10_000, 11_500, 1), "runs of an unchanged program differ by more than sampling");
  assert.ok(!isNoise(10_000, 16_000, 1));
  assert.equal(isReal(10_000, 11_500, 1, true), true, "the verdict of flamelet diff decides");
  assert.equal(isReal(100, 900, 1, false), false);
  assert.equal(isReal(100, 900, 1, undefined), true);
  assert.ok(isNoise(100, 200, 100), "two samples instead of one");
  assert.ok(!isNoise(0, 10, 1) && isNoise(0, 9, 1));
});

test("every state survives its address", () => {
  const state = {
    ...FIRST_STATE,
    view: "sandwich",
    type: "alloc_space",
    filters: [{ kind: "focus", text: "a:b&c=d#?%" }, { kind: "tagfocus", text: "route=/x y" }],
    zoom: "1z.a",
    query: "^foo(bar)?$",
    pivot: "<T as U>::f",
    time: "5-10",
    inverted: true,
    upward: true,
    sort: "cum",
    fold: "all,generics",
    open: "1z.a,2",
    mine: "^shop::",
  };
  assert.deepEqual(parseState(formatState(state)), state);
  assert.deepEqual(parseState(""), { ...FIRST_STATE, filters: [] });
  assert.equal(formatState({ ...FIRST_STATE }), "#/");
  assert.deepEqual(parseState("#/<script>?f=evil:x&f=focus:").filters, []);
  assert.equal(parseState("#/<script>").view, "");
});

test("the server hears only of what changes the data", () => {
  const state = { ...FIRST_STATE, zoom: "1", query: "q", type: "cpu", filters: [{ kind: "hide", text: "x" }] };
  assert.equal(dataQuery(state).toString(), "type=cpu&f=hide%3Ax");
});

test("patterns", () => {
  assert.ok(new RegExp(exactPattern("a<b>::c(*)[$]^|")).test("a<b>::c(*)[$]^|"));
  assert.equal(searchPattern(""), null);
  assert.ok(searchPattern("tokio").test("Tokio"));
  assert.ok(!searchPattern("Tokio").test("tokio"));
  assert.throws(() => searchPattern("("));
  assert.deepEqual(zoomKeys(zoomPath([0, 71, 4294967295])), [0, 71, 4294967295]);
  assert.deepEqual(zoomKeys(""), []);
});

test("lists show the function of a long C++ name and not only its types", () => {
  const text = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  const name = `bool app::Table<${text}>::find(${text} const&) const`;
  assert.equal(listName(name, 100), "app::Table::find");
  assert.equal(listName("app::find(int)", 100), "app::find(int)");
  assert.equal(listName("<shop::Cart as core::fmt::Debug>::fmt", 20), "shop::Cart::fmt");
});

test("long Rust names are shortened to what is read first", () => {
  assert.equal(withoutGenerics("a::B<C<D>, E>::f"), "a::B::f");
  assert.equal(withoutGenerics("<a::B<T> as c::D<E>>::f"), "a::B::f");
  assert.equal(withoutGenerics("f<fn() -> u8>"), "f");
  assert.equal(withoutGenerics("a < b"), "a < b");
  for (const [name, short] of JSON.parse(readFileSync(new URL("names.json", import.meta.url), "utf8"))) assert.equal(shortName(name), short, name);
  const measure = (text) => text.length * 10;
  assert.equal(fittedName("a::bb::cc", 90, measure), "a::bb::cc");
  assert.equal(fittedName("aaaa::bb::cc", 60, measure), "bb::cc");
  assert.equal(fittedName("aaaa::bb::cc", 50, measure), "bb::…");
  assert.equal(fittedName("aaaa::bb::cc", 10, measure), "");
});

/** root(10) → main(10) → a(7: own 2) → b(5), main → b(3) */
const PAYLOAD = {
  names: ["main", "a", "b"], keys: [11, 12, 13], krate: [0, 0, 0], crates: ["x"], hues: [0, 0, 0], file: [-1, -1, -1], files: [],
  owner: [0, 0, 0], owners: ["yours"], owner_kinds: ["yours"], chains: [], starts: [],
  zoom: 0, cutoff: 1, narrower: 0, diff: false,
  parent: [-1, 0, 1, 2, 1], name: [-1, 0, 1, 2, 2], weight: [10, 10, 7, 5, 3], own: [0, 0, 2, 5, 3],
};

/** @param {Picture} picture */
function outline(picture) {
  return Array.from({ length: picture.count }, (_, at) => `${" ".repeat(picture.depth[at])}${picture.nameOf(at)} ${picture.weight[at]}/${picture.own[at]} @${picture.x[at]}`);
}

test("boxes stand where their weights put them", () => {
  const picture = new Picture(PAYLOAD);
  assert.deepEqual(outline(picture), ["all 10/0 @0", " main 10/0 @0", "  a 7/2 @0", "   b 5/5 @0", "  b 3/3 @7"]);
  assert.equal(picture.boxAt(2, 8, 0), 4);
  assert.equal(picture.boxAt(3, 6, 0), -1);
  assert.deepEqual(picture.pathOf(3), [11, 12, 13]);
  assert.equal(picture.find([11, 12, 13]), 3);
  assert.equal(picture.find([11, 99]), 1);
  assert.ok(picture.standsOn(2, 3) && !picture.standsOn(2, 4));
});

test("a search counts each stack once", () => {
  const picture = new Picture(PAYLOAD);
  assert.equal(picture.matches(/^b$/).weight, 8);
  assert.equal(picture.matches(/a|b/).weight, 10);
  assert.equal(picture.matches(/nothing/).boxes, 0);
});

test("a saved page can turn its tree around", () => {
  const picture = new Picture(PAYLOAD);
  assert.deepEqual(outline(invertedPicture(picture)), ["all 10/0 @0", " b 8/0 @0", "  a 5/0 @0", "   main 5/5 @0", "  main 3/3 @5", " a 2/0 @8", "  main 2/2 @8"]);
  assert.deepEqual(outline(pivotPicture(picture, "b", true)), ["b 8/0 @0", " a 5/0 @0", "  main 5/5 @0", " main 3/3 @5"]);
  assert.deepEqual(outline(pivotPicture(picture, "a", false)), ["a 7/2 @0", " b 5/5 @0"]);
});

/** Stacks as a payload: `s:` starts threads, `t:` is tokio’s, `j:` serde_json’s, `w:` the rest of std; everything else is yours. */
function payloadOf(stacks) {
  const owners = ["yours", "std", "tokio 1.47.1", "serde_json 1.0.1", "std"];
  const kinds = ["yours", "std", "runtime", "dependency", "std"];
  const rows = new Map();
  const out = { names: [], keys: [], krate: [], crates: [""], hues: [], file: [], files: [], owner: [], owners, owner_kinds: kinds, chains: [], starts: [], zoom: 0, cutoff: 1, narrower: 0, diff: false, parent: [], name: [], weight: [], own: [] };
  const rowOf = (text) => {
    if (rows.has(text)) return rows.get(text);
    const [prefix, name] = text.includes(":") ? text.split(":") : ["", text];
    const row = out.names.length;
    out.names.push(name);
    out.keys.push(row + 1);
    out.krate.push(0);
    out.hues.push(0);
    out.file.push(-1);
    out.owner.push(["", "s", "t", "j", "w"].indexOf(prefix));
    if (prefix === "s") out.starts.push(row);
    rows.set(text, row);
    return row;
  };
  const tree = { name: -1, weight: 0, own: 0, children: new Map() };
  for (const [stack, weight] of stacks) {
    let node = tree;
    node.weight += weight;
    for (const text of stack.split(" ")) {
      const row = rowOf(text);
      if (!node.children.has(row)) node.children.set(row, { name: row, weight: 0, own: 0, children: new Map() });
      node = node.children.get(row);
      node.weight += weight;
    }
    node.own += weight;
  }
  const walk = (node, parent) => {
    const at = out.parent.length;
    out.parent.push(parent);
    out.name.push(node.name);
    out.weight.push(node.weight);
    out.own.push(node.own);
    for (const child of [...node.children.values()].sort((a, b) => b.weight - a.weight)) walk(child, at);
  };
  walk(tree, -1);
  return out;
}

const SERVICE = [
  ["s:start s:begin t:run t:poll serve j:parse j:value visit j:text", 5],
  ["s:start s:begin t:run t:run t:poll serve j:parse j:number", 2],
  ["s:start s:begin t:run t:park w:wait", 4],
];

test("a saved page folds chains of others’ frames as the server does", () => {
  const picture = new Picture(payloadOf(SERVICE));
  const lines = (other) => outline(other).map((line) => line.replace(/ @.*/, ""));
  assert.deepEqual(lines(foldedPicture(picture, new Set())), [
    "all 11/0", " tokio · 4 to 5 frames 11/0", "  serve 7/0", "   serde_json · 2 frames 5/0", "    visit 5/0", "     text 5/5", "   parse 2/0", "    number 2/2", "  wait 4/4",
  ]);
  assert.deepEqual(lines(invertedPicture(picture, new Set())).slice(0, 6), ["all 11/0", " text 5/0", "  visit 5/0", "   serde_json · 2 frames 5/0", "    serve 5/0", "     tokio · 4 frames 5/5"]);
  const folded = foldedPicture(picture, new Set());
  assert.deepEqual([1, 2, 3].map((at) => folded.isChain(at)), [true, false, true]);
  const opened = foldedPicture(picture, new Set([zoomPath(folded.pathOf(1))]));
  assert.deepEqual(lines(opened).slice(1, 5), [" start 11/0", "  begin 11/0", "   run 11/0", "    poll 5/0"]);
  assert.ok(lines(opened).includes("      serde_json · 2 frames 5/0"));
  // A search counts what is folded, and knows that it is.
  assert.equal(picture.matches(/^poll$/).weight, 7);
  assert.equal(folded.matches(/^poll$/).weight, 0);
  assert.deepEqual(folded.holding(/^poll$/).map((at) => folded.nameOf(at)), ["tokio · 4 to 5 frames"]);
  assert.deepEqual(folded.holding(/^serve$/), []);
  assert.deepEqual(opened.holding(/^poll$/), [], "it is open");
});

test("text can be read on every colour, in both themes (WCAG AA)", () => {
  const style = readFileSync(new URL("../palette.css", import.meta.url), "utf8");
  const themes = style.split(":root").slice(1).map((block) => Object.fromEntries([...block.matchAll(/(--[\w-]+): (#[0-9a-f]{6})/g)].map((found) => [found[1], found[2]])));
  assert.equal(themes.length, 2);
  for (const theme of themes) {
    const palette = new Palette((name) => theme[name]);
    const parse = (colour) => (colour.startsWith("#") ? rgbOf(colour) : colour.match(/\d+/g).map(Number));
    const fills = [...palette.hues.flat(), palette.root, ...palette.changes];
    const ink = rgbOf(theme["--box-ink"]);
    const readable = (paper, text, what) => assert.ok(contrast(paper, text) >= LEAST_CONTRAST, `${what}: ${text} on ${paper} is ${contrast(paper, text)}`);
    for (const fill of fills.map(parse)) {
      readable(fill, ink, "a box");
      const faded = mixed(fill, rgbOf(theme["--bg"]), 0.55);
      readable(faded, mixed(ink, faded, 0.2), "a box that a search does not match");
    }
    palette.heat.forEach((fill, at) => readable(parse(fill), parse(palette.heatInk[at]), "a hot box"));
    const pairs = [["--ink", "--bg"], ["--ink", "--panel"], ["--soft", "--bg"], ["--soft", "--panel"], ["--soft", "--accent-wash"], ["--ink", "--heat-1"], ["--accent", "--bg"], ["--on-accent", "--accent"], ["--hit-ink", "--hit"], ["--warn-ink", "--warn-wash"], ["--more", "--bg"], ["--less", "--bg"], ["--bad", "--bg"]];
    for (const [ink, paper] of pairs) assert.ok(contrast(rgbOf(theme[ink]), rgbOf(theme[paper])) >= 4.5, `${ink} on ${paper}: ${contrast(rgbOf(theme[ink]), rgbOf(theme[paper]))}`);
  }
});

test("lines of the summary lead to what they are about", () => {
  const places = [{ function: "shop::total", file: "", line: 0, share: 1 }];
  const opened = { about: { has_timeline: false, label_keys: ["thread"], is_heap: true }, code: true };
  const leads = (/** @type {any} */ closer, /** @type {any} */ other = {}) => shownBy({ ...opened, ...other }, { closer, places });
  assert.deepEqual(leads({ view: "yours", focus: "^core::hash|sip", sample_type: "" }), { view: "flame", query: "^core::hash|sip", zoom: "" });
  assert.deepEqual(leads({ view: "yours", focus: "", sample_type: "" }), { view: "sandwich", pivot: "shop::total" });
  assert.deepEqual(leads({ view: "yours", focus: "", sample_type: "temporary_objects" }), { view: "sandwich", pivot: "shop::total", type: "temporary_objects" });
  assert.deepEqual(leads({ view: "lines", function: "shop::add" }), { view: "source", pivot: "shop::add" });
  assert.deepEqual(leads({ view: "lines", function: "shop::add" }, { code: false }), { view: "sandwich", pivot: "shop::add" });
  assert.deepEqual(leads({ view: "threads" }), { view: "tags" });
  assert.deepEqual(leads({ view: "threads" }, { about: { has_timeline: true } }), { view: "timeline" });
  assert.deepEqual(leads({ view: "heap", what: "temporary" }), { view: "heap" });
  assert.deepEqual(leads({ view: "info" }), { view: "info" });
  const serde = new RegExp(cratePattern("serde_json 1.0.149"));
  for (const text of ["serde_json::de::from_str", "/registry/src/i/serde_json-1.0.149/src/de.rs", "<serde_json::Value as Clone>::clone"]) assert.ok(serde.test(text), text);
  for (const text of ["my_serde_json::x", "serde_json_path::x", "serde::de::x"]) assert.ok(!serde.test(text), text);
  assert.ok(new RegExp(cratePattern("[libc.so.6]")).test("/usr/lib/libc.so.6"));
});

test("lanes of several processes have titles", () => {
  const lane = (pid, process) => ({ pid, process });
  const places = (lanes) => placedLanes(lanes, 30).map(({ y, title }) => [y, title]);
  assert.deepEqual(places([lane(1, "a"), lane(1, "a")]), [[0, ""], [30, ""]]);
  assert.deepEqual(places([lane(1, "a"), lane(1, "a"), lane(2, "")]), [[20, "a 1"], [50, ""], [100, "process 2"]]);
  assert.deepEqual(places([]), []);
});

test("marks of neighbouring buckets are one strip, and say what they are", () => {
  assert.deepEqual(runsOf([-1, 2, 2, 3, -1, 3]), [{ from: 1, to: 3, row: 2 }, { from: 3, to: 4, row: 3 }, { from: 5, to: 6, row: 3 }]);
  assert.deepEqual(runsOf([]), []);
  const data = { unit: "nanoseconds", marks: [{ kind: "call", name: "read" }, { kind: "gc", name: "" }, { kind: "span", name: "a:b" }] };
  const lane = { marks: [0, 1, -1], marked: [2e6, 3e6, 0], spans: [2, -1, -1] };
  assert.deepEqual(markRows(lane, 0, data), [["system call", "read 2ms"], ["span", "a:b"]]);
  assert.deepEqual(markRows(lane, 1, data), [["collecting garbage", "3ms"]]);
  assert.deepEqual(markRows(lane, 2, data), []);
  assert.deepEqual(markRows({ marks: [], marked: [], spans: [] }, 0, data), []);
});

test("sandwich and source begin with the heaviest function of yours", () => {
  const rows = { names: ["memcpy", "shop::a", "shop::b"], owner: [0, 1, 1], owner_kinds: ["std", "yours"], name: [0, 1, 2], flat: [90, 1, 5] };
  assert.equal(heaviestOfYours(rows), "shop::b");
  assert.equal(heaviestOfYours({ ...rows, owner_kinds: ["std", "std"] }), "memcpy");
  assert.equal(heaviestOfYours({ ...rows, name: [], flat: [] }), "");
});

test("the quality verdict names what is wrong", () => {
  const about = { samples: 5000, locations: 100, unnamed_locations: 0, quality: { samples: 5000, lost: 2000, truncated: 0, asked_hertz: 99, achieved_hertz: 98 } };
  assert.deepEqual(findings(about, true).map((one) => one.level), ["poor", "good", "good", "good"]);
  const slow = { samples: 500, lost: 0, truncated: 0, asked_hertz: 1000, achieved_hertz: 250 };
  assert.ok(findings({ ...about, quality: slow }, true).every((one) => one.level === "good"), "a low rate loses nothing");
  const few = { ...about, quality: null, samples: 10, unnamed_locations: 50 };
  assert.equal(findings(few, false).filter((one) => one.level === "poor").length, 2);
  assert.equal(findings(few, true).filter((one) => one.level === "poor").length, 1, "rows are not observations, which the verdict counts");
});

test("nothing is claimed that nobody measured", () => {
  const quality = { engine: "perf", samples: 900, lost: 0, truncated: 0, asked_hertz: 997, achieved_hertz: 0, own_cpu_nanos: 0 };
  const about = { title: "perf.data", types: [], label_keys: [], samples: 500, stacks: 400, functions: 30, locations: 100, unnamed_locations: 0, threads: 1, quality };
  const texts = (about) => findings(about, true).map((one) => one.text);
  assert.ok(texts(about).includes("997 samples a second requested"));
  assert.ok(texts({ ...about, quality: { ...quality, achieved_hertz: 249.913 } }).includes("250 samples a second; 997 requested"));
  assert.ok(!texts({ ...about, quality: { ...quality, asked_hertz: 0 } }).some((text) => text.includes("a second")));
  const names = (about) => facts(about).map(([name]) => name);
  assert.ok(!names(about).some((name) => name.startsWith("Profiler's own CPU")));
  const measured = { ...about, quality: { ...quality, own_cpu_nanos: 5 } };
  assert.ok(names(measured).includes("Profiler's own CPU"));
  assert.ok(names({ ...measured, is_part: true }).includes("Profiler's own CPU, whole recording"));
  assert.ok(texts({ ...about, is_part: true }).includes("0 of 900 samples lost (0.0%), in the whole recording"));
});

test("heap: sample types go in pairs, what is live first", () => {
  const type = (kind, unit) => ({ kind, unit });
  const go = [type("alloc_objects", "count"), type("alloc_space", "bytes"), type("inuse_objects", "count"), type("inuse_space", "bytes")];
  assert.deepEqual(heapPairs(go), [{ id: "inuse", title: "Live", objects: 2, space: 3 }, { id: "alloc", title: "Allocated", objects: 0, space: 1 }]);
  assert.deepEqual(heapPairs([type("growth_space", "bytes")]), [{ id: "growth", title: "Grown", objects: -1, space: 0 }]);
  assert.deepEqual(heapPairs([type("cpu", "nanoseconds")]), []);
});

test("timeline: lanes by task are offered where samples name tasks", () => {
  assert.ok(hasTasks({ label_keys: ["thread", "task"] }) && hasTasks({ label_keys: ["route"] }));
  assert.ok(!hasTasks({ label_keys: ["thread"] }) && !hasTasks(null));
});

test("requests: the parts in words, and the filters of a route", () => {
  const sum = { count: 4, wall_ns: 400, cpu_ns: 100, blocked_ns: 0, awaiting_ns: 290, runnable_ns: 10 };
  assert.equal(partsText(sum), "CPU 25.0 %, blocked 0.0 %, awaiting 72.5 %, runnable 2.5 %");
  assert.equal(partsText({ ...sum, wall_ns: 0, cpu_ns: 0, awaiting_ns: 0, runnable_ns: 0 }), "CPU 0.0 %, blocked 0.0 %, awaiting 0.0 %, runnable 0.0 %");
  const ofRoute = { kind: "tagfocus", text: "route=^/users/\\{id\\}$" };
  assert.deepEqual(routeFilters("/users/{id}", ""), [ofRoute]);
  assert.deepEqual(routeFilters("/users/{id}", "blocked"), [ofRoute, { kind: "tagfocus", text: "part=^blocked$" }]);
});

test("cells of a heatmap by keyboard", () => {
  assert.equal(movedCell(null, "ArrowUp", 3, 50), 0);
  assert.equal(movedCell(0, "ArrowUp", 3, 50), 1);
  assert.equal(movedCell(1, "ArrowRight", 3, 50), 51);
  assert.equal(movedCell(149, "ArrowRight", 3, 50), 149);
  assert.equal(movedCell(149, "ArrowUp", 3, 50), 149);
  assert.equal(movedCell(50, "ArrowDown", 3, 50), 50);
  assert.equal(movedCell(50, "ArrowLeft", 3, 50), 0);
  assert.equal(movedCell(5, "x", 3, 50), null);
  assert.equal(movedCell(null, "ArrowUp", 0, 50), null);
});

test("times by keyboard, and how finely they are cut", () => {
  assert.deepEqual(movedSpan(null, 1, false, 1000), [0, 50]);
  assert.deepEqual(movedSpan([0, 50], 1, false, 1000), [50, 100]);
  assert.deepEqual(movedSpan([0, 50], -1, false, 1000), [0, 50]);
  assert.deepEqual(movedSpan([900, 1000], 1, true, 1000), [900, 1000]);
  assert.deepEqual(movedSpan([0, 100], -1, true, 1000), [0, 50]);
  assert.equal(bucketCount(1200, { duration_nanos: 5e9, quality: { achieved_hertz: 99 } }), 123);
  assert.equal(bucketCount(1200, { duration_nanos: 5e9, quality: { achieved_hertz: 999 } }), 400);
  assert.equal(bucketCount(1200, null), 400);
});

test("times", () => {
  assert.deepEqual(chosenSpan("5-10"), [5, 10]);
  assert.equal(chosenSpan("x"), null);
  assert.equal(niceStep(130), 200);
  assert.equal(niceStep(1e9), 1e9);
});

test("label selectors are completed and written as the collector reads them", () => {
  const labels = [
    { name: "version", values: ["1", "2"] },
    { name: "zone", values: ['a"b\\', "eu"] },
  ];
  assert.deepEqual(completions(labels, ""), ['{version="1"}', '{version="2"}', '{zone="a\\"b\\\\"}', '{zone="eu"}']);
  assert.deepEqual(completions(labels, "{VERS"), ['{version="1"}', '{version="2"}']);
  assert.deepEqual(completions(labels, '{version="2", z'), ['{version="2", zone="a\\"b\\\\"}', '{version="2", zone="eu"}']);
  assert.deepEqual(completions(labels, "nothing"), []);
  assert.equal(condition("a", "x\ny"), 'a="x\\ny"');
  assert.equal(withLabel("", "version", "2"), '{version="2"}');
  assert.equal(withLabel('{zone="eu",}', "version", "2"), '{zone="eu", version="2"}');
  const many = [{ name: "pod", values: Array.from({ length: 1000 }, (_, at) => `p${at}`) }];
  assert.equal(completions(many, "").length, 200);
});

test("the time picker's axis has round steps, and says when", () => {
  assert.equal(axisStep(1), 1000);
  assert.equal(axisStep(61_000), 120_000);
  assert.equal(axisStep(700_000_000), 1_209_600_000);
  const time = Date.UTC(2026, 10, 15, 3, 4, 5);
  assert.equal(clockText(time, 0), "2026-11-15 03:04:05");
  assert.equal(clockText(time, 1000), "03:04:05");
  assert.equal(clockText(time, 60_000), "03:04");
  assert.equal(clockText(time, 86_400_000), "11-15");
});
