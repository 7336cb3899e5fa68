"use strict";
// Reads the page's data, draws the time step that is shown, and follows mouse, touch and keyboard.

const $ = (id) => document.getElementById(id);
const ABSENT = -1;
const HIDDEN = 0.22; // opacity of what the chosen agent does not see
const view = { episode: 0, time: 0, playing: false, unit: null, step: -1 };
let page, episode, colors, scale;

// ---- data: see video/episode_recorder.py

async function read() {
  const text = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const plain = new Blob([text]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(plain).arrayBuffer());
  const start = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const found = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  let at = start;
  for (const each of found.episodes) {
    each.of = {};
    for (const [name, shape, width, low, step] of each.arrays) {
      const size = shape.reduce((a, b) => a * b, width);
      each.of[name] = unpacked(bytes.subarray(at, at + size), shape, width, low, step);
      at += size;
    }
  }
  return found;
}

function unpacked(planes, shape, width, low, step) {
  const n = planes.length / width, row = n / (shape[0] || 1), modulus = 256 ** width;
  const counts = new Float64Array(n), numbers = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    let count = i < row ? 0 : counts[i - row];
    for (let b = 0; b < width; b++) count += planes[b * n + i] * 256 ** b;
    counts[i] = count % modulus;
    numbers[i] = counts[i] === modulus - 1 ? NaN : low + counts[i] * step;
  }
  return { shape, row, numbers };
}

// The numbers of a quantity at a step: all units, all agents, or those of one agent.
function at(name, t, i = null) {
  const array = episode.of[name];
  if (!array || t >= array.shape[0]) return null;
  const n = i === null ? array.row : array.row / array.shape[1];
  const first = t * array.row + (i === null ? 0 : i * n);
  return array.numbers.subarray(first, first + n);
}

const value = (name, t, i) => { const row = at(name, t); return row ? row[i] : null; };
const nSteps = () => episode.length;
const nUnits = () => episode.of.look.row;
const isAgent = (i) => i !== null && i < page.n_agents;
const lookOf = (t, i) => { const k = value("look", t, i); return k === ABSENT ? null : page.looks[k]; };
const anyLook = (i) => { for (let t = 0; t <= nSteps(); t++) { const look = lookOf(t, i); if (look) return look; } return { name: "?", team: 2 }; };

function alive(t, i) {
  const look = lookOf(t, i);
  return look !== null && !(look.health && value("health", t, i) <= 0);
}

function nameOf(i) {
  if (isAgent(i) && page.names.length) return page.names[i];
  const look = anyLook(i);
  return look.name.match(/\d$/) ? look.name : `${look.name.replaceAll("_", " ")} ${isAgent(i) ? i : letter(i)}`;
}

// Agents have numbers, all others letters.
function letter(i) {
  const k = i - page.n_agents;
  return String.fromCharCode(65 + k % 26) + (k < 26 ? "" : Math.floor(k / 26) + 1);
}

function actionName(i, a, t) {
  const { actions = [], first_target: first } = page.world;
  if (first === undefined || a < first) return actions[a] ?? `action ${a}`;
  const heals = Boolean(anyLook(i).energy);
  const target = a - first + (heals ? 0 : page.n_agents);
  return target < nUnits() ? `${heals ? "heal" : "attack"} ${nameOf(target)}` : `action ${a}`;
}

function bestAction(t, i) {
  const q = at("q", t, i), can = at("avail", t, i);
  if (!q) return null;
  let best = null;
  q.forEach((x, a) => { if (can[a] && !Number.isNaN(x) && (best === null || x > q[best])) best = a; });
  return best;
}

const agentColor = (i) => `hsl(${(i * 360 / page.n_agents + 205) % 360} 62% ${colors.dark ? 62 : 45}%)`;
const short = (x) => x === null || Number.isNaN(x) ? "" : Math.abs(x) >= 1e4 ? x.toExponential(2) : (Math.abs(x) < 0.0005 ? 0 : x).toFixed(Math.abs(x) < 10 ? 3 : 2);

