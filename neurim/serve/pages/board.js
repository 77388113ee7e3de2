"use strict";
// The page of `neurim board`: it asks for the list of runs, and for the curves of those that are selected.
const COLORS = 8, MOST_SHOWN = 12, EVERY = 2000;
const selected = new Map();  // name -> {color, curves, about}
let runs = [];

const element = (tag, attributes = {}, ...children) => {
  const node = tag === "svg" || SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const SVG_TAGS = new Set(["path", "line", "text", "title"]);
// Short enough for an axis.
const tick = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5) ? value.toExponential(1) : shown(value));
const byId = (id) => document.getElementById(id);
const shown = (value) => value === undefined || value === null ? "–" : typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
const ask = async (address) => {
  const reply = await fetch(address);
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
};
const query = (name, more = "") => `?run=${encodeURIComponent(name)}${more}`;

function drawList() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = runs.filter((run) => words.every((word) => `${run.name} ${run.model} ${run.data}`.toLowerCase().includes(word)));
  const head = element("tr", {}, ...["show", "run", "model", "data", "epoch", "val loss", "best by", "state"].map((title, i) =>
    element("th", {scope: "col", ...(i > 3 && i < 7 ? {class: "n"} : {})}, title)));
  const rows = fitting.map((run) => {
    const box = element("input", {type: "checkbox", "aria-label": `show ${run.name}`});
    box.checked = selected.has(run.name);
    box.addEventListener("change", () => choose(run.name, box.checked));
    const key = selected.has(run.name) ? [element("span", {class: `key c${selected.get(run.name).color}`})] : [];
    return element("tr", {}, element("td", {}, box), element("th", {scope: "row"}, ...key, run.name), element("td", {}, shown(run.model)),
      element("td", {}, shown(run.data)), element("td", {class: "n"}, `${shown(run.last.epoch)} of ${shown(run.epochs)}`),
      element("td", {class: "n"}, shown(run.last.val_loss)), element("td", {class: "n"}, run.monitor ? `${run.monitor} ${shown(run.last[run.monitor])}` : "–"),
      element("td", {}, run.age >= 0 && run.age < 60 ? "active" : ""));
  });
  const active = document.activeElement && document.activeElement.getAttribute("aria-label");
  byId("list").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  if (active) byId("list").querySelector(`[aria-label="${CSS.escape(active)}"]`)?.focus();
  byId("status").textContent = `${fitting.length} of ${runs.length} runs`;
}

async function choose(name, wanted) {
  if (!wanted) selected.delete(name);
  if (wanted && !selected.has(name)) {
    const used = new Set([...selected.values()].map((one) => one.color));
    let color = 0;
    while (used.has(color) && color < COLORS - 1) ++color;
    selected.set(name, {color, curves: {}, about: null});
    await Promise.all([follow(name), tell(name)]);
  }
  drawList();
  drawCurves();
  drawOptions();
  drawImages();
}

async function follow(name) {
  const one = selected.get(name);
  const last = Math.max(-1, ...Object.values(one.curves).map((curve) => curve.x[curve.x.length - 1] ?? -1));
  const fresh = await ask(`/api/curves${query(name, `&after=${last}`)}`);
  let grown = false;
  for (const [metric, points] of Object.entries(fresh.curves)) {
    const curve = one.curves[metric] ??= {x: [], y: []};
    curve.x.push(...points.x);
    curve.y.push(...points.y);
    grown ||= points.x.length > 0;
  }
  return grown;
}

async function tell(name) {
  selected.get(name).about = await ask(`/api/run${query(name)}`);
}

const smoothed = (values, by) => {
  let mean = null;
  return values.map((value) => (value === null ? null : (mean = mean === null ? value : by * mean + (1 - by) * value)));
};

