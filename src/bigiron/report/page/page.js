"use strict";
// What the page can do besides being read: change its colours, sort and filter its tables, and zoom its flame
// graphs. Names come from kernels and guests, so they only ever become text, never markup.

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Colours: the system's, or light or dark as chosen.

const THEMES = ["system", "light", "dark"];

function remembered() {
  try { return localStorage.getItem("bigiron-theme"); } catch { return null; } // a file may be without storage
}

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
  try { localStorage.setItem("bigiron-theme", theme); } catch { /* then it is chosen again next time */ }
}

function themeSwitch() {
  const known = remembered();
  let at = Math.max(0, THEMES.indexOf(known));
  setTheme(THEMES[at]);
  document.getElementById("theme").addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    setTheme(THEMES[at]);
  });
}

// Tables

function valueOf(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const summary = cell.querySelector("summary");
  const text = (summary || cell).textContent.trim();
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

function sortBy(heading) {
  const body = heading.closest("table").tBodies[0];
  const column = heading.cellIndex;
  const first = body.rows[0];
  // Figures are looked at from the largest, names from A.
  const figures = first !== undefined && typeof valueOf(first.cells[column]) === "number";
  const order = heading.getAttribute("aria-sort");
  const descending = order ? order === "ascending" : figures;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const sign = descending ? -1 : 1;
  const keyed = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
  keyed.sort((one, other) => sign * compare(one[0], other[0]));
  body.append(...keyed.map((pair) => pair[1]));
}

function filter(places, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of all("tbody tr", places)) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
  count(places);
}

function count(places) {
  const rows = all(".tabled:not([hidden]) tbody tr", places);
  const shown = rows.filter((row) => !row.hidden).length;
  places.querySelector("output").textContent =
    shown === rows.length ? `${shown} row${shown === 1 ? "" : "s"}` : `${shown} of ${rows.length} rows`;
}

function tables(within) {
  for (const button of all("[data-sort]", within)) {
    button.addEventListener("click", () => sortBy(button.closest("th")));
  }
  for (const input of all("[data-filter]", within)) {
    input.addEventListener("input", () => filter(input.closest(".places"), input.value));
    count(input.closest(".places"));
  }
  for (const select of all("[data-places]", within)) {
    const show = () => {
      for (const table of all(".tabled", select.closest(".places"))) {
        table.hidden = table.dataset.place !== select.value;
      }
      count(select.closest(".places"));
    };
    select.addEventListener("change", show);
    show();
  }
}

// Flame graphs

const ROW = 20; // pixels
const NARROWEST = 0.4; // pixels: what is narrower is not drawn
const FEW = 3; // variants of which all views have room beside each other

class Flame {
  constructor(figure) {
    this.figure = figure;
    const data = JSON.parse(figure.querySelector("script").textContent);
    this.what = data.what;
    this.variants = data.variants;
    this.base = data.base;
    this.root = unpacked(data.tree, data.names, null);
    this.zoomed = this.root;
    this.words = "";
    this.tallest = 0; // it never shrinks: what was clicked stays under the pointer
    this.frames = figure.querySelector(".frames");
    this.readout = figure.querySelector(".readout");
    this.output = figure.querySelector("output");
    this.whole = figure.querySelector("[data-whole]");
    this.views = this.possibleViews();
    this.choose(this.views[this.variants.length] || this.views[0]);
    this.controls();
    this.draw();
  }

  // A view of each variant alone, then of each against the base.
  possibleViews() {
    const alone = this.variants.map((name, at) => ({ name, at, base: null }));
    const against = alone.filter((view) => view.at !== this.base).map((view) => ({
      name: `${view.name} − ${this.variants[this.base]}`, at: view.at, base: this.base,
    }));
    return [...alone, ...against];
  }

  choose(view) {
    this.view = view;
    const key = this.figure.querySelector(".key");
    key.replaceChildren();
    if (view.base === null) return;
    const base = this.variants[view.base];
    const swatch = (kind) => element("span", `swatch ${kind}`);
    key.append(
      swatch("more3"), `▲ more than on ${base}`, swatch("less3"), `▼ less`, swatch("even"), "= the same",
      ". A frame is as wide as both together.",
    );
  }

