// The address keeps what the reader chose: #SECTION&filter=TEXT&sort=TABLE.COLUMN.DIRECTION
const address = () => {
  const [anchor, ...rest] = location.hash.slice(1).split("&");
  const chosen = new URLSearchParams((anchor.includes("=") ? [anchor, ...rest] : rest).join("&"));
  return { anchor: anchor.includes("=") ? "" : anchor, chosen };
};
const tables = [...document.querySelectorAll("main table")].filter((table) => table.tHead);
const input = document.getElementById("filter"), found = document.querySelector("output");
// Where no table has rows to choose from, the filter chooses sections.
const parts = tables.length ? [] : [...document.querySelectorAll("main > section")];
// Further conditions of a row, and what follows a filter: a page's own script may add to these.
const conditions = [], afterwards = [];
let chosen = address().chosen;

function remember(anchor = address().anchor) {
  history.replaceState(null, "", `#${[anchor, chosen.toString()].filter(Boolean).join("&")}`);
}
// A row is shown if it has every word of the filter. A table without any such row is about something else: it stays.
function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0, all = 0;
  for (const table of tables) {
    const rows = [...table.tBodies[0].rows];
    const matching = new Set(rows.filter((row) => conditions.every((holds) => holds(row))
      && words.every((word) => row.textContent.toLowerCase().includes(word))));
    const chosenFrom = "entries" in table.dataset;
    for (const row of rows) row.hidden = (matching.size > 0 || chosenFrom) && !matching.has(row);
    if (chosenFrom || (words.length && matching.size)) { shown += matching.size; all += rows.length; }
  }
  for (const part of parts) {
    part.hidden = !words.every((word) => part.textContent.toLowerCase().includes(word));
    if (words.length) { shown += !part.hidden; all += 1; }
  }
  found.value = all ? `${shown} / ${all}` : "";
  for (const follow of afterwards) follow();
}
const value = (row, column) => {
  const text = row.cells[column].querySelector("div").firstChild?.textContent.trim() ?? "";
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return { text, number: Number.isNaN(number) ? -Infinity : number };
};
function sort(table, column, direction) {
  const head = table.tHead.rows[0].cells, numeric = head[column].classList.contains("number");
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: value(row, column) }));
  rows.sort((one, other) => direction * (numeric
    ? one.key.number - other.key.number : one.key.text.localeCompare(other.key.text, undefined, { numeric: true })));
  table.tBodies[0].append(...rows.map(({ row }) => row));
  for (const cell of head) cell.removeAttribute("aria-sort");
  head[column].ariaSort = direction > 0 ? "ascending" : "descending";
}
tables.forEach((table, number) => {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    if (cell.classList.contains("bar") || table.tBodies[0].rows.length < 2) return;
    cell.tabIndex = 0;
    const press = () => {
      const first = cell.classList.contains("number") ? -1 : 1;
      const direction = cell.ariaSort ? (cell.ariaSort === "ascending" ? -1 : 1) : first;
      sort(table, column, direction);
      chosen.set("sort", [number, column, direction].join("."));
      remember();
    };
    cell.addEventListener("click", press);
    cell.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    });
  });
});
function apply() {
  const { anchor, chosen: given } = address();
  if (given.size) chosen = given;
  else if (chosen.size) remember(anchor);
  input.value = chosen.get("filter") ?? "";
  filter(input.value);
  const [table, column, direction] = (chosen.get("sort") ?? "").split(".").map(Number);
  if (tables[table]?.tHead.rows[0].cells[column]?.tabIndex === 0) sort(tables[table], column, direction < 0 ? -1 : 1);
  const section = anchor && document.getElementById(anchor);
  if (!section) return;
  section.querySelector("details")?.setAttribute("open", "");
  if (given.size) section.scrollIntoView();
}
input.addEventListener("input", () => {
  if (input.value) chosen.set("filter", input.value);
  else chosen.delete("filter");
  remember();
  filter(input.value);
});
addEventListener("hashchange", apply);

// A chart is saved with its panels below each other, on white.
function whole(figure) {
  const panels = [...figure.querySelectorAll(".picture > svg")], gap = 16;
  let top = gap;
  const parts = panels.map((panel) => {
    const part = panel.cloneNode(true);
    part.setAttribute("x", gap);
    part.setAttribute("y", top);
    top += panel.height.baseVal.value + gap;
    return new XMLSerializer().serializeToString(part);
  });
  const width = Math.max(...panels.map((panel) => panel.width.baseVal.value)) + 2 * gap;
  const white = '<rect width="100%" height="100%" fill="white"/>';
  const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}">${white}${parts.join("")}</svg>`;
  return { text, width, height: top, url: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}` };
}
function save(url, name) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name }).click();
}
async function png({ url, width, height }) {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = url;
  await image.decode();
  Object.assign(canvas, { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}
for (const button of document.querySelectorAll(".save button")) {
  button.addEventListener("click", async () => {
    const figure = button.closest("figure"), chart = whole(figure);
    const name = figure.querySelector(".picture").id.replace("chart-", "");
    save(button.value === "png" ? await png(chart) : chart.url, `${name}.${button.value}`);
  });
}
for (const part of document.querySelectorAll(".save")) part.hidden = false;
for (const part of document.querySelectorAll(".filter")) part.hidden = tables.length + parts.length < 1;
apply();