// ---- the field

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = "page panel text soft line ground blocked high ally enemy thing good bad shield energy accent ink";
  colors = Object.fromEntries(names.split(" ").map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
  colors.dark = matchMedia("(prefers-color-scheme: dark)").matches;
}

function sized(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  if (height) canvas.style.height = `${height}px`;
  const w = Math.round(width * ratio), h = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, canvas.clientHeight);
  return pen;
}

function line(pen, color, width, points) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(x, y);
  pen.stroke();
}

// What the episode needs of the world: a grid is shown whole, a map as far as there are units.
function boundsOf() {
  const { bounds, cells, grid, whole } = page.world, there = episode.of.look.numbers, margin = cells ? 3 : 0.25;
  if (grid || whole) return bounds;
  const ends = (name, k) => {
    const all = episode.of[name].numbers.filter((x, n) => there[n] !== ABSENT && !Number.isNaN(x)), [low, high] = [Math.min(...all) - margin, Math.max(...all) + margin];
    return cells ? [Math.max(low, bounds[k]), Math.min(high, bounds[k + 2])] : [low, high];
  };
  const [[x0, x1], [y0, y1]] = [ends("x", 0), ends("y", 1)];
  return [x0, y0, x1, y1];
}

function layout() {
  const [x0, y0, x1, y1] = (episode.bounds ??= boundsOf()), width = $("field").clientWidth;
  const most = Math.max(260, Math.min(innerHeight * 0.62, 640));
  const zoom = Math.min(width / (x1 - x0), most / (y1 - y0)), height = Math.max((y1 - y0) * zoom, Math.min(width * 0.62, most));
  const left = (width - (x1 - x0) * zoom) / 2, low = (height + (y1 - y0) * zoom) / 2;
  scale = { zoom, height, x: (x) => left + (x - x0) * zoom, y: (y) => low - (y - y0) * zoom };
}

function place(i) {
  const t = Math.floor(view.time), share = view.time - t;
  const x = value("x", t, i), y = value("y", t, i);
  if (share === 0 || t >= nSteps() || !alive(t + 1, i) || anyLook(i).team === 2) return [x, y];
  const dx = value("x", t + 1, i) - x, dy = value("y", t + 1, i) - y;
  return Math.hypot(dx, dy) > 5 ? [x, y] : [x + share * dx, y + share * dy];
}

// Where a unit is in the picture.
function pointOf(i) {
  const [x, y] = place(i);
  return [scale.x(x), scale.y(y)];
}

function drawGround(pen) {
  const { cells, grid } = page.world, [x0, y0, x1, y1] = episode.bounds, { zoom, x, y } = scale;
  if (!cells) {
    pen.fillStyle = colors.ground;
    if (grid) pen.fillRect(x(x0), y(y1), (x1 - x0) * zoom, (y1 - y0) * zoom);
    else pen.fillRect(0, 0, 1e5, 1e5);
  }
  (cells || []).forEach((row, j) => [...row].forEach((cell, i) => {
    if (cell === ".") return;
    pen.fillStyle = cell === "0" ? colors.ground : `color-mix(in srgb, ${colors.high} ${cell * 11}%, ${colors.ground})`;
    const [left, top] = [Math.round(x(i)), Math.round(y(j + 1))]; // no seams
    pen.fillRect(left, top, Math.round(x(i + 1)) - left, Math.round(y(j)) - top);
  }));
  for (const points of page.world.lines || []) line(pen, colors.soft, 1.5, points.map(([a, b]) => [x(a), y(b)]));
  if (!grid) return;
  for (let i = x0; i <= x1; i++) line(pen, colors.line, 1, [[x(i), y(y0)], [x(i), y(y1)]]);
  for (let j = y0; j <= y1; j++) line(pen, colors.line, 1, [[x(x0), y(j)], [x(x1), y(j)]]);
}

