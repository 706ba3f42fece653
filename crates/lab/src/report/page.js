"use strict";
(() => {
  const number = (cell) => {
    const text = cell.dataset.v ?? cell.textContent;
    return text.trim() === "" ? NaN : Number(text);
  };
  const short = (n) => (Number.isInteger(n) && Math.abs(n) < 1e15 ? String(n) : String(Number(n.toPrecision(6))));
  const svg = (tag, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.append(node);
    return node;
  };
  const make = (tag, properties, parent) => {
    const node = Object.assign(document.createElement(tag), properties);
    if (parent) parent.append(node);
    return node;
  };

  // Tables: sorted by a column, filtered by words and by conditions such as ns<60.
  const headings = (table) => [...table.tHead.rows[0].cells].map((th) => th.textContent);
  const sort = (table, th) => {
    const at = th.cellIndex;
    const order = th.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const numeric = th.classList.contains("n");
    const rows = [...table.tBodies[0].rows].map((row) => {
      const cell = row.cells[at];
      return { row, key: numeric ? number(cell) : cell.textContent, empty: cell.textContent === "" };
    });
    // Empty cells stand last in either order.
    rows.sort((a, b) => a.empty - b.empty || (a.empty ? 0 : sign * (numeric ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true }))));
    table.tBodies[0].append(...rows.map((entry) => entry.row));
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    th.setAttribute("aria-sort", order);
  };
  const compare = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b };
  const condition = (text, names) => {
    const found = /^(.*?)\s*(<=|>=|<|>|=)\s*(-?[\d.]+(?:e[+-]?\d+)?)$/i.exec(text.trim());
    if (!found) return null;
    const name = found[1].trim().toLowerCase();
    const at = names.findIndex((n) => n.toLowerCase() === name);
    const near = at >= 0 ? at : names.findIndex((n) => n.toLowerCase().includes(name));
    return near < 0 || name === "" ? null : (row) => compare[found[2]](number(row.cells[near]), Number(found[3]));
  };
  const filter = (data) => {
    const table = data.querySelector("table");
    const names = headings(table);
    const text = data.querySelector("input[type=search]").value;
    const tests = text.split(/[;,]/).filter((part) => part.trim() !== "").map((part) => {
      const words = part.toLowerCase().split(/\s+/).filter((word) => word !== "");
      return condition(part, names) ?? ((row) => {
        const all = row.textContent.toLowerCase();
        return words.every((word) => all.includes(word));
      });
    });
    let shown = 0;
    const rows = table.tBodies[0].rows;
    for (const row of rows) {
      row.hidden = !tests.every((test) => test(row));
      if (!row.hidden) shown += 1;
    }
    data.querySelector(".count").textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
    data.dispatchEvent(new Event("rows"));
  };

  // Scatter plots of two columns, with the Pareto front of the rows that are shown.
  const ticks = (from, to) => {
    const span = to - from;
    const power = 10 ** Math.floor(Math.log10(span / 4));
    const step = [1, 2, 5, 10].map((n) => n * power).find((s) => span / s <= 6) ?? span;
    const all = [];
    for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) all.push(t);
    return all;
  };
  const plot = (data) => {
    const table = data.querySelector("table");
    const names = headings(table);
    const columns = [...table.tHead.rows[0].cells].filter((th) => th.classList.contains("n")).map((th) => th.cellIndex);
    const smaller = (at) => /(\b(ns|us|ms|s|cost|wear|price|erases|amplification)\b)/i.test(names[at]) && !/\/s/.test(names[at]);
    const figure = make("figure", { className: "scatter" });
    const caption = make("figcaption", {}, figure);
    const controls = make("div", { className: "controls" }, figure);
    const choose = (axis, first) => {
      const label = make("label", { textContent: `${axis} ` }, controls);
      const select = make("select", {}, label);
      for (const at of columns) make("option", { value: at, textContent: names[at], selected: at === first }, select);
      const want = make("select", {}, controls);
      want.setAttribute("aria-label", `Better on ${axis}`);
      make("option", { value: "more", textContent: "more is better" }, want);
      make("option", { value: "less", textContent: "less is better" }, want);
      want.value = smaller(first) ? "less" : "more";
      select.addEventListener("change", () => { want.value = smaller(Number(select.value)) ? "less" : "more"; draw(); });
      want.addEventListener("change", () => draw());
      return { select, want };
    };
    const speeds = columns.filter((at) => /\/s/.test(names[at]));
    const firstX = columns.find((at) => /wear|cost|cycles/i.test(names[at])) ?? speeds[0] ?? columns[0];
    const x = choose("Across", firstX);
    const y = choose("Up", speeds.find((at) => at !== firstX) ?? columns.find((at) => at !== firstX));
    const canvas = make("div", { className: "canvas" }, figure);
    const readout = make("p", { className: "readout", textContent: "Point at a dot, or move to one with Tab, to read its row." }, figure);
    readout.setAttribute("role", "status");
    data.insertBefore(figure, data.querySelector(".scroll"));
    const label = (row) => [...row.cells].map((cell, at) => (cell.textContent === "" ? "" : `${names[at]}: ${cell.textContent}`)).filter((t) => t !== "").join("; ");
    const draw = () => {
      const [ax, ay] = [Number(x.select.value), Number(y.select.value)];
      const points = [...table.tBodies[0].rows].filter((row) => !row.hidden)
        .map((row) => ({ row, x: number(row.cells[ax]), y: number(row.cells[ay]) }))
        .filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y));
      caption.textContent = `${names[ay]} over ${names[ax]}; orange: the Pareto front of the rows shown`;
      canvas.textContent = "";
      if (points.length === 0) { canvas.textContent = "No row has both figures."; return; }
      const [sx, sy] = [x.want.value === "less" ? 1 : -1, y.want.value === "less" ? 1 : -1];
      const sorted = [...points].sort((a, b) => sx * (a.x - b.x) || sy * (a.y - b.y));
      const front = [];
      for (const p of sorted) {
        const last = front[front.length - 1];
        if (!last || sy * (p.y - last.y) < 0 || (p.y === last.y && p.x === last.x)) front.push(p);
      }
      const best = new Set(front);
      const width = Math.max(280, Math.min(1100, canvas.clientWidth || 800));
      const height = Math.max(240, Math.min(460, width * 0.6));
      const [left, right, top, bottom] = [64, 12, 10, 44];
      const range = (values) => {
        let [from, to] = [Math.min(...values), Math.max(...values)];
        const margin = (to - from || Math.abs(to) || 1) * 0.05;
        return [from - margin, to + margin];
      };
      const [x0, x1] = range(points.map((p) => p.x));
      const [y0, y1] = range(points.map((p) => p.y));
      const px = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
      const py = (v) => height - bottom - ((v - y0) / (y1 - y0)) * (height - top - bottom);
      const chart = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": caption.textContent }, canvas);
      const marks = width < 500 ? 2 : 1;
      ticks(x0, x1).forEach((t, i) => {
        svg("line", { class: "grid", x1: px(t), x2: px(t), y1: top, y2: height - bottom }, chart);
        if (i % marks === 0) svg("text", { x: px(t), y: height - bottom + 16, "text-anchor": "middle" }, chart).textContent = short(t);
      });
      for (const t of ticks(y0, y1)) {
        svg("line", { class: "grid", x1: left, x2: width - right, y1: py(t), y2: py(t) }, chart);
        svg("text", { x: left - 6, y: py(t) + 4, "text-anchor": "end" }, chart).textContent = short(t);
      }
      svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, chart).textContent = names[ax];
      svg("text", { x: 14, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(top + height - bottom) / 2})` }, chart).textContent = names[ay];
      if (front.length > 1) svg("polyline", { class: "front", points: front.map((p) => `${px(p.x)},${py(p.y)}`).join(" ") }, chart);
      // The front last, so that no other dot covers it.
      for (const p of [...points].sort((a, b) => best.has(a) - best.has(b))) {
        const dot = svg("circle", { class: best.has(p) ? "dot best" : "dot", cx: px(p.x), cy: py(p.y), r: best.has(p) ? 5.5 : 4.5, role: "img", tabindex: best.has(p) || points.length <= 60 ? 0 : -1, "aria-label": label(p.row) }, chart);
        const tell = () => {
          for (const other of chart.querySelectorAll(".at")) other.classList.remove("at");
          dot.classList.add("at");
          readout.textContent = label(p.row);
        };
        for (const event of ["pointerenter", "focus", "click"]) dot.addEventListener(event, tell);
      }
    };
    data.addEventListener("rows", draw);
    addEventListener("resize", draw);
    draw();
  };

  // Waterfalls: resources below each other, time across.
  const unit = (ns) => (ns < 1e3 ? `${Math.round(ns)} ns` : ns < 1e6 ? `${Number((ns / 1e3).toPrecision(4))} us` : ns < 1e9 ? `${Number((ns / 1e6).toPrecision(4))} ms` : `${Number((ns / 1e9).toPrecision(4))} s`);
  const waterfall = (figure) => {
    const spans = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector(".canvas");
    const readout = figure.querySelector(".readout");
    const resources = [...new Set(spans.map((span) => span[0]))];
    const end = spans.reduce((most, span) => Math.max(most, span[3]), 1);
    let view = [0, end];
    const draw = () => {
      const width = Math.max(280, Math.min(1500, canvas.clientWidth || 800));
      const [left, lane, top] = [84, 30, 22];
      const height = top + resources.length * lane + 6;
      const [from, to] = view;
      const px = (ns) => left + ((ns - from) / (to - from)) * (width - left - 4);
      canvas.textContent = "";
      const chart = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, canvas);
      ticks(from, to).filter((_, i) => width > 500 || i % 2 === 0).forEach((t) => {
        svg("line", { class: "grid", x1: px(t), x2: px(t), y1: top - 4, y2: height }, chart);
        const at = px(t);
        svg("text", { x: at, y: 12, "text-anchor": at > width - 30 ? "end" : at < left + 30 ? "start" : "middle" }, chart).textContent = unit(t);
      });
      resources.forEach((name, i) => { svg("text", { x: 0, y: top + i * lane + 19 }, chart).textContent = name; });
      let drawn = -1;
      let lastLane = -1;
      for (const [resource, phase, start, stop, what] of spans) {
        if (stop < from || start > to) continue;
        const [a, b] = [Math.max(px(start), left), Math.min(px(stop), width - 4)];
        const at = resources.indexOf(resource);
        // Steps narrower than a pixel behind one another are drawn once.
        if (at === lastLane && b - a < 0.5 && Math.floor(b) === drawn) continue;
        [drawn, lastLane] = [Math.floor(b), at];
        const bar = svg("rect", { class: `span p-${phase}`, x: a, y: top + at * lane + 2, width: Math.max(b - a, 0.7), height: lane - 4 }, chart);
        const tell = () => { readout.textContent = `${resource}: ${what} (${phase}), ${unit(start)} to ${unit(stop)}, ${unit(stop - start)}`; };
        bar.addEventListener("pointerenter", tell);
        bar.addEventListener("click", tell);
      }
    };
    const show = (from, to) => {
      const span = Math.min(Math.max(to - from, Math.min(10, end)), end);
      const start = Math.min(Math.max(from, 0), end - span);
      view = [start, start + span];
      draw();
      readout.textContent = `From ${unit(view[0])} to ${unit(view[1])}.`;
    };
    const zoom = (factor, share) => {
      const span = view[1] - view[0];
      const at = view[0] + span * share;
      show(at - span * factor * share, at + span * factor * (1 - share));
    };
    const move = (share) => { const by = (view[1] - view[0]) * share; show(view[0] + by, view[1] + by); };
    const actions = { in: () => zoom(0.5, 0.5), out: () => zoom(2, 0.5), left: () => move(-0.4), right: () => move(0.4), all: () => show(0, end) };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
    for (const button of figure.querySelectorAll("[data-zoom]")) button.addEventListener("click", actions[button.dataset.zoom]);
    canvas.addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    });
    canvas.addEventListener("wheel", (event) => {
      // Only with a key held, so that the page can be scrolled.
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, Math.min(Math.max((event.clientX - box.left - 84) / (box.width - 88), 0), 1));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, view]; });
    addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (!held || Math.abs(event.clientX - held[0]) < 4) return;
      const by = ((held[0] - event.clientX) / (canvas.clientWidth - 88)) * (held[1][1] - held[1][0]);
      show(held[1][0] + by, held[1][1] + by);
    });
    addEventListener("resize", draw);
    draw();
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const th of table.tHead.rows[0].cells) th.querySelector("button")?.addEventListener("click", () => sort(table, th));
  }
  for (const data of document.querySelectorAll(".data")) {
    data.querySelector("input[type=search]")?.addEventListener("input", () => filter(data));
    if (data.hasAttribute("data-plot")) plot(data);
  }
  document.querySelectorAll(".waterfall").forEach(waterfall);
})();
