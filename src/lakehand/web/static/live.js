// SPDX-License-Identifier: Apache-2.0
// Keeps a page true while it is open: the service sends a word when something changed, and the parts that are
// marked with data-live are fetched again. Forms and everything else stay as they are.
import { refreshTimes } from "./times.js";

const PAUSE = 1000; // milliseconds between two fetches at least
const FLEET_PAUSE = 3000; // something changes in a fleet all the time
const RETRY = 5000; // milliseconds after a stream was refused
const seen = new Map(); // id of a part → its text as the service sent it

function parts() {
  return [...document.querySelectorAll("[data-live][id]")];
}

// Relative times differ at every fetch, and the page keeps them fresh by itself.
function textOf(part) {
  return part.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");
}

export function rememberParts() {
  for (const part of parts()) seen.set(part.id, textOf(part));
}

function isBeingTyped(part) {
  return part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
}

// Where the keyboard is, in words that also find the same place in the part that replaces this one.
function placeOf(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  if (element.dataset.href) return `[data-href="${CSS.escape(element.dataset.href)}"]`;
  const link = element.getAttribute("href") || element.form?.getAttribute("action");
  if (!link) return element.localName;
  return element.form ? `form[action="${CSS.escape(link)}"] ${element.localName}` : `a[href="${CSS.escape(link)}"]`;
}

function replacePart(old, fresh) {
  const open = [...old.querySelectorAll("details[id]")];
  const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const focused = old.contains(document.activeElement) ? placeOf(document.activeElement) : "";
  const now = document.importNode(fresh, true);
  old.replaceWith(now);
  for (const before of open) {
    const details = document.getElementById(before.id);
    if (!details) continue;
    details.open = before.open;
    Object.assign(details.dataset, before.dataset);
  }
  now.querySelectorAll(".scroll").forEach((one, number) => (one.scrollLeft = scrolled[number] || 0));
  if (focused) now.querySelector(focused)?.focus({ preventScroll: true });
}

async function refresh() {
  const answer = await fetch(location.href, { credentials: "same-origin", headers: { "X-Live": "1" } });
  if (!answer.ok || answer.redirected) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  let isChanged = false;
  for (const old of parts()) {
    const next = fresh.getElementById(old.id);
    if (!next || seen.get(old.id) === textOf(next) || isBeingTyped(old)) continue;
    seen.set(old.id, textOf(next));
    replacePart(old, next);
    isChanged = true;
  }
  if (isChanged) refreshTimes();
  return isChanged;
}

export function watchPage(onChange) {
  const topic = document.body.dataset.watch;
  const state = document.getElementById("live-state");
  if (!topic || !state) return;
  let isBusy = false;
  let isWanted = false;
  const run = async () => {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    while (isWanted) {
      isWanted = false;
      try {
        if (await refresh()) onChange();
      } catch {
        // The service is away: the event stream connects again by itself.
      }
      await new Promise((resolve) => setTimeout(resolve, topic === "fleet" ? FLEET_PAUSE : PAUSE));
    }
    isBusy = false;
  };
  const connect = () => {
    const stream = new EventSource(`/live?about=${encodeURIComponent(topic)}`);
    stream.addEventListener("changed", run);
    stream.addEventListener("open", () => {
      state.textContent = "live";
      run(); // something may have changed since the page was made
    });
    stream.addEventListener("error", () => {
      state.textContent = "not connected: trying again";
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, RETRY); // it was refused: the browser gives up
    });
  };
  connect();
}