function drawSight(pen, t, i) {
  const look = lookOf(t, i);
  if (!look || !alive(t, i)) return;
  const [x, y] = pointOf(i);
  const ring = (range, dash, fill) => {
    const r = range * scale.zoom, cone = page.world.cone, facing = value("facing", t, i);
    pen.beginPath();
    if (look.sees_square) pen.rect(x - r, y - r, 2 * r, 2 * r);
    else if (cone && fill) { pen.moveTo(x, y); pen.arc(x, y, r, -facing - cone / 2, -facing + cone / 2); pen.closePath(); }
    else pen.arc(x, y, r, 0, 7);
    pen.setLineDash(dash);
    pen.strokeStyle = colors.accent;
    pen.lineWidth = 1.5;
    pen.globalAlpha = fill ? 0.1 : 0;
    pen.fillStyle = colors.accent;
    pen.fill();
    pen.globalAlpha = 0.8;
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  };
  if (look.sight) ring(look.sight, [], true);
  if (look.shoot) ring(look.shoot, [4, 4], false);
}

function seenBy(t, agent, i) {
  if (!isAgent(agent) || agent === i) return true;
  const seen = at("sees", t, agent);
  if (seen) return seen[i] > 0;
  const look = lookOf(t, agent), range = look && look.sight;
  if (!range || !lookOf(t, i)) return true;
  const dx = value("x", t, i) - value("x", t, agent), dy = value("y", t, i) - value("y", t, agent);
  return look.sees_square ? Math.max(Math.abs(dx), Math.abs(dy)) <= range : Math.hypot(dx, dy) <= range;
}

function drawOrder(pen, t, i) {
  const target = value("target", t, i), now = value("cooldown", t, i);
  if (target === null || target < 0 || !alive(t, target)) return;
  const before = t > 0 ? value("cooldown", t - 1, i) : now, look = lookOf(t, i);
  const spent = look.energy && t > 0 && value("energy", t, i) < value("energy", t - 1, i);
  const fired = now > before + 0.01 || spent;
  if (look.rod) return line(pen, colors.thing, 5, [i, target].map(pointOf));
  pen.globalAlpha *= fired ? 0.9 : 0.35;
  const color = look.energy ? colors.good : look.team === 0 ? colors.ally : colors.enemy;
  line(pen, color, fired ? 2.5 : 1, [i, target].map(pointOf));
}

function radiusOf(look) {
  const smallest = page.world.cells ? 7.5 : 4;
  return Math.max((look.radius || 0.4) * scale.zoom, Math.min(smallest, scale.zoom * 0.5));
}

// Types of units have shapes: a disc, then polygons.
const SIDES = [0, 4, 3, 6, 5, 8];
function outline(pen, x, y, r, look) {
  page.kinds ??= [...new Set(page.looks.map((each) => each.name))];
  const sides = page.world.cells ? SIDES[page.kinds.indexOf(look.name) % SIDES.length] : 0;
  pen.beginPath();
  if (look.square) pen.roundRect(x - r, y - r, 2 * r, 2 * r, r * 0.25);
  else if (!sides) pen.arc(x, y, r, 0, 2 * Math.PI);
  for (let k = 0; k < sides; k++) {
    const angle = 2 * Math.PI * k / sides - Math.PI / 2 + (sides === 4 ? Math.PI / 4 : 0), wide = r * (sides < 5 ? 1.12 : 1.04);
    pen.lineTo(x + wide * Math.cos(angle), y + wide * Math.sin(angle));
  }
  pen.closePath();
}

function arc(pen, x, y, r, share, color, width) {
  pen.lineWidth = width;
  pen.strokeStyle = color;
  pen.beginPath();
  pen.arc(x, y, r, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * Math.min(Math.max(share, 0), 1));
  pen.stroke();
}

