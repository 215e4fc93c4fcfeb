// SPDX-License-Identifier: Apache-2.0
// The keyboard: / searches, g then f, t or o goes, j and k move between rows, Enter opens, ? helps.
const PLACES = { f: "/", t: "/tables", o: "/operations" };

function rows() {
  return [...document.querySelectorAll("tr[data-href]")];
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
}

function open(row) {
  if (row?.matches?.("tr[data-href]")) location.assign(row.dataset.href);
}

export function listenToKeys() {
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) return;
    const wasGoing = isGoing;
    isGoing = false;
    if (wasGoing && PLACES[event.key]) location.assign(PLACES[event.key]);
    else if (event.key === "g") isGoing = true;
    else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("input[type=search]")?.focus();
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter") open(event.target);
    else if (event.key === "?") document.querySelector("dialog#help")?.showModal();
  });
}
