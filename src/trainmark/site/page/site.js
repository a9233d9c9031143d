// What a server sends: the state of suites in hand, and that there are new results.
const live = document.getElementById("live"), notice = document.getElementById("notice");
const stream = (live ?? notice)?.dataset.stream;
// The sections of this page are replaced again and again.
if (live) document.querySelector(".filter").hidden = true;
if (stream) {
  const source = new EventSource(stream);
  source.addEventListener("state", ({ data }) => { if (live) live.innerHTML = data; });
  source.addEventListener("revision", ({ data }) => { if (notice) notice.hidden = data === notice.dataset.revision; });
}
// The table of all results: filters by axis, a table and a plot over chosen axes. The address has what was chosen.
const entries = document.querySelector("table[data-entries]");
if (entries) {
  const form = document.getElementById("axes"), older = document.getElementById("older");
  const rows = [...entries.tBodies[0].rows];
  const numbers = rows.map((row) => row.dataset.v.split(",").map(Number));
  const place = new Map(rows.map((row, i) => [row, i]));
  const selects = [...form.querySelectorAll("select")], names = selects.map((select) => select.name);
  const texts = selects.map((select) => [...select.options].slice(1).map((option) => option.text));
  const onServer = "server" in form.dataset;
  const down = document.getElementById("down"), across = document.getElementById("across");
  const x = document.getElementById("x"), series = document.getElementById("series");
  const choose = (name, value) => {
    if (value) chosen.set(name, value);
    else chosen.delete(name);
    remember();
  };

  if (!onServer) {
    conditions.push((row) => !("v" in row.dataset) || older.checked || !row.classList.contains("older"));
    conditions.push((row) => !("v" in row.dataset)
      || selects.every((select, axis) => select.selectedIndex < 1 || numbers[place.get(row)][axis] === select.selectedIndex - 1));
    older.addEventListener("change", () => { choose("older", older.checked ? "1" : ""); filter(input.value); });
    for (const select of selects) {
      select.addEventListener("change", () => { choose(select.name, select.value); filter(input.value); });
    }
    form.addEventListener("submit", (event) => event.preventDefault());
  } else {
    for (const select of selects) select.addEventListener("change", () => form.requestSubmit());
    form.addEventListener("submit", () => { for (const select of selects) select.disabled = !select.value; });
    addEventListener("pageshow", () => { for (const select of selects) select.disabled = false; });
  }
  const cellOf = (tag, text) => {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  };
  const shown = () => rows.flatMap((row, i) => (row.hidden ? [] : [i]));

  // The newest three numbers of each cell, each a link to where it comes from.
  function pivot() {
    const a = Number(down.value), b = Number(across.value), cells = new Map(), used = [new Set(), new Set()];
    for (const i of shown()) {
      const [r, c] = [numbers[i][a], numbers[i][b]];
      used[0].add(r);
      used[1].add(c);
      const key = `${r}.${c}`;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(i);
    }
    const [left, top] = used.map((values) => [...values].sort((one, other) => one - other));
    const table = document.getElementById("pivot"), head = document.createElement("thead"), body = document.createElement("tbody");
    const first = document.createElement("tr");
    first.append(cellOf("th", ""), ...top.map((c) => cellOf("th", texts[b][c] ?? "-")));
    head.append(first);
    for (const r of left) {
      const line = document.createElement("tr");
      const title = cellOf("th", texts[a][r] ?? "-");
      title.scope = "row";
      line.append(title);
      for (const c of top) {
        const cell = document.createElement("td"), links = document.createElement("div"), held = cells.get(`${r}.${c}`) ?? [];
        held.slice(0, 3).forEach((i, n) => {
          const link = document.createElement("a"), source = rows[i].cells;
          link.href = source[0].querySelector("a").getAttribute("href");
          const words = source[1].querySelector("div").firstChild.textContent.trim();
          const unit = source[2].textContent.trim();
          link.textContent = unit === "-" ? words : `${words} ${unit}`;
          link.title = source[0].textContent.trim();
          links.append(...(n ? [document.createElement("br")] : []), link);
        });
        if (held.length > 3) links.append(document.createElement("br"), `+ ${held.length - 3}`);
        if (!held.length) cell.className = "empty";
        cell.dataset.label = texts[b][c] ?? "-";
        cell.append(links);
        line.append(cell);
      }
      body.append(line);
    }
    table.replaceChildren(head, body);
    const room = 12 + 8 * top.length, step = [20, 30, 40, 50, 60].find((width) => room <= width);
    table.className = step ? `fits-${step}` : "list";
  }

  const picture = document.getElementById("chart-plot"), legend = document.querySelector(".legend");
  const values = rows.map((row) => Number.parseFloat(row.dataset.y));
  const textOf = (row, column) => row.cells[column].textContent.trim().replace(/\s+/g, " ");
  function plot() {
    const axis = x.selectedIndex, other = Number(series.value);
    const visible = shown().filter((i) => !Number.isNaN(values[i]) && numbers[i][axis] >= 0);
    const used = [...new Set(visible.map((i) => numbers[i][other]))].sort((one, next) => one - next);
    const colours = used.length <= MOST_SERIES;
    const results = visible.map((i) => ({
      value: values[i],
      unit: textOf(rows[i], 2),
      place: numbers[i][axis],
      series: numbers[i][other],
      colour: colours ? used.indexOf(numbers[i][other]) : 0,
      name: `${textOf(rows[i], 0)}: ${textOf(rows[i], 1)} ${textOf(rows[i], 2)}`,
      href: rows[i].querySelector("a").getAttribute("href"),
    }));
    const titleOf = (unit) => picture.dataset.title.replace("{unit}", unit).replace("{axis}", x.selectedOptions[0].text);
    picture.replaceChildren(...panelsOf(results, texts[axis], titleOf, picture.clientWidth));
    legend.replaceChildren(...(colours ? used : []).map((value, i) => {
      const item = document.createElement("li"), sign = svg("svg", { viewBox: "-6 -6 12 12", "aria-hidden": true });
      sign.append(mark(i));
      item.append(sign, texts[other][value] ?? "-");
      return item;
    }));
    document.getElementById("no-results").hidden = visible.length > 0;
    document.getElementById("no-colours").hidden = colours;
  }
  if (x) addEventListener("resize", plot);
  const tip = document.querySelector(".tip");
  picture?.addEventListener("pointerover", ({ target }) => {
    tip.textContent = target.closest("a")?.querySelector("title").textContent ?? "";
  });
  const lists = { rows: down, columns: across, x, series };
  for (const [name, select] of Object.entries(lists)) {
    select?.addEventListener("change", () => { choose(name, select.value); follow(); });
  }
  function follow() {
    if (down) pivot();
    if (x) plot();
  }
  function restore() {
    for (const [name, select] of Object.entries(lists)) {
      if (select && [...select.options].some((option) => option.value === chosen.get(name))) select.value = chosen.get(name);
    }
    if (!onServer) {
      older.checked = chosen.get("older") === "1";
      selects.forEach((select, axis) => {
        const wanted = texts[axis].indexOf(chosen.get(names[axis]) ?? "");
        select.selectedIndex = wanted + 1;
        if (wanted >= 0) select.closest("details")?.setAttribute("open", "");
      });
    }
    filter(input.value);
  }
  if (across && across.options.length > 1) across.selectedIndex = 1;
  if (series && series.options.length > 1) series.selectedIndex = 1;
  for (const part of document.querySelectorAll("#table, #plot")) part.hidden = false;
  afterwards.push(follow);
  addEventListener("hashchange", restore);
  restore();
}