function drawUnit(pen, t, i) {
  const look = lookOf(t, i), [x, y] = pointOf(i), r = radiusOf(look);
  pen.fillStyle = look.color || [colors.ally, colors.enemy, colors.thing][look.team];
  outline(pen, x, y, r, look);
  pen.fill();
  if (look.team === 2 || page.n_agents > 1 && isAgent(i)) {
    outline(pen, x, y, r - 1, look);
    pen.strokeStyle = isAgent(i) ? agentColor(i) : colors.thing;
    pen.lineWidth = isAgent(i) ? 2 : 1;
    pen.stroke();
  }
  const facing = look.team === 0 ? value("facing", t, i) : null;
  if (facing !== null) line(pen, colors.ink, 2, [0.4, 1].map((k) => [x + k * r * Math.cos(facing), y - k * r * Math.sin(facing)]));
  if (look.health) {
    const share = value("health", t, i) / look.health;
    arc(pen, x, y, r + 2.5, 1, colors.line, 2.5);
    arc(pen, x, y, r + 2.5, share, `color-mix(in srgb, ${colors.good} ${Math.round(share * 100)}%, ${colors.bad})`, 2.5);
  }
  if (look.shield) arc(pen, x, y, r + 5.5, value("shield", t, i) / look.shield, colors.shield, 2);
  const label = look.text || (isAgent(i) ? `${i}` : look.team === 1 ? letter(i) : "");
  if (label && r > 5) {
    pen.fillStyle = colors.ink;
    pen.font = `600 ${Math.round(Math.min(r * 0.95, 15))}px system-ui, sans-serif`;
    pen.fillText(label, x, y + 0.5);
  }
  if (i === view.unit) arc(pen, x, y, r + 9, 1, colors.accent, 2.5);
}

function drawDead(pen, i) {
  const [x, y] = pointOf(i), color = isAgent(i) ? colors.ally : colors.enemy;
  for (const r of [4, -4]) line(pen, color, 1.5, [[x - 4, y - r], [x + 4, y + r]]);
}

function drawField() {
  const pen = sized($("field"), scale.height), t = Math.floor(view.time);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  drawGround(pen);
  if (isAgent(view.unit)) drawSight(pen, t, view.unit);
  const order = [...Array(nUnits()).keys()].filter((i) => lookOf(t, i)).reverse();
  for (const draws of [drawOrder, drawUnit]) for (const i of order) {
    const dead = !alive(t, i);
    pen.globalAlpha = dead ? 0.4 : seenBy(t, view.unit, i) ? 1 : HIDDEN;
    if (!dead) draws(pen, t, i);
    else if (draws === drawOrder) drawDead(pen, i);
  }
  pen.globalAlpha = 1;
}

// ---- charts

function chart(canvas, lines, bars = null) {
  const pen = sized(canvas), w = canvas.clientWidth, h = canvas.clientHeight, left = 44, top = 6, bottom = 16;
  const every = lines.flatMap((line) => [...line.numbers]).concat(bars ? [0, ...bars] : []).filter(Number.isFinite);
  let low = Math.min(...every), high = Math.max(...every);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const x = (t) => left + (w - left - 6) * t / Math.max(nSteps(), 1);
  const y = (v) => h - bottom - (h - top - bottom) * (v - low) / (high - low);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = colors.soft;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const levels = low < 0 && high > 0 && Math.min(high, -low) > 0.15 * (high - low) ? [low, 0, high] : [low, high];
  for (const v of levels) {
    line(pen, colors.line, 1, [[left, y(v)], [w - 6, y(v)]]);
    pen.fillText(Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(2), left - 6, y(v));
  }
  pen.textBaseline = "alphabetic";
  pen.fillText(`${nSteps()}`, w - 6, h - 3);
  pen.textAlign = "left";
  pen.fillText("0", left, h - 3);
  if (bars) {
    pen.fillStyle = colors.thing;
    const thick = Math.max((w - left) / Math.max(nSteps(), 1) - 1, 1);
    bars.forEach((v, t) => pen.fillRect(x(t), Math.min(y(v), y(0)), thick, Math.abs(y(v) - y(0))));
  }
  for (const { numbers, color, bold, faded } of lines) {
    pen.globalAlpha = faded ? 0.25 : 1;
    line(pen, color, bold ? 2.2 : 1.3, numbers.map((v, t) => [x(t), y(v)]));
  }
  pen.globalAlpha = 1;
  line(pen, colors.accent, 1, [[x(view.time), top], [x(view.time), h - bottom]]);
  canvas.onclick = (event) => seek(Math.round((event.offsetX - left) / (w - left - 6) * nSteps()));
}