  controls() {
    const choice = this.figure.querySelector(".choice");
    choice.append(element("legend", "skip", "Show"));
    if (this.variants.length > FEW) this.selects(choice);
    else this.radios(choice);
    this.whole.addEventListener("click", () => this.zoom(this.root));
    const find = this.figure.querySelector("[data-find]");
    find.addEventListener("input", () => { this.words = find.value.trim().toLowerCase(); this.draw(); });
    find.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { find.value = ""; this.words = ""; this.draw(); }
    });
    this.frames.addEventListener("click", (event) => {
      const shown = event.target.closest(".frame");
      if (shown) this.zoom(shown.frame);
    });
    this.frames.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["mouseover", "focusin"]) {
      this.frames.addEventListener(kind, (event) => {
        const shown = event.target.closest(".frame");
        if (shown) this.tell(shown.frame);
      });
    }
    let width = this.frames.clientWidth;
    new ResizeObserver(() => {
      if (this.frames.clientWidth !== width) { width = this.frames.clientWidth; this.draw(); }
    }).observe(this.frames);
  }

  radios(choice) {
    for (const view of this.views) {
      const label = element("label");
      const radio = element("input");
      radio.type = "radio";
      radio.name = `view-of-${this.figure.id}`;
      radio.checked = view === this.view;
      radio.addEventListener("change", () => { this.choose(view); this.draw(); });
      label.append(radio, view.name);
      choice.append(label);
    }
    if (this.views.length === 1) choice.hidden = true;
  }

  selects(choice) {
    choice.classList.add("selects");
    const select = (text, values, chosen) => {
      const label = element("label", "", text);
      const made = element("select");
      values.forEach((value, at) => made.append(new Option(value, at, false, at === chosen)));
      made.addEventListener("change", () => {
        const base = Number(against.value) - 1;
        const at = Number(shown.value);
        this.choose({ at, base: base < 0 || base === at ? null : base });
        this.draw();
      });
      label.append(made);
      choice.append(label);
      return made;
    };
    const shown = select("Show ", this.variants, this.view.at);
    const against = select("against ", ["nothing", ...this.variants], this.view.base === null ? 0 : this.view.base + 1);
  }

  weight(frame) {
    const own = frame.weights[this.view.at];
    return this.view.base === null ? own : own + frame.weights[this.view.base];
  }

  zoom(frame) {
    this.zoomed = frame;
    this.draw();
    this.focus(frame);
  }

  focus(frame) {
    const shown = this.shown.get(frame);
    if (!shown) return;
    for (const other of this.shown.values()) other.tabIndex = -1;
    shown.tabIndex = 0;
    shown.focus({ preventScroll: false });
  }

  key(event) {
    const frame = event.target.frame;
    if (!frame) return;
    const drawn = (one) => this.shown.has(one);
    const siblings = frame.caller ? frame.caller.callees.filter(drawn) : [frame];
    const at = siblings.indexOf(frame);
    const heaviest = frame.callees.filter(drawn).sort((a, b) => this.weight(b) - this.weight(a))[0];
    const towards = {
      ArrowUp: heaviest, ArrowDown: frame.caller, ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1],
    };
    if (event.key in towards) {
      if (towards[event.key]) this.focus(towards[event.key]);
    } else if (event.key === "Enter" || event.key === " ") this.zoom(frame);
    else if (event.key === "Escape") this.zoom(this.root);
    else return;
    event.preventDefault();
  }

  draw() {
    this.shown = new Map();
    const width = this.frames.clientWidth || 1000;
    this.narrowest = NARROWEST / width;
    const drawn = document.createDocumentFragment();
    const callers = [];
    for (let frame = this.zoomed.caller; frame; frame = frame.caller) callers.unshift(frame);
    callers.forEach((frame, depth) => drawn.append(this.box(frame, depth, 0, 1, "above")));
    this.place(drawn, this.zoomed, callers.length, 0, 1);
    this.frames.replaceChildren(drawn);
    this.frames.style.height = `${this.tallest * ROW}px`;
    const first = this.shown.get(this.zoomed);
    if (first) first.tabIndex = 0;
    this.whole.hidden = this.zoomed === this.root;
    this.found();
  }

  place(drawn, frame, depth, from, share) {
    drawn.append(this.box(frame, depth, from, share, ""));
    this.tallest = Math.max(this.tallest, depth + 1);
    const whole = this.weight(frame);
    let at = from;
    for (const callee of frame.callees) {
      const part = whole ? share * this.weight(callee) / whole : 0;
      if (part >= this.narrowest) this.place(drawn, callee, depth + 1, at, part);
      at += part;
    }
  }

  box(frame, depth, from, share, extra) {
    const shown = element("div", `frame ${this.colour(frame)} ${extra}`, this.label(frame));
    const percent = (of) => `${(100 * of).toFixed(4)}%`;
    shown.style.left = percent(from);
    shown.style.width = percent(share);
    shown.style.bottom = `${depth * ROW}px`;
    if (share * this.frames.clientWidth < 24) shown.classList.add("thin"), shown.textContent = "";
    shown.tabIndex = -1;
    shown.setAttribute("role", "treeitem");
    shown.setAttribute("aria-level", String(depth + 1));
    shown.setAttribute("aria-label", this.said(frame));
    shown.frame = frame;
    this.shown.set(frame, shown);
    return shown;
  }

  difference(frame) {
    return frame.weights[this.view.at] - frame.weights[this.view.base];
  }

  label(frame) {
    if (this.view.base === null) return frame.name;
    return `${this.sign(frame)} ${frame.name}`;
  }

  // Less than a thousandth of both is no difference.
  sign(frame) {
    const difference = this.difference(frame);
    if (Math.abs(difference) <= 0.001 * this.weight(frame)) return "=";
    return difference > 0 ? "▲" : "▼";
  }

  colour(frame) {
    if (this.view.base !== null) {
      const sign = this.sign(frame);
      if (sign === "=") return "even";
      const step = Math.min(4, 1 + Math.floor(4 * Math.abs(this.difference(frame)) / this.weight(frame)));
      return sign === "▲" ? `more${step}` : `less${step}`;
    }
    if (!frame.caller) return "root";
    if (!frame.callees.length && /[^\w.]/.test(frame.name)) return "object"; // no function's name
    let hash = 0;
    for (const character of frame.name) hash = (hash * 31 + character.codePointAt(0)) % 65521;
    return `c${hash % 6}`;
  }

  said(frame) {
    const each = this.variants.map((name, at) => {
      const share = this.root.weights[at] ? ` (${(100 * frame.weights[at] / this.root.weights[at]).toFixed(1)} %)` : "";
      return `${number(frame.weights[at])}${share} on ${name}`;
    });
    return `${frame.name}: ${this.what} per operation: ${each.join(", ")}`;
  }

  tell(frame) {
    const text = this.said(frame).slice(frame.name.length);
    this.readout.replaceChildren(element("b", "", frame.name), text);
  }

  // Marks what is sought, and says how much of what is shown it is: each stack once.
  found() {
    this.output.textContent = "";
    if (!this.words) return;
    let weight = 0;
    let hits = 0;
    const visit = (frame, within) => {
      const hit = frame.name.toLowerCase().includes(this.words);
      if (hit && !within) weight += this.weight(frame);
      if (hit) hits += 1;
      const shown = this.shown.get(frame);
      if (shown) shown.classList.add(hit ? "hit" : "missed");
      for (const callee of frame.callees) visit(callee, within || hit);
    };
    visit(this.zoomed, false);
    const share = this.weight(this.zoomed) ? 100 * weight / this.weight(this.zoomed) : 0;
    this.output.textContent =
      hits ? `in ${hits} frame${hits === 1 ? "" : "s"}, ${share.toFixed(1)} %` : "not found";
  }
}

function unpacked([name, weights, callees = []], names, caller) {
  const frame = { name: names[name], weights, caller, callees: [] };
  frame.callees = callees.map((callee) => unpacked(callee, names, frame));
  return frame;
}

function number(value) {
  if (!value) return "0";
  return value < 1000 ? value.toFixed(3) : value.toLocaleString("en", { maximumFractionDigits: 1 });
}

function flames(within) {
  for (const figure of all(".flame", within)) new Flame(figure);
}

function shortcuts() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select")) return;
    const figure = event.target.closest(".flame");
    const input = figure ? figure.querySelector("[data-find]") : document.querySelector("main input[type=search]");
    if (input) { input.focus(); event.preventDefault(); }
  });
  addEventListener("beforeprint", () => { for (const details of all(".findings details")) details.open = true; });
}

themeSwitch();
tables(document);
flames(document);
shortcuts();
