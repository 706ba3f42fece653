"use strict";
(() => {
  const number = (cell) => {
    const text = cell.dataset.v ?? cell.textContent;
    return text.trim() === "" ? NaN : Number(text);
  };
  const make = (tag, properties, parent) => {
    const node = Object.assign(document.createElement(tag), properties);
    if (parent) parent.append(node);
    return node;
  };

  // Tables: sorted by a column, filtered by words and by conditions such as ns<60 or chip=w25n01jw.
  const headings = (table) => [...table.tHead.rows[0].cells].map((th) => th.textContent);
  // The first rows of a long table are shown, until a reader asks for all.
  const FIRST = 25;
  const PRINTED = 100;
  const fold = (table) => [...table.tBodies[0].rows].forEach((row, at) => row.classList.toggle("more", at >= FIRST));
  const foldable = (table) => {
    const rows = table.tBodies[0].rows.length;
    if (rows <= FIRST + 5) return;
    fold(table);
    // Paper has the rows of a table of moderate length, and says how many a longer one has.
    if (rows > PRINTED) {
      table.classList.add("long");
      table.parentElement.after(make("p", { className: "on-paper", textContent: `The first ${FIRST} of ${rows} rows; the page has all of them.` }));
    }
    const button = make("button", { type: "button", className: "more-rows", textContent: `Show all ${rows} rows` });
    button.addEventListener("click", () => { table.classList.add("all"); button.remove(); });
    table.parentElement.after(button);
  };
  // On a narrow screen each row becomes a block, whose cells name their columns.
  const stack = (table) => {
    const names = headings(table);
    if (table.tBodies[0].rows.length > 2000) return;
    for (const row of table.tBodies[0].rows) for (const cell of row.cells) cell.dataset.l = names[cell.cellIndex];
    table.classList.add("stack");
  };
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
    fold(table);
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    th.setAttribute("aria-sort", order);
  };
  const holds = { "<": (order) => order < 0, "<=": (order) => order <= 0, ">": (order) => order > 0, ">=": (order) => order >= 0, "=": (order) => order === 0, "!=": (order) => order !== 0 };
  // A number as it is typed: 60, 1e6, or 40M as the ticks of a plot have it.
  const factors = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const typed = (text) => {
    const found = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([kMGT]?|[KMGT]i)$/.exec(text);
    return found ? Number(found[1]) * factors[found[2]] : NaN;
  };
  // Numbers in the order of numbers, texts in that of texts, in which numbers count as numbers, too. An empty cell has no order.
  const order = (cell, wanted) => {
    const [text, value] = [cell.textContent.trim(), typed(wanted)];
    if (text === "") return NaN;
    const own = number(cell);
    // What is shown is rounded: a reader who types it means this row.
    if (Number.isFinite(own) && Number.isFinite(value)) return Number(text) === value ? 0 : own - value;
    return text.toLowerCase().localeCompare(wanted.toLowerCase(), "en", { numeric: true });
  };
  // What a part of a filter asks of a row, or in `wrong` why it asks nothing.
  const condition = (part, table) => {
    const words = part.toLowerCase().split(/\s+/);
    const has = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
    const found = /^(.*?)\s*(<=|>=|!=|<|>|=)\s*(.*)$/.exec(part);
    // What stands in a cell, such as bus.mode=8S, is a text.
    const isIn = (row) => row.textContent.toLowerCase().includes(part.toLowerCase());
    if (!found || [...table.tBodies[0].rows].some(isIn)) return has;
    const [name, wanted] = [found[1].trim(), found[3].trim()];
    const names = headings(table).map((n) => n.toLowerCase());
    const at = names.indexOf(name.toLowerCase());
    const near = at >= 0 ? at : names.findIndex((n) => n.includes(name.toLowerCase()));
    if (name === "" || near < 0) return { wrong: `no column is called ${name || "that"}` };
    if (wanted === "") return { wrong: `${found[2]} what?` };
    const numeric = table.tHead.rows[0].cells[near].classList.contains("n");
    if (numeric && Number.isNaN(typed(wanted))) return { wrong: `${wanted} is no number` };
    return (row) => holds[found[2]](order(row.cells[near], wanted));
  };
  const filter = (data) => {
    const table = data.querySelector("table");
    const field = data.querySelector("input[type=search]");
    const parts = field.value.split(/[;,]/).map((part) => part.trim()).filter((part) => part !== "");
    const tests = parts.map((part) => condition(part, table));
    const wrong = tests.find((test) => test.wrong)?.wrong;
    let shown = 0;
    if (parts.length > 0) table.classList.add("all");
    const rows = table.tBodies[0].rows;
    for (const row of rows) {
      row.hidden = !wrong && !tests.every((test) => test(row));
      if (!row.hidden) shown += 1;
    }
    field.setAttribute("aria-invalid", Boolean(wrong));
    data.querySelector(".count").textContent = `${wrong ? `Not filtered, ${wrong}: ` : ""}${shown === rows.length ? "" : `${shown} of `}${rows.length} rows`;
    data.dispatchEvent(new Event("rows"));
  };

  // A picture of Plot, and its marks with the rows that they stand for.
  const picture = (canvas, name, role, options) => {
    const width = Math.max(280, Math.min(1600, canvas.clientWidth || 800));
    const chart = Plot.plot({ width, marginRight: 24, ...options(width) });
    chart.setAttribute("role", role);
    chart.setAttribute("aria-label", name);
    canvas.replaceChildren(chart);
    return chart;
  };
  const marks = (chart, selector, rows, prepare) => {
    for (const mark of chart.querySelectorAll(selector)) prepare(mark, rows[mark.__data__]);
  };

  // The names of rows beside their dots, where there is room: a name that would cover another one or a dot is left out.
  const LABELLED = 24;
  // Margin of a plot with the numbers of its axis.
  const LEFT = 64;
  const PLACES = [[1, 0], [-1, 0], [1, -12], [-1, -12], [1, 12], [-1, 12]];
  const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  const nameAll = (named) => {
    const of = (dot, key) => Number(dot.getAttribute(key));
    const taken = named.map(({ dot }) => ({ x: of(dot, "cx") - 5, y: of(dot, "cy") - 5, width: 10, height: 10 }));
    for (const { dot, row } of named) {
      const text = document.createElementNS(dot.namespaceURI, "text");
      const set = (all) => { for (const [key, value] of Object.entries(all)) text.setAttribute(key, value); };
      set({ class: "name", dy: "0.35em", "aria-hidden": true });
      const words = row.cells[0].textContent;
      text.textContent = words.length > 40 ? `${words.slice(0, 39)}…` : words;
      dot.parentElement.append(text);
      const width = of(dot.ownerSVGElement, "width");
      const fits = ([side, down]) => {
        set({ x: of(dot, "cx") + 9 * side, y: of(dot, "cy") + down, "text-anchor": side < 0 ? "end" : "start" });
        const box = text.getBBox();
        return box.x >= LEFT && box.x + box.width <= width && !taken.some((other) => meet(box, other));
      };
      if (PLACES.some(fits)) taken.push(text.getBBox());
      else text.remove();
    }
  };

  // Scatter plots of two columns, with the Pareto front of the rows that are shown.
  const plot = (data) => {
    const table = data.querySelector("table");
    const names = headings(table);
    const rows = [...table.tBodies[0].rows];
    const columns = [...table.tHead.rows[0].cells].filter((th) => th.classList.contains("n")).map((th) => th.cellIndex);
    // What a sweep was told to optimise; of other tables what the name of the column suggests.
    const better = (at) => table.tHead.rows[0].cells[at].dataset.better;
    const swept = names.indexOf("pareto");
    const wish = (at) => {
      if (better(at) || swept >= 0) return better(at) ?? "";
      if (/\/s/.test(names[at])) return "more";
      return /\b(ns|us|ms|s|cost|wear|price|erases|amplification)\b/i.test(names[at]) ? "less" : "";
    };
    const figure = make("figure", { className: "scatter" });
    const caption = make("figcaption", {}, figure);
    const controls = make("div", { className: "controls" }, figure);
    const choose = (axis, first) => {
      const label = make("label", { textContent: `${axis} ` }, controls);
      const select = make("select", {}, label);
      for (const at of columns) make("option", { value: at, textContent: names[at], selected: at === first }, select);
      const want = make("select", {}, controls);
      want.setAttribute("aria-label", `Better on ${axis}`);
      make("option", { value: "", textContent: "neither is better" }, want);
      make("option", { value: "more", textContent: "more is better" }, want);
      make("option", { value: "less", textContent: "less is better" }, want);
      want.value = wish(first);
      select.addEventListener("change", () => { want.value = wish(Number(select.value)); draw(); });
      want.addEventListener("change", () => draw());
      return { select, want };
    };
    // Columns in which rows differ come first: costs across, speeds up.
    const varies = (at) => new Set(rows.map((row) => row.cells[at].textContent)).size > 1;
    const by = [...columns.filter(varies), ...columns];
    const speeds = by.filter((at) => /\/s/.test(names[at]));
    const objectives = by.filter(better);
    // Two columns that are to be equal have no front: the line shows where they are.
    const named = data.dataset.plot.split(",").map((name) => names.indexOf(name));
    const equal = named.includes(-1) ? null : named;
    // An objective alone goes up, and what it may depend on across.
    const costs = [...objectives.filter((at) => better(at) === "less"), ...objectives, ...by.filter((at) => /wear|cost|cycles/i.test(names[at]) && varies(at)), ...by.filter((at) => !speeds.includes(at) && varies(at)), ...by];
    const gains = [...objectives.filter((at) => better(at) === "more"), ...objectives, ...speeds, ...by.filter((at) => at !== costs[0]), ...by];
    const firstY = equal?.[1] ?? gains[0];
    const x = choose("Across", equal?.[0] ?? costs.find((at) => at !== firstY));
    const y = choose("Up", firstY);
    // Rows that miss a constraint are no part of the front.
    const feasible = names.indexOf("feasible");
    const counts = (row) => feasible < 0 || /^(true|1)$/.test(row.cells[feasible].textContent.trim());
    const canvas = make("div", { className: "canvas" }, figure);
    const readout = make("p", { className: "readout", textContent: "Point at a dot, or move to one with Tab, to read its row." }, figure);
    readout.setAttribute("role", "status");
    data.insertBefore(figure, data.querySelector(".scroll"));
    const label = (row) => [...row.cells].map((cell, at) => (cell.textContent === "" ? "" : `${names[at]}: ${cell.textContent}`)).filter((t) => t !== "").join("; ");
    const draw = () => {
      const [ax, ay] = [Number(x.select.value), Number(y.select.value)];
      const isEqual = equal?.[0] === ax && equal[1] === ay;
      const points = rows.filter((row) => !row.hidden)
        .map((row) => ({ row, x: number(row.cells[ax]), y: number(row.cells[ay]) }))
        .filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y) && (!isEqual || (p.x > 0 && p.y > 0)));
      for (const { want } of [x, y]) want.hidden = isEqual;
      // Without directions there is no front but that of the sweep, whose objectives may be others.
      const isWished = x.want.value !== "" && y.want.value !== "";
      const orange = isEqual ? "where they are equal"
        : isWished ? `the Pareto front of the ${feasible < 0 ? "" : "feasible "}rows shown`
        : swept >= 0 ? "the Pareto front of the sweep" : "";
      caption.textContent = `${names[ay]} over ${names[ax]}${orange && `; orange: ${orange}`}${feasible < 0 ? "" : "; pale: not feasible"}`;
      if (points.length === 0) { canvas.textContent = "No row has both figures."; return; }
      const [sx, sy] = [x.want.value === "less" ? 1 : -1, y.want.value === "less" ? 1 : -1];
      const front = [];
      for (const p of points.filter((p) => isWished && counts(p.row)).sort((a, b) => sx * (a.x - b.x) || sy * (a.y - b.y))) {
        const last = front[front.length - 1];
        if (!last || sy * (p.y - last.y) < 0 || (p.y === last.y && p.x === last.x)) front.push(p);
      }
      const ends = isEqual ? [Math.min, Math.max].map((end) => points.map((p) => p.x).reduce((a, b) => end(a, b))).map((x) => ({ x, y: x })) : front;
      const best = new Set(isEqual ? [] : isWished ? front : points.filter((p) => p.row.classList.contains("front")));
      // The front last, so that no other dot covers it.
      points.sort((a, b) => best.has(a) - best.has(b));
      // Ticks such as 20M, where all digits would touch those of the next.
      // Equal values get some room on both sides, or no tick would have a place.
      const room = (values) => {
        const [least, most] = [Math.min, Math.max].map((end) => values.reduce((a, b) => end(a, b)));
        const by = Math.abs(most) / 10 || 1;
        return least < most ? {} : { domain: isEqual ? [least / 2, most * 2] : [least - by, most + by] };
      };
      const scale = (values) => ({ ...room(values), grid: true, nice: true, ...(isEqual ? { type: "log", tickFormat: "~g" } : { zero: false, tickFormat: values.some((v) => Math.abs(v) >= 1e5) ? "~s" : undefined }) });
      const chart = picture(canvas, caption.textContent, "group", (width) => ({
        height: Math.max(240, Math.min(460, width * 0.6)), marginLeft: LEFT, marginBottom: 42, inset: 6, r: { type: "identity" },
        x: { ...scale(points.map((p) => p.x)), label: names[ax], labelAnchor: "center", labelArrow: "none", labelOffset: 38, ticks: width / 110 },
        y: { ...scale(points.map((p) => p.y)), label: names[ay] },
        marks: [
          Plot.line(ends, { x: "x", y: "y", stroke: "var(--front)" }),
          Plot.dot(points, { x: "x", y: "y", r: (p) => (best.has(p) ? 5.5 : 4.5), ariaLabel: (p) => label(p.row), sort: null }),
        ],
      }));
      const named = [];
      marks(chart, "circle", points, (dot, p) => {
        dot.setAttribute("class", best.has(p) ? "dot best" : counts(p.row) ? "dot" : "dot out");
        dot.setAttribute("role", "img");
        dot.setAttribute("tabindex", best.has(p) || points.length <= 60 ? 0 : -1);
        // Those of the front have the first choice.
        if (points.length <= LABELLED) named[best.has(p) ? "unshift" : "push"]({ dot, row: p.row });
        const tell = () => {
          for (const other of chart.querySelectorAll(".at")) other.classList.remove("at");
          dot.classList.add("at");
          readout.textContent = label(p.row);
        };
        for (const event of ["pointerenter", "focus", "click"]) dot.addEventListener(event, tell);
      });
      nameAll(named);
    };
    data.addEventListener("rows", draw);
    addEventListener("resize", draw);
    draw();
  };

  // Waterfalls: resources below each other, time across.
  const unit = (ns) => (ns < 1e3 ? `${Math.round(ns)} ns` : ns < 1e6 ? `${Number((ns / 1e3).toPrecision(4))} us` : ns < 1e9 ? `${Number((ns / 1e6).toPrecision(4))} ms` : `${Number((ns / 1e9).toPrecision(4))} s`);
  const waterfall = (figure) => {
    const spans = JSON.parse(figure.querySelector("script").textContent)
      .map(([resource, phase, start, stop, what]) => ({ resource, phase, start, stop, what }));
    const canvas = figure.querySelector(".canvas");
    const readout = figure.querySelector(".readout");
    const resources = [...new Set(spans.map((span) => span.resource))];
    const end = spans.reduce((most, span) => Math.max(most, span.stop), 1);
    // Nearer than the shortest step there is nothing to see.
    const least = spans.map((span) => span.stop - span.start).filter((ns) => ns > 0).reduce((a, b) => Math.min(a, b), end);
    const [left, right] = [84, 24];
    let view = [0, end];
    const draw = () => {
      const [from, to] = view;
      const pixel = (to - from) / Math.max(canvas.clientWidth - left - right, 200);
      // Steps narrower than a pixel behind one another are drawn once.
      const drawn = new Map();
      const shown = spans.filter((span) => {
        if (span.stop < from || span.start > to) return false;
        const at = Math.floor(span.stop / pixel);
        const isDrawn = span.stop - span.start < pixel / 2 && drawn.get(span.resource) === at;
        drawn.set(span.resource, at);
        return !isDrawn;
      });
      const chart = picture(canvas, "", "presentation", (width) => ({
        height: 28 + 30 * resources.length, marginLeft: left, marginRight: right, marginTop: 22, marginBottom: 6,
        x: { axis: "top", domain: view, grid: true, label: null, tickFormat: unit, ticks: width / 110 },
        y: { domain: resources, label: null, padding: 0.12, tickSize: 0 },
        marks: [Plot.barX(shown, { x1: (s) => Math.max(s.start, from), x2: (s) => Math.min(Math.max(s.stop, s.start + pixel), to), y: "resource", sort: null })],
      }));
      chart.setAttribute("aria-hidden", "true");
      marks(chart, "[aria-label=bar] rect", shown, (bar, { resource, phase, start, stop, what }) => {
        bar.setAttribute("class", `span p-${phase}`);
        const tell = () => { readout.textContent = `${resource}: ${what} (${phase}), ${unit(start)} to ${unit(stop)}, ${unit(stop - start)}`; };
        bar.addEventListener("pointerenter", tell);
        bar.addEventListener("click", tell);
      });
    };
    const show = (from, to) => {
      const span = Math.min(Math.max(to - from, least), end);
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
      zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, Math.min(Math.max((event.clientX - box.left - left) / (box.width - left - right), 0), 1));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, view]; });
    addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (!held || Math.abs(event.clientX - held[0]) < 4) return;
      const by = ((held[0] - event.clientX) / (canvas.clientWidth - left - right)) * (held[1][1] - held[1][0]);
      show(held[1][0] + by, held[1][1] + by);
    });
    addEventListener("resize", draw);
    draw();
  };

  document.querySelectorAll("table:not(.heat)").forEach(stack);
  for (const table of document.querySelectorAll("table.sortable")) {
    foldable(table);
    for (const th of table.tHead.rows[0].cells) th.querySelector("button")?.addEventListener("click", () => sort(table, th));
  }
  for (const data of document.querySelectorAll(".data")) {
    data.querySelector("input[type=search]")?.addEventListener("input", () => filter(data));
    if (data.hasAttribute("data-plot")) plot(data);
  }
  document.querySelectorAll(".waterfall").forEach(waterfall);
})();