const rewardAt = (t) => { const row = at("reward", t); return row ? row.reduce((a, b) => a + b, 0) / row.length : 0; };

function chartData() {
  const rewards = Array.from({ length: nSteps() }, (_, t) => rewardAt(t));
  let sum = 0;
  const total = [0, ...rewards.map((r) => (sum += r))];
  const out = [{ title: "Team reward (bars) and return so far", bars: rewards, lines: [{ numbers: total, color: colors.good, bold: true }] }];
  if (episode.of.q_tot) out.push({ title: "Q_tot of the actions taken", lines: [{ numbers: [...episode.of.q_tot.numbers], color: colors.accent, bold: true }] });
  if (episode.of.weight && new Set(episode.of.weight.numbers).size > 1) out.push({ title: "Weight of each agent, ∂Q_tot/∂Q", agents: perAgent((t, i) => value("weight", t, i)) });
  if (episode.of.q) out.push({ title: "Q of each agent's action", agents: perAgent((t, i) => at("q", t, i)[value("action", t, i)]) });
  return out;
}

function perAgent(of) {
  return Array.from({ length: page.n_agents }, (_, i) => {
    let end = 0;
    while (end < nSteps() && alive(end, i)) end++;
    return Array.from({ length: Math.max(end, 1) }, (_, t) => of(t, i));
  });
}

let charts = [];
function makeCharts() {
  charts = chartData().map((data) => ({ ...data, canvas: el("canvas") }));
  $("charts").replaceChildren(...charts.map(({ title, canvas }) => el("div", { className: "chart" }, [el("h3", { textContent: title, style: "margin-top:0" }), canvas])));
}

function drawCharts() {
  for (const { canvas, lines, bars, agents } of charts) {
    const own = (agents || []).map((numbers, i) => ({ numbers, color: agentColor(i), bold: i === view.unit, faded: isAgent(view.unit) && i !== view.unit }));
    chart(canvas, lines || own, bars);
  }
}

// ---- the panel

function el(tag, values = {}, children = []) {
  const { style, ...rest } = values, made = Object.assign(document.createElement(tag), rest);
  if (style) for (const rule of style.split(";")) { const [k, v] = rule.split(/:(.*)/); made.style.setProperty(k.trim(), v); }
  made.append(...children);
  return made;
}

const dot = (color) => el("span", { className: "dot", style: `background:${color}` });
const track = (share, color) => el("div", { className: "track" }, [el("i", { style: `width:${Math.round(100 * Math.min(Math.max(share, 0), 1))}%;background:${color}` })]);
const meter = (name, x, most, color) => el("div", { className: "meter" }, [el("span", { textContent: name }), track(x / most, color), el("span", { textContent: `${x.toFixed(1)} / ${most.toFixed(0)}` })]);

function meters(t, i) {
  const look = lookOf(t, i);
  if (!look) return [el("p", { textContent: "Not there at this step." })];
  const kinds = [["health", colors.good], ["shield", colors.shield], ["energy", colors.energy], ["cooldown", colors.thing]];
  const out = kinds.filter(([name]) => look[name]).map(([name, color]) => meter(name, value(name, t, i), look[name], color));
  out.push(el("p", { textContent: `at ${value("x", t, i).toFixed(2)}, ${value("y", t, i).toFixed(2)}${orderText(t, i)}` }));
  return out;
}

function orderText(t, i) {
  const order = value("order", t, i), target = value("target", t, i);
  if (order === null || !alive(t, i)) return "";
  return ` · order: ${page.world.orders[order]}${target >= 0 ? ` → ${nameOf(target)}` : ""}`;
}

