// Everything is built as text nodes: names come from a guest's memory.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

function table(headings, rows) {
  const made = element("table"), head = made.createTHead().insertRow();
  for (const heading of headings) head.append(element("th", heading, { scope: "col" }));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, place) => {
      const box = place ? line.insertCell() : line.appendChild(element("th", undefined, { scope: "row" }));
      box.append(cell instanceof Node ? cell : String(cell));
    });
  }
  return made;
}

const percent = (share) => (100 * share).toFixed(1) + "%";
const conflictsOf = (outcome) => data.sets[outcome].map((number) => data.conflicts[number]);
const isFree = (outcome) => conflictsOf(outcome).every((conflict) => conflict[1] === "pair");

// Of one place: tests, and how many are conflict-free, by pair of calls.
function counts(place) {
  const found = new Map();
  data.tests.forEach(([, a, b], number) => {
    const outcome = data.outcomes[place][number];
    if (typeof outcome !== "number") return;
    const key = Math.max(a, b) + " " + Math.min(a, b);
    const count = found.get(key) || { tests: 0, free: 0 };
    count.tests++;
    count.free += isFree(outcome);
    found.set(key, count);
  });
  return found;
}

function total(place) {
  const sum = { tests: 0, free: 0 };
  for (const count of counts(place).values()) {
    sum.tests += count.tests;
    sum.free += count.free;
  }
  return sum;
}

function showAll() {
  const rows = data.places.map(({ name, missing }) => {
    const sum = total(name);
    const wrong = data.outcomes[name].filter((outcome) => typeof outcome === "string").length;
    return [name, sum.tests, sum.free, sum.tests ? percent(sum.free / sum.tests) : "-", wrong, missing];
  });
  for (const [name, [free, tests]] of Object.entries(data.published))
    rows.push([name + " (published)", tests, free, percent(free / tests), "", ""]);
  at("all").replaceChildren(table(["", "tests", "conflict-free", "share", "wrong", "not run"], rows));
}

// Blue where conflict-free, orange where not; the number says the same.
function colour(share) {
  return `color-mix(in oklab, var(--free) ${Math.round(100 * share)}%, var(--shared))`;
}

function cell(count, before, row, column) {
  if (!count) return ".";
  const share = count.free / count.tests, whole = Math.round(100 * share);
  let text = String(share > 0 && share < 1 ? Math.min(Math.max(whole, 1), 99) : whole), shade = share;
  if (before) {
    const difference = share - before.free / before.tests;
    text = (difference > 0 ? "+" : "") + Math.round(100 * difference);
    shade = 0.5 + difference / 2;
  }
  const title = `${data.calls[row]}/${data.calls[column]}: ${count.free} of ${count.tests} conflict-free`;
  const made = element("button", text, { type: "button", title, "aria-label": title });
  made.style.background = colour(shade);
  made.addEventListener("click", () => showTests(row, column));
  return made;
}

function showTriangle() {
  const found = counts(at("place").value), other = at("before").value;
  const before = other ? counts(other) : new Map();
  const rows = data.calls.map((name, row) => [
    name,
    ...data.calls.slice(0, row + 1).map((_, column) => {
      const key = row + " " + column;
      return other && !before.get(key) ? "." : cell(found.get(key), before.get(key), row, column);
    }),
  ]);
  at("triangle").replaceChildren(table(["", ...data.calls], rows));
  const shared = data.places.find(({ name }) => name === at("place").value).shared;
  at("shared").replaceChildren(
    table(["what is shared", "tests with it", "with nothing else", "share without all so far"],
      shared.map(([name, tests, alone, share]) => [name, tests, alone, percent(share)])));
}

function showTests(row, column) {
  const place = at("place").value, testsWith = new Map();
  data.tests.forEach(([, a, b], number) => {
    const outcome = data.outcomes[place][number];
    if (Math.max(a, b) !== row || Math.min(a, b) !== column || outcome === null) return;
    const names = typeof outcome === "string" ? ["wrong: " + outcome]
      : conflictsOf(outcome).filter((one) => one[1] !== "pair").map((one) => data.texts[one[0]]).sort();
    const key = [...new Set(names)].join(", ") || "conflict-free";
    testsWith.set(key, [...(testsWith.get(key) || []), number]);
  });
  const section = at("tests");
  section.replaceChildren(element("h2", `${data.calls[row]}/${data.calls[column]} on ${place}`));
  for (const [names, numbers] of [...testsWith].sort((a, b) => b[1].length - a[1].length)) {
    section.append(element("p", `${numbers.length} tests: ${names}`));
    const list = section.appendChild(element("div", undefined, { class: "numbers" }));
    for (const number of numbers) {
      const made = list.appendChild(element("button", String(data.tests[number][0]), { type: "button" }));
      made.addEventListener("click", () => showTest(number));
    }
  }
  at("test").replaceChildren();
  section.focus();
}

function showTest(number) {
  const section = at("test"), [id, , , text] = data.tests[number];
  section.replaceChildren(element("h2", "Test " + id), element("pre", data.texts[text]));
  for (const { name } of data.places) {
    const outcome = data.outcomes[name][number];
    if (outcome === null) continue;
    const wrong = typeof outcome === "string";
    section.append(element("h3", name + ": " + (wrong ? "wrong" : isFree(outcome) ? "conflict-free" : "not conflict-free")));
    if (wrong) section.append(element("p", outcome));
    else if (data.sets[outcome].length) {
      const rows = conflictsOf(outcome).map(([what, kind, a, b]) => [
        data.texts[what] + (kind === "pair" ? " (two lines side by side)" : kind ? " (different bytes of a line)" : ""),
        data.texts[a], data.texts[b]]);
      const made = table(["what is shared", "A", "B"], rows);
      made.querySelectorAll("td").forEach((box) => { box.className = "text"; });
      section.append(made);
    }
    const [, kernel, fs, cpus] = name.match(/^(.*?) (\S+?)(?:, (\d+) CPUs)?$/);
    const more = cpus ? ` --cpus ${cpus}` : "";
    section.append(element("p", "It alone:"), element("pre", `bigiron matrix test ${data.folder} ${id} --kernel ${kernel} --fs ${fs}${more}`));
  }
  section.focus();
}

for (const { name } of data.places) {
  at("place").append(element("option", name, { value: name }));
  at("before").append(element("option", name, { value: name }));
}
at("before").prepend(element("option", "nothing", { value: "" }));
at("before").value = "";
for (const id of ["place", "before"]) at(id).addEventListener("change", showTriangle);
showAll();
if (data.places.length) showTriangle();
