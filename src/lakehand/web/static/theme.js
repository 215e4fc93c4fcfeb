// SPDX-License-Identifier: Apache-2.0
// Applies the chosen theme before the page is drawn. Without a choice, the system decides.
const known = localStorage.getItem("theme");
if (known === "light" || known === "dark") document.documentElement.dataset.theme = known;