function chart(metric) {
  const WIDTH = 420, HEIGHT = 220, LEFT = 60, RIGHT = 8, TOP = 8, BOTTOM = 24;
  const logarithmic = byId("logarithmic").checked, by = Number(byId("smooth").value);
  const lines = [];
  for (const [name, one] of selected) {
    const curve = one.curves[metric];
    if (!curve || curve.x.length === 0) continue;
    const y = smoothed(curve.y, by).map((value) => (value === null || (logarithmic && value <= 0) ? null : logarithmic ? Math.log10(value) : value));
    lines.push({name, color: one.color, x: curve.x, y, last: curve.y[curve.y.length - 1]});
  }
  const xs = lines.flatMap((line) => [line.x[0], line.x[line.x.length - 1]]);
  const ys = lines.flatMap((line) => line.y.filter((value) => value !== null));
  if (ys.length === 0) return null;
  let low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  if (low === high) [low, high] = [low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];  // in the middle
  const left = Math.min(...xs), right = Math.max(...xs), up = high - low, across = right - left || 1;
  const px = (x) => LEFT + ((x - left) / across) * (WIDTH - LEFT - RIGHT), py = (y) => HEIGHT - BOTTOM - ((y - low) / up) * (HEIGHT - TOP - BOTTOM);
  const words = lines.map((line) => `${line.name} ${shown(line.last)}`).join(", ");
  const drawing = element("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${metric} over epochs; last values: ${words}`});
  for (let i = 0; i <= 4; ++i) {
    const value = low + (up * i) / 4, y = py(value);
    drawing.append(element("line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y}),
      element("text", {x: LEFT - 6, y: y + 4, "text-anchor": "end"}, tick(logarithmic ? 10 ** value : value)));
  }
  for (const x of new Set([left, right])) drawing.append(element("text", {x: px(x), y: HEIGHT - 6, "text-anchor": x === left ? "start" : "end"}, shown(x)));
  for (const line of lines) {
    let path = "", pen = "M";
    line.y.forEach((value, i) => {
      if (value === null) pen = "M";
      else {
        path += `${pen}${px(line.x[i]).toFixed(1)} ${py(value).toFixed(1)}`;
        pen = "L";
      }
    });
    if (line.y.length === 1) path += "h3";
    drawing.append(element("path", {class: `c${line.color}`, d: path}));
  }
  return element("figure", {}, element("figcaption", {}, metric), drawing);
}

function drawCurves() {
  const metrics = new Set();
  for (const one of selected.values()) for (const metric of Object.keys(one.curves)) metrics.add(metric);
  const first = ["val_loss", "train_loss", "top1", "train_top1", "top5", "f1_macro", "learning_rate"];
  const order = [...metrics].sort((a, b) => (first.indexOf(a) + 1 || 99) - (first.indexOf(b) + 1 || 99) || a.localeCompare(b));
  const charts = order.map(chart).filter(Boolean);
  byId("curves").replaceChildren(...(charts.length ? charts : [element("p", {}, "Select runs above to see their curves.")]));
}

function drawOptions() {
  const names = [...selected.keys()].filter((name) => selected.get(name).about);
  const all = [...new Set(names.flatMap((name) => Object.keys(selected.get(name).about.options)))].sort();
  const value = (name, option) => selected.get(name).about.options[option] ?? "";
  const differ = (option) => new Set(names.map((name) => value(name, option))).size > 1;
  const kept = all.filter((option) => !byId("differing").checked || names.length < 2 || differ(option));
  const head = element("tr", {}, element("th", {scope: "col"}, "option"), ...names.map((name) => element("th", {scope: "col"}, name)));
  const rows = kept.map((option) => element("tr", {}, element("th", {scope: "row"}, option), ...names.map((name) => element("td", {}, value(name, option)))));
  byId("options").replaceChildren(names.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)) : element("p", {}, "No run is selected."));
}

function drawImages() {
  const parts = [];
  for (const [name, one] of selected) {
    if (!one.about) continue;
    const address = (file) => `/file${query(name, `&path=${encodeURIComponent(file)}`)}`;
    const images = one.about.files.filter((file) => /\.(png|jpg)$/.test(file));
    const pages = one.about.files.filter((file) => /\.(html|csv|json|txt)$/.test(file));
    parts.push(element("h3", {}, name),
      element("div", {class: "gallery"}, ...images.map((file) => {
        const link = element("a", {href: address(file)});
        link.append(element("img", {src: address(file), alt: file, loading: "lazy"}));
        return link;
      })),
      element("p", {}, ...pages.flatMap((file) => [element("a", {href: address(file)}, file), " "])));
  }
  byId("images").replaceChildren(...(parts.length ? parts : [element("p", {}, "No run is selected.")]));
}

async function refresh() {
  try {
    const list = await ask("/api/runs");
    byId("folder").textContent = list.folder;
    const before = JSON.stringify(runs.map((run) => [run.name, run.last.epoch, run.age < 60]));
    runs = list.runs;
    if (before !== JSON.stringify(runs.map((run) => [run.name, run.last.epoch, run.age < 60]))) drawList();
    const grown = await Promise.all([...selected.keys()].map(follow));
    if (grown.some(Boolean)) drawCurves();
    const machine = await ask("/api/machine");
    const gigabytes = (bytes) => (bytes / 2 ** 30).toFixed(1);
    byId("machine").textContent = `processors ${(100 * machine.cpu).toFixed(0)} % busy, memory ${gigabytes(machine.memory_used)} of ${gigabytes(machine.memory_all)} GiB`;
  } catch (error) {
    byId("status").textContent = `No answer: ${error.message}`;
  }
  setTimeout(refresh, EVERY);
}

async function begin() {
  for (const id of ["filter"]) byId(id).addEventListener("input", drawList);
  for (const id of ["smooth", "logarithmic"]) byId(id).addEventListener("input", drawCurves);
  byId("differing").addEventListener("input", drawOptions);
  await refresh();
  const newest = [...runs].filter((run) => run.age >= 0).sort((a, b) => a.age - b.age).slice(0, Math.min(4, MOST_SHOWN));
  for (const run of newest) await choose(run.name, true);
  if (newest.length === 0) drawCurves(), drawOptions(), drawImages();
}
begin();
