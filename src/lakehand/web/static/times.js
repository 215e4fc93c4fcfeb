// SPDX-License-Identifier: Apache-2.0
// Relative times stay true while a page is open.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

export function span(seconds) {
  for (const [unit, size] of UNITS) if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Math.round(seconds)} s`;
}

export function refreshTimes() {
  for (const one of document.querySelectorAll("time[datetime]")) {
    const seconds = (Date.now() - Date.parse(one.dateTime)) / 1000;
    const text = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
    if (one.textContent !== text) one.textContent = text;
  }
}

export function keepTimesFresh() {
  setInterval(refreshTimes, 10000);
}
