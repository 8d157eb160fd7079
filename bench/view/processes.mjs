// What processes use, from /proc.

import { readFileSync, readdirSync } from "node:fs";

/** What a process used so far: CPU seconds, and its memory at the highest moment. @param {number} pid */
export function spent(pid) {
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return { cpu_s: round(cpu(pid)), peak_mb: Math.round(Number(peak[1]) / 1024) };
}

/** The megabytes that a process holds now. @param {number} pid */
export function resident(pid) {
  const held = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return held ? Number(held[1]) / 1024 : 0;
}

/** CPU seconds and proportional megabytes of a process and all below it. @param {number} top */
export function tree(top) {
  const total = { cpu: 0, memory: 0 };
  for (const pid of below(top)) {
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
export function round(value) {
  return Math.round(value * 100) / 100;
}

/** CPU seconds of a process. @param {number | string} pid */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** A process and all that it started. @param {number} top @returns {string[]} */
function below(top) {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      parents.set(pid, readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ")[1]);
    } catch {
      // It has ended meanwhile.
    }
  }
  return [...parents.keys()].filter((pid) => {
    let at = pid;
    while (at !== undefined && at !== String(top)) at = parents.get(at);
    return at !== undefined;
  });
}
