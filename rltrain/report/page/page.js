"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
const dashes = ["", "7 4", "8 3 2 3", "2 3"];
const color = label => `var(--c${data.labels.indexOf(label) % 8})`;
const dash = label => dashes[Math.floor(data.labels.indexOf(label) / 8) % 4];
const tip = document.getElementById("tip");

function element(parent, name, attributes = {}, text = null) {
  const svg = name === "svg" || parent instanceof SVGElement;
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function short(value) {  // 12.3, 0.25, 20k, 1.5M
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= unit) return +(value / unit).toPrecision(3) + letter;
  return String(+value.toPrecision(3));
}

function ticks(low, high, count) {  // round numbers between the two
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(f => f * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(+(i * step).toPrecision(12));
  return out;
}

function limits(values, padding) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!isFinite(low)) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const space = padding * (high - low);
  return [low - space, high + space];
}

const interval = (value, low, high) => low === null ? short(value) : `${short(value)} [${short(low)}, ${short(high)}]`;

function axes(svg, box, x, y, chart, rows) {  // grid, ticks and names; returns the scales
  const {left, top, width, height} = box;
  const sx = v => left + (v - x[0]) / (x[1] - x[0]) * width;
  const sy = v => top + height - (v - y[0]) / (y[1] - y[0]) * height;
  for (const v of ticks(x[0], x[1], Math.max(2, width / 80))) {
    element(svg, "line", {class: "axis", x1: sx(v), x2: sx(v), y1: top, y2: top + height});
    element(svg, "text", {x: sx(v), y: top + height + 15, "text-anchor": "middle"}, short(v));
  }
  if (!rows) for (const v of ticks(y[0], y[1], height / 45)) {
    element(svg, "line", {class: "axis", x1: left, x2: left + width, y1: sy(v), y2: sy(v)});
    element(svg, "text", {x: left - 6, y: sy(v) + 4, "text-anchor": "end"}, short(v));
  }
  element(svg, "text", {x: left + width / 2, y: top + height + 31, "text-anchor": "middle"}, chart.xlabel);
  if (!rows) element(svg, "text", {transform: `translate(11 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle"}, chart.ylabel);
  return [sx, sy];
}

function drawLines(svg, chart, total) {
  const box = {left: 48, top: 8, width: total - 60, height: Math.max(180, Math.min(300, total * 0.55))};
  svg.setAttribute("height", box.height + 48);
  const shown = chart.lines.filter(line => !hidden.has(line.label));
  const all = chart.lines.flatMap(line => [...line.y, ...line.low, ...line.high]).filter(v => v !== null);
  const [sx, sy] = axes(svg, box, limits(chart.lines.flatMap(line => line.x), 0), chart.ylimits || limits(all, 0.04), chart);
  const path = (xs, ys) => xs.map((v, i) => `${i ? "L" : "M"}${sx(v).toFixed(1)} ${sy(ys[i]).toFixed(1)}`).join("");
  for (const line of shown) if (line.low[0] !== null) {
    const back = path([...line.x].reverse(), [...line.high].reverse()).replace("M", "L");
    element(svg, "path", {d: path(line.x, line.low) + back + "Z", fill: color(line.label), opacity: 0.16});
  }
  for (const line of shown) {
    if (line.x.length === 1) element(svg, "circle", {cx: sx(line.x[0]), cy: sy(line.y[0]), r: 4, fill: color(line.label)});
    element(svg, "path", {d: path(line.x, line.y), fill: "none", stroke: color(line.label), "stroke-width": 2,
      "stroke-linejoin": "round", "stroke-dasharray": dash(line.label)});
  }
  const cross = element(svg, "line", {class: "half", y1: box.top, y2: box.top + box.height, visibility: "hidden"});
  svg.onpointermove = event => {
    const at = (event.clientX - svg.getBoundingClientRect().left - box.left) / box.width;
    const x = limits(chart.lines.flatMap(line => line.x), 0), wanted = x[0] + at * (x[1] - x[0]);
    if (at < -0.02 || at > 1.02 || !shown.length) return leave();
    const rows = shown.map(line => {
      let i = 0;
      line.x.forEach((v, j) => { if (Math.abs(v - wanted) < Math.abs(line.x[i] - wanted)) i = j; });
      return [line, i];
    });
    const nearest = rows.map(([line, i]) => line.x[i]).sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted))[0];
    cross.setAttribute("x1", sx(nearest)); cross.setAttribute("x2", sx(nearest)); cross.setAttribute("visibility", "visible");
    const near = rows.filter(([line, i]) => Math.abs(line.x[i] - nearest) <= 0.05 * (x[1] - x[0]));
    show(event, `${chart.xlabel}: ${short(nearest)}`, near.sort(([a, i], [b, j]) => b.y[j] - a.y[i])
      .map(([line, i]) => [line.label, interval(line.y[i], line.low[i], line.high[i])]));
  };
  const leave = () => { cross.setAttribute("visibility", "hidden"); tip.hidden = true; };
  svg.onpointerleave = leave;
}

function drawIntervals(svg, chart, total) {
  const shown = chart.rows.filter(row => !row.labels.some(label => hidden.has(label)));
  const narrow = total < 620, row = narrow ? 40 : 26;
  const longest = Math.max(0, ...shown.map(r => r.name.length));
  const box = {left: narrow ? 12 : Math.min(0.45 * total, 7 * longest + 16), top: 6, height: row * shown.length};
  box.width = total - box.left - 16;
  svg.setAttribute("height", box.height + 46);
  const values = chart.rows.flatMap(r => [r.value, r.low, r.high, ...r.points]).filter(v => v !== null);
  const [sx] = axes(svg, box, chart.xlimits || limits(values, 0.04), [0, 1], chart, true);
  if (chart.half) element(svg, "line", {class: "half", x1: sx(0.5), x2: sx(0.5), y1: box.top, y2: box.top + box.height});
  shown.forEach((r, i) => {
    const y = box.top + (i + (narrow ? 0.72 : 0.5)) * row, group = element(svg, "g");
    const fits = Math.floor((narrow ? total - 20 : box.left - 12) / 6.4);
    const name = r.name.length > fits ? r.name.slice(0, fits - 1) + "…" : r.name;
    element(group, "text", {class: "name", x: box.left - (narrow ? 0 : 8), y: narrow ? y - 13 : y + 4, "text-anchor": narrow ? "start" : "end"}, name);
    for (const v of r.points) element(group, "line", {x1: sx(v), x2: sx(v), y1: y - 6, y2: y + 6, stroke: color(r.labels[0]), opacity: 0.6});
    if (r.low !== null) element(group, "line", {x1: sx(r.low), x2: sx(r.high), y1: y, y2: y, stroke: color(r.labels[0]), "stroke-width": 7, opacity: 0.35});
    element(group, "circle", {cx: sx(r.value), cy: y, r: 4.5, fill: color(r.labels[0])});
    element(group, "rect", {x: 0, width: total, y: box.top + i * row, height: row, fill: "transparent"});
    group.onpointermove = event => show(event, r.name, [[r.labels[0], interval(r.value, r.low, r.high)],
      ...(r.points.length ? [["runs", r.points.map(short).join(", ")]] : [])]);
    group.onpointerleave = () => { tip.hidden = true; };
  });
}

function show(event, title, rows) {
  tip.replaceChildren();
  element(tip, "strong", {}, title);
  const table = element(tip, "table");
  for (const [label, value] of rows) {
    const row = element(table, "tr"), name = element(row, "td");
    if (data.labels.includes(label)) element(name, "i").style.background = color(label);
    name.append(label);
    element(row, "td", {}, value);
  }
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width < innerWidth, below = event.clientY + 16 + height < innerHeight;
  tip.style.left = Math.max(4, right ? event.clientX + 16 : event.clientX - 16 - width) + "px";
  tip.style.top = Math.max(4, below ? event.clientY + 16 : event.clientY - 16 - height) + "px";
}

const drawn = [];
for (const section of data.sections) {
  const root = document.getElementById("charts");
  element(root, "h2", {}, section.title);
  if (section.note) element(root, "p", {}, section.note);
  const grid = element(root, "div", {class: "grid"});
  for (const chart of section.charts) {
    const figure = element(grid, "figure");
    if (chart.title) element(figure, "h3", {}, chart.title);
    drawn.push([element(figure, "svg", {role: "img", "aria-label": `${section.title} ${chart.title}`}), chart]);
  }
}

function draw() {
  tip.hidden = true;
  for (const [svg, chart] of drawn) {
    svg.replaceChildren();
    (chart.lines ? drawLines : drawIntervals)(svg, chart, svg.clientWidth);
  }
}

for (const label of data.labels) {
  const button = element(document.getElementById("legend"), "button", {type: "button", "aria-pressed": "true",
    title: "Click: show or hide. Double click: only this one, or all."});
  const line = element(element(button, "svg", {width: 22, height: 10, "aria-hidden": "true"}), "line",
    {x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": dash(label)});
  line.style.stroke = color(label);
  button.append(label);
  const update = () => {
    document.querySelectorAll("nav button").forEach((b, i) => b.setAttribute("aria-pressed", !hidden.has(data.labels[i])));
    draw();
  };
  button.onclick = () => { hidden.delete(label) || hidden.add(label); update(); };
  button.ondblclick = () => {
    const others = data.labels.filter(other => other !== label), alone = others.every(other => hidden.has(other));
    hidden.clear();
    if (!alone) others.forEach(other => hidden.add(other));
    update();
  };
}
draw();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