function valuesTable(t, i) {
  const q = at("q", t, i), can = at("avail", t, i), taken = value("action", t, i), best = bestAction(t, i);
  if (taken === null) return [el("p", { textContent: "The episode is over." })];
  const free = q ? [...q].filter((x, a) => can[a] && !Number.isNaN(x)) : [], high = Math.max(...free), low = Math.min(...free) - 0.04 * (high - Math.min(...free));
  const rows = [...can].map((can, a) => el("tr", { className: `${can ? "" : "off"} ${a === taken ? "chosen" : ""}`, title: can ? "" : "not available" }, [
    el("td", { textContent: actionName(i, a, t) }),
    el("td", { className: "b" }, q ? [track((q[a] - low) / (high - low || 1), a === best ? colors.good : colors.accent)] : []),
    el("td", { className: "n", textContent: q ? short(q[a]) : can ? "available" : "" }),
  ]));
  const explored = q && best !== taken ? [el("p", { textContent: `Explored: the best available action was ${actionName(i, best, t)}.` })] : [];
  return [el("table", {}, rows), ...explored];
}

function observation(t, i) {
  const seen = at("obs", t, i);
  if (seen) {
    const strip = el("canvas", { className: "strip", title: [...seen].map(short).join(", ") });
    strip.draw = () => drawStrip(strip, seen);
    const text = el("details", {}, [el("summary", { textContent: `${seen.length} numbers` }), el("p", { textContent: [...seen].map(short).join(", ") })]);
    return [strip, text];
  }
  const units = [...Array(nUnits()).keys()].filter((j) => j !== i && alive(t, j) && seenBy(t, i, j));
  const range = lookOf(t, i)?.sight;
  const gap = (j) => Math.hypot(value("x", t, j) - value("x", t, i), value("y", t, j) - value("y", t, i));
  units.sort((a, b) => gap(a) - gap(b));
  const spans = units.map((j) => el("span", { style: `box-shadow:inset 3px 0 0 ${isAgent(j) ? agentColor(j) : colors.enemy}`, textContent: `${nameOf(j)} · ${gap(j).toFixed(1)}` }));
  return [el("p", { textContent: alive(t, i) ? `Sees ${units.length} units${range ? ` within ${range.toFixed(1)} cells` : ""}, nearest first:` : "Sees nothing any more." }), el("div", { className: "steps" }, spans)];
}

function drawStrip(canvas, numbers) {
  const pen = sized(canvas), wide = canvas.clientWidth / numbers.length, most = Math.max(...numbers.map(Math.abs), 1e-9);
  numbers.forEach((v, k) => {
    pen.fillStyle = `color-mix(in srgb, ${v < 0 ? colors.bad : colors.accent} ${Math.round(100 * Math.abs(v) / most)}%, ${colors.line})`;
    pen.fillRect(k * wide, 0, wide - (wide > 4 ? 1 : 0), canvas.clientHeight);
  });
}

function past(t, i) {
  const lines = [], until = nSteps();
  const kinds = [["health", colors.good], ["shield", colors.shield]].filter(([name]) => anyLook(i)[name]);
  for (const [name, color] of kinds) lines.push({ numbers: Array.from({ length: until + 1 }, (_, s) => value(name, s, i)), color, name });
  if (isAgent(i) && episode.of.q && !kinds.length) lines.push({ numbers: Array.from({ length: until }, (_, s) => at("q", s, i)[value("action", s, i)]), color: colors.accent, name: "Q of its action" });
  const out = [];
  if (lines.length) {
    const canvas = el("canvas");
    canvas.draw = () => chart(canvas, lines);
    out.push(canvas, el("div", { className: "legend" }, lines.map(({ name, color }) => el("span", {}, [dot(color), name]))));
  }
  if (isAgent(i)) {
    const steps = Array.from({ length: 10 }, (_, k) => t - 10 + k).filter((s) => s >= 0 && alive(s, i));
    out.push(el("div", { className: "steps", style: "margin-top:6px" }, steps.map((s) => el("span", { textContent: `${s}: ${actionName(i, value("action", s, i), s)}` }))));
  }
  return out;
}

