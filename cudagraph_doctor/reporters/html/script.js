"use strict";
const root = document.documentElement;
const button = document.getElementById("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
button.setAttribute("aria-pressed", String(isDark()));
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  button.setAttribute("aria-pressed", String(isDark()));
});
const boxes = [...document.querySelectorAll(".filters input")];
const show = () => {
  const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset.level));
  for (const finding of document.querySelectorAll(".finding")) {
    finding.hidden = hidden.has(finding.dataset.level);
  }
};
boxes.forEach((box) => box.addEventListener("change", show));
