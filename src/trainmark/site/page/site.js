// What a server sends: the state of suites in hand, and that there are new results.
const live = document.getElementById("live"), notice = document.getElementById("notice");
const stream = (live ?? notice)?.dataset.stream;
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
        cell.dataset.label = texts[b][c] ?? "-";
        cell.append(links);
        line.append(cell);
      }
      body.append(line);
    }
    table.replaceChildren(head, body);
    const room = 16 + 10 * top.length, step = [20, 30, 40, 50, 60].find((width) => room <= width);
    table.className = step ? `fits-${step}` : "list";
  }

  const dots = [...document.querySelectorAll("circle[data-r]")];
  function plot() {
    const axis = Number(series.value), visible = new Set(shown());
    const used = [...new Set([...visible].map((i) => numbers[i][axis]))].sort((one, other) => one - other);
    for (const panel of document.querySelectorAll(".plot")) {
      let any = false;
      panel.hidden = panel.dataset.x !== x.value;
      if (panel.hidden) continue;
      for (const dot of panel.querySelectorAll("circle[data-r]")) {
        const i = Number(dot.dataset.r), on = visible.has(i);
        dot.setAttribute("class", on ? `s${used.indexOf(numbers[i][axis]) % 6}` : "off");
        any ||= on;
      }
      panel.hidden = !any;
    }
    const legend = document.querySelector(".legend");
    legend.replaceChildren(...used.map((value, i) => {
      const item = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [name, size] of [["cx", 5], ["cy", 5], ["r", 5]]) mark.setAttribute(name, size);
      mark.setAttribute("class", `s${i % 6}`);
      svg.setAttribute("viewBox", "0 0 10 10");
      svg.setAttribute("aria-hidden", "true");
      svg.append(mark);
      item.append(svg, texts[axis][value] ?? "-");
      return item;
    }));
  }
  const tip = document.querySelector(".tip");
  for (const panel of document.querySelectorAll(".plot")) {
    panel.addEventListener("pointerover", ({ target }) => {
      const row = rows[target.dataset?.r];
      if (row) tip.textContent = `${row.cells[0].textContent.trim()}: ${row.cells[1].textContent.trim()} ${row.cells[2].textContent.trim()}`;
    });
    panel.addEventListener("click", ({ target }) => rows[target.dataset?.r]?.querySelector("a").click());
  }
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