function overview(t) {
  const rows = Array.from({ length: page.n_agents }, (_, i) => {
    const taken = value("action", t, i), here = alive(t, i), q = taken === null ? null : at("q", t, i);
    return el("tr", { className: `link ${here ? "" : "off"}`, onclick: () => choose(i) }, [
      el("td", {}, [dot(agentColor(i))]), el("td", { textContent: nameOf(i) }),
      el("td", { textContent: !here ? "gone" : taken === null ? "" : actionName(i, taken, t) }),
      el("td", { className: "n", textContent: here && q ? short(q[taken]) : "" }),
    ]);
  });
  const total = value("q_tot", t, 0) ?? null;
  const facts = [`Reward of this step ${short(t < nSteps() ? rewardAt(t) : 0)}`, ...(total === null ? [] : [`Q_tot ${short(total)}`])];
  return [el("div", { className: "head" }, [el("h2", { textContent: "All agents" })]), el("p", { textContent: `${facts.join(" · ")}. Choose an agent to look into it.` }), el("table", {}, rows)];
}

function drawPanel() {
  const t = Math.floor(view.time), i = view.unit, panel = $("panel");
  if (i === null) return panel.replaceChildren(...overview(t));
  const head = el("div", { className: "head" }, [dot(isAgent(i) ? agentColor(i) : colors[["ally", "enemy", "thing"][anyLook(i).team]]), el("h2", { textContent: nameOf(i) }), el("button", { textContent: "×", ariaLabel: "Show all agents", onclick: () => choose(null) })]);
  const part = (title, children) => [el("h3", { textContent: title }), ...children];
  const weight = isAgent(i) ? value("weight", t, i) : null;
  const own = isAgent(i) ? [
    ...part(episode.of.q ? `Q-values at step ${t}${weight === null ? "" : ` · weight in Q_tot ${short(weight)}`}` : `Actions at step ${t}`, valuesTable(t, i)),
    ...part("Observation", observation(t, i)),
  ] : [];
  const open = panel.querySelector("details")?.open;
  panel.replaceChildren(head, ...meters(t, i), ...own, ...part("History", past(t, i)));
  if (open) panel.querySelector("details").open = true;
  panel.querySelectorAll("canvas").forEach((canvas) => canvas.draw());
}

// ---- time, choice and events

function draw() {
  const t = Math.floor(view.time);
  drawField();
  if (t === view.step) return;
  view.step = t;
  $("scrub").value = t;
  $("clock").textContent = `step ${t} of ${nSteps()}`;
  [...$("agents").children].forEach((chip, i) => { chip.className = alive(t, i) ? "" : "gone"; chip.ariaPressed = `${i === view.unit}`; });
  drawPanel();
  drawCharts();
}

function redraw() { view.step = -1; layout(); draw(); }
function choose(i) { view.unit = i; redraw(); remember(); }
function seek(t) { view.time = Math.min(Math.max(t, 0), nSteps()); redraw(); remember(); }

function remember() {
  const place = `#episode=${view.episode}&step=${Math.floor(view.time)}${view.unit === null ? "" : `&unit=${view.unit}`}`;
  if (!view.playing) history.replaceState(null, "", place);
}

