// The plot of results over an axis: one panel for each unit, whose scales and places are those of the given results.
// A result has its value, its unit, its place on the axis, its series, a name and a link.
const SVG = "http://www.w3.org/2000/svg", WIDEST = 640, NARROWEST = 330, TWO_FROM = 960, GAP = 32, HEIGHT = 260, LEFT = 70, RIGHT = 14, LINE = 16;
const MOST_LABELS = 24, LONGEST_LABEL = 130, MOST_SIDE_BY_SIDE = 12;
// From this ratio of the largest to the smallest value on, the scale is logarithmic.
const WIDE_RANGE = 8;
const SHAPES = [
  "M-4.2 0A4.2 4.2 0 1 0 4.2 0A4.2 4.2 0 1 0 -4.2 0Z", "M-4-4H4V4H-4Z", "M0-5L5 4H-5Z", "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
];
// The colours and shapes tell so many series apart.
const MOST_SERIES = PALETTE.length * SHAPES.length;

function svg(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(text);
  return made;
}
const mark = (series) => svg("path", {
  d: SHAPES[Math.floor(series / PALETTE.length) % SHAPES.length], fill: PALETTE[series % PALETTE.length], "fill-opacity": 0.8,
});
// A Chinese character is as wide as the font size.
const widthOf = (text) => 12 * [...text].reduce((sum, one) => sum + (one > "\u2e7f" ? 1 : 0.62), 0);
function shortened(text) {
  const most = Math.floor(LONGEST_LABEL / 7.44 / 2);
  return widthOf(text) <= LONGEST_LABEL ? text : `${text.slice(0, most)}…${text.slice(1 - most)}`;
}
function ticksOf(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
// The ticks of the vertical axis, and the height of a value.
function scaleOf(values, top) {
  const low = Math.min(...values), high = Math.max(...values);
  if (low > 0 && high / low >= WIDE_RANGE) {
    const first = Math.log10(low) - 0.05, last = Math.log10(high) + 0.05, ticks = [];
    for (let power = Math.floor(first); power <= last; power += 1) {
      for (const factor of last - first < 4 ? [1, 2, 5] : [1]) ticks.push(factor * 10 ** power);
    }
    const within = ticks.filter((tick) => first <= Math.log10(tick) && Math.log10(tick) <= last);
    return { ticks: within, y: (value) => top + HEIGHT * (last - Math.log10(value)) / (last - first) };
  }
  const bottom = Math.min(low, 0), end = high * 1.05 || 1;
  return { ticks: ticksOf(bottom, end, 6), y: (value) => top + HEIGHT * (end - value) / (end - bottom) };
}
function panelOf(results, labels, title, width) {
  const places = [...new Set(results.map((one) => one.place))].sort((one, other) => one - other);
  const series = [...new Set(results.map((one) => one.series))].sort((one, other) => one - other);
  const names = places.map((place) => labels[place] ?? "-"), top = LINE + 12, bottom = top + HEIGHT;
  const widths = names.map(widthOf), flat = widths.reduce((sum, one) => sum + one + 14, 0) < width - LEFT - RIGHT;
  const below = flat ? LINE + 12 : Math.min(LONGEST_LABEL, Math.max(...widths)) + 14;
  const space = (width - LEFT - RIGHT) / places.length, { ticks, y } = scaleOf(results.map((one) => one.value), top);
  const size = { width, height: Math.round(bottom + below), viewBox: `0 0 ${width} ${Math.round(bottom + below)}` };
  const picture = svg("svg", { ...size, "font-family": "system-ui, sans-serif", "font-size": 12 });
  const write = (x, at, text, more = {}) => picture.append(svg("text", { x, y: at, fill: "#222222", ...more }, text));
  const rule = (d, stroke) => picture.append(svg("path", { d, stroke, fill: "none" }));
  write(0, 12, title, { "font-weight": 600 });
  for (const tick of ticks) {
    rule(`M${LEFT} ${y(tick)}H${width - RIGHT}`, "#dddddd");
    write(LEFT - 8, y(tick) + 4, tick.toLocaleString("en", { maximumSignificantDigits: 6 }), { "text-anchor": "end" });
  }
  const every = Math.ceil(places.length / (MOST_LABELS * width / WIDEST));
  names.forEach((name, i) => {
    const x = LEFT + (i + 0.5) * space, turned = `rotate(-90 ${x + 4} ${bottom + 10})`;
    if (i % every) return;
    if (flat) write(x, bottom + 16, name, { "text-anchor": "middle" });
    else write(x + 4, bottom + 10, shortened(name), { "text-anchor": "end", transform: turned });
  });
  rule(`M${LEFT} ${top}V${bottom}H${width - RIGHT}`, "#777777");
  for (const one of results) {
    // Few series are side by side, so that results of one place do not hide each other.
    const aside = series.length > MOST_SIDE_BY_SIDE ? 0 : 0.7 * ((series.indexOf(one.series) + 0.5) / series.length - 0.5);
    const x = LEFT + (places.indexOf(one.place) + 0.5 + aside) * space, link = svg("a", { href: one.href, tabindex: -1 });
    link.setAttribute("transform", `translate(${x.toFixed(1)} ${y(one.value).toFixed(1)})`);
    link.append(mark(one.colour), svg("title", {}, one.name));
    picture.append(link);
  }
  return picture;
}
// A panel for each unit, two next to each other where the room (px) is wide enough: letters have the size of the text.
// `titleOf` gives a panel's title by its unit.
function panelsOf(results, labels, titleOf, room) {
  const each = room < TWO_FROM ? room : (room - GAP) / 2;
  const width = Math.floor(Math.max(NARROWEST, Math.min(WIDEST, each)));
  const units = [...new Set(results.map((one) => one.unit))];
  return units.map((unit) => panelOf(results.filter((one) => one.unit === unit), labels, titleOf(unit), width));
}
