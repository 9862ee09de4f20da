// The first page: which view the matrix shows, and which rows. What is chosen stands in the address, to be cited.

function matrix() {
  const table = document.getElementById("cells");
  if (!table) return;
  const views = JSON.parse(document.getElementById("views").textContent);
  const rows = all("tr[data-row]", table);
  const [view, find, changed] = ["view", "find", "changed"].map((id) => document.getElementById(id));
  const legends = all("#legends > span");
  const known = new URLSearchParams(location.hash.slice(1));
  if (views[known.get("view")]) view.value = known.get("view");
  find.value = known.get("find") || "";
  changed.checked = known.has("changed");

  const show = () => {
    const cells = views[view.value];
    for (const row of rows) {
      cells[row.dataset.row].forEach(([text, shade = "", mark = "", apart = 0, title = ""], at) => {
        const cell = row.cells[at + 1];
        cell.className = `figure ${shade} ${apart ? "apart" : ""}`;
        cell.replaceChildren(...(mark ? [element("i", "", mark)] : []), text);
        if (title && shade) cell.append(element("small", "", title));
        cell.title = title;
      });
    }
    legends.forEach((legend, at) => { legend.hidden = String(at) !== view.value; });
  };
  const narrow = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = `${row.parentElement.dataset.suite} ${row.textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (changed.checked && !("changed" in row.dataset));
      shown += row.hidden ? 0 : 1;
    }
    for (const body of table.tBodies) body.hidden = all("tr[data-row]", body).every((row) => row.hidden);
    document.getElementById("count").textContent =
      shown === rows.length ? `${shown} workloads` : `${shown} of ${rows.length} workloads`;
  };
  const remember = () => {
    const chosen = new URLSearchParams();
    if (view.value !== "0") chosen.set("view", view.value);
    if (find.value) chosen.set("find", find.value);
    if (changed.checked) chosen.set("changed", "");
    history.replaceState(null, "", `#${chosen}`);
  };
  view.addEventListener("change", () => { show(); remember(); });
  find.addEventListener("input", () => { narrow(); remember(); });
  changed.addEventListener("change", () => { narrow(); remember(); });
  if (view.value !== "0") show();
  narrow();
}

matrix();