function play(on) {
  if (on && view.time >= nSteps()) view.time = 0;
  view.playing = on;
  $("icon").setAttribute("d", on ? "M3 2h4v12H3zM9 2h4v12H9z" : "M4 2v12l9-6z");
  $("play").ariaLabel = on ? "Pause" : "Play";
  if (!on) return seek(Math.floor(view.time));
  let before = null;
  const frame = (now) => {
    if (!view.playing) return;
    const passed = before === null ? 0 : Math.min((now - before) / 1000, 0.25);
    before = now;
    view.time = Math.min(view.time + passed * (page.world.rate || 3) * Number($("speed").value), nSteps());
    draw();
    if (view.time >= nSteps()) play(false); else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

function drawTypes() {
  const looks = new Map(page.looks.filter((look) => !/\d$/.test(look.name)).map((look) => [look.name, look]));
  if (looks.size < 2) return;
  $("types").replaceChildren(...[...looks.values()].map((look) => {
    const canvas = el("canvas", { style: "width:16px;height:16px" });
    canvas.draw = () => { const pen = sized(canvas); outline(pen, 8, 8, 6, look); pen.fillStyle = look.color || colors.soft; pen.fill(); };
    return el("span", {}, [canvas, look.name.replaceAll("_", " ")]);
  }));
  $("types").querySelectorAll("canvas").forEach((canvas) => canvas.draw());
}

function openEpisode(k, t = 0) {
  view.episode = Math.min(Math.max(k, 0), page.episodes.length - 1);
  episode = page.episodes[view.episode];
  page.world = episode.world;
  if (view.unit >= nUnits()) view.unit = null;
  $("episode").value = view.episode;
  $("scrub").max = nSteps();
  const won = episode.win === undefined ? "" : episode.win ? "won" : "lost";
  $("result").replaceChildren(...(won ? [el("span", { className: won, textContent: won }), " · "] : []), `return ${(episode.return ?? NaN).toFixed(2)} · ${nSteps()} steps`);
  $("agents").replaceChildren(...Array.from({ length: page.n_agents }, (_, i) => el("button", { onclick: () => choose(i === view.unit ? null : i) }, [dot(agentColor(i)), nameOf(i)])));
  makeCharts();
  drawTypes();
  seek(t);
}

function fromAddress() {
  const typed = new URLSearchParams(location.hash.slice(1));
  const unit = typed.has("unit") ? Number(typed.get("unit")) : null;
  openEpisode(Number(typed.get("episode")) || 0, Number(typed.get("step")) || 0);
  if (unit !== null && unit >= 0 && unit < nUnits()) choose(unit);
}

function pick(event) {
  const t = Math.floor(view.time);
  let best = null, nearest = 18;
  for (let i = 0; i < nUnits(); i++) {
    if (!lookOf(t, i)) continue;
    const [x, y] = pointOf(i), gap = Math.hypot(x - event.offsetX, y - event.offsetY) - radiusOf(lookOf(t, i));
    if (gap < nearest && (alive(t, i) || gap < 4)) { best = i; nearest = gap; }
  }
  choose(best);
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /select/i.test(event.target.tagName)) return;
  const many = event.shiftKey ? 10 : 1, n = page.n_agents, from = isAgent(view.unit) ? view.unit : -1;
  const speed = (by) => { const s = $("speed"); s.selectedIndex = Math.min(Math.max(s.selectedIndex + by, 0), s.options.length - 1); };
  const keys = {
    " ": () => play(!view.playing), ArrowLeft: () => { play(false); seek(Math.floor(view.time) - many); }, ArrowRight: () => { play(false); seek(Math.floor(view.time) + many); },
    Home: () => seek(0), End: () => seek(nSteps()), "[": () => openEpisode(view.episode - 1), "]": () => openEpisode(view.episode + 1),
    a: () => choose((from + n - (from < 0 ? 0 : 1)) % n), d: () => choose((from + 1) % n), Escape: () => choose(null), "-": () => speed(-1), "+": () => speed(1), "=": () => speed(1),
  };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || (event.key === " " && event.target.tagName === "BUTTON" && event.target.id !== "play")) return;
  event.preventDefault();
  act();
}

async function begin() {
  page = await read();
  readColors();
  document.title = page.title;
  $("title").textContent = page.title;
  $("message").remove();
  document.querySelector("main").hidden = false;
  $("episode").replaceChildren(...page.episodes.map((each, k) => el("option", { value: k, textContent: `Episode ${each.number}${each.win === undefined ? "" : each.win ? " · won" : " · lost"} · return ${(each.return ?? NaN).toFixed(2)}` })));
  fromAddress();
  $("field").onclick = pick;
  $("play").onclick = () => play(!view.playing);
  $("first").onclick = () => { play(false); seek(0); };
  $("back").onclick = () => { play(false); seek(Math.floor(view.time) - 1); };
  $("next").onclick = () => { play(false); seek(Math.floor(view.time) + 1); };
  $("scrub").oninput = () => seek(Number($("scrub").value));
  $("episode").onchange = () => openEpisode(Number($("episode").value));
  addEventListener("keydown", press);
  addEventListener("resize", redraw);
  addEventListener("hashchange", fromAddress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); openEpisode(view.episode, Math.floor(view.time)); });
}

begin().catch((error) => { $("message").textContent = `This page could not be read: ${error.message}. It needs a browser from 2023 or later.`; });
