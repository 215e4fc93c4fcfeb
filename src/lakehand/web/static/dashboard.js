// SPDX-License-Identifier: Apache-2.0
// What pages do beyond being read: charts, live updates, keys, copying and the theme. Every part may be missing.
import { drawCharts, redrawInNewColours } from "./charts.js";
import { rememberParts, watchPage } from "./live.js";
import { listenToKeys } from "./keys.js";
import { keepTimesFresh } from "./times.js";

function copyPaths() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      button.textContent = "select and copy it";
    }
  });
}

function switchTheme() {
  const button = document.querySelector("button[data-theme-switch]");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    drawCharts({ again: true });
  });
}

function sendFiltersAtOnce() {
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-at-once] select")) event.target.form.requestSubmit();
  });
}

// A page that answers a form has the address of the form, which cannot be read again.
function showOwnAddress() {
  const own = document.body.dataset.address;
  if (own) history.replaceState(null, "", own);
}

showOwnAddress();
rememberParts();
copyPaths();
switchTheme();
sendFiltersAtOnce();
listenToKeys();
keepTimesFresh();
drawCharts({});
redrawInNewColours();
watchPage(() => drawCharts({}));
