// One picture of a graph: zoom, pan, selection. Only what is in view is drawn, and far out without texts.

const KINDS = {
  kernel: "launches a kernel", view: "no kernel: a view, or absorbed by a matmul", host: "no kernel: computed from constants or sizes",
  data: "input of the graph", const: "constant", output: "outputs of the graph",
};
const DETAILED = 260; // nodes drawn with their texts at once

class Picture {
  constructor(title, nodes, ops, pick) {
    this.nodes = nodes;
    this.ops = ops;
    this.pick = pick;
    this.selected = -1;
    this.marked = new Set();
    this.matches = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.drawn = null;
    this.pointers = new Map();
    this.world = svg("g", {});
    this.stage = svg("svg", { class: "stage", tabindex: 0, role: "application", "aria-label":
      `${title}: arrow keys follow edges, plus and minus zoom, 0 shows all, shift and arrow keys move the view` }, this.world);
    this.window = svg("rect", { class: "window" });
    this.map = svg("svg", { class: "overview", preserveAspectRatio: "none", "aria-hidden": "true" });
    const button = (text, label, act) => el("button", { type: "button", "aria-label": `${label}: ${title}`, onclick: act }, text);
    this.root = el("figure", { class: "picture" },
      el("figcaption", {}, el("span", {}, title), el("span", { class: "tools" },
        button("\u2212", "zoom out", () => this.zoom(0.7)), button("+", "zoom in", () => this.zoom(1.4)),
        button("All", "show all", () => this.showAll()))),
      el("div", { class: "frame" }, this.stage, this.map));
    this.listen();
  }

  // Lays the graph out; `hidden` says which nodes are not drawn. The page has to hold the picture by then.
  arrange(hidden) {
    const { keep, sources } = without(this.nodes, hidden);
    this.keep = keep;
    this.place = new Map(keep.map((i, k) => [i, k]));
    this.sources = sources;
    this.readers = readersOf(sources);
    this.at = layered(sources);
    this.map.setAttribute("viewBox", `0 0 ${this.at.width} ${this.at.height}`);
    this.drawMap();
    this.start();
  }

  // The whole graph in a strip beside the picture, with what a search found marked.
  drawMap() {
    const found = [...this.keep.keys()].filter((k) => this.matches !== null && this.matches.has(this.keep[k]));
    const marks = found.map((k) => `M0 ${this.at.y[k]}h${this.at.width}v${NODE.height}h${-this.at.width}z`).join("");
    const boxes = this.batches(this.keep.keys(), null, NODE.width + NODE.gapX, NODE.height + NODE.gapY);
    this.map.replaceChildren(...boxes, svg("path", { class: "mark", d: marks }), this.window);
  }

  start() {
    const { w, h } = this.size();
    const all = Math.min(w / (this.at.width + 40), h / (this.at.height + 40), 1);
    if (all >= 0.45) this.showAll();
    else {
      const top = this.at.rows.slice(0, 8).flat();
      const middle = top.reduce((sum, k) => sum + this.at.x[k], 0) / Math.max(top.length, 1) + NODE.width / 2;
      this.view = { scale: 0.6, x: middle - w / 1.2, y: -20 };
      this.redraw();
    }
  }

  size() {
    return { w: this.stage.clientWidth || 400, h: this.stage.clientHeight || 400 };
  }

  // All of the graph, or of a very long one its whole width: smaller, nothing could be made out.
  showAll() {
    const { w, h } = this.size();
    const whole = Math.min(w / (this.at.width + 40), h / (this.at.height + 40), 1);
    const scale = Math.max(whole, Math.min(w / (this.at.width + 40), 0.08));
    this.view = { scale, x: (this.at.width - w / scale) / 2, y: scale === whole ? (this.at.height - h / scale) / 2 : -20 };
    this.redraw();
  }

  zoom(factor, px, py) {
    const { w, h } = this.size();
    const sx = px === undefined ? w / 2 : px, sy = py === undefined ? h / 2 : py;
    const scale = Math.min(2.5, Math.max(0.02, this.view.scale * factor));
    this.view = { scale, x: this.view.x + sx / this.view.scale - sx / scale, y: this.view.y + sy / this.view.scale - sy / scale };
    this.redraw();
  }

  // Brings a node to the middle, near enough to read it.
  show(index) {
    const k = this.place.get(index);
    if (k === undefined) return;
    const { w, h } = this.size();
    const scale = Math.max(this.view.scale, 0.6);
    this.view = { scale, x: this.at.x[k] + NODE.width / 2 - w / scale / 2, y: this.at.y[k] + NODE.height / 2 - h / scale / 2 };
    this.redraw();
  }

  select(index, marked) {
    this.selected = index;
    this.marked = marked || new Set();
    this.drawn = null;
    this.redraw();
  }

  setMatches(matches) {
    if (matches === this.matches) return;
    this.matches = matches;
    this.drawn = null;
    this.drawMap();
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    if (!this.at) return;
    const { w, h } = this.size(), v = this.view;
    const seen = { x0: v.x, y0: v.y, x1: v.x + w / v.scale, y1: v.y + h / v.scale };
    const d = this.drawn;
    if (!d || d.scale !== v.scale || seen.x0 < d.x0 || seen.y0 < d.y0 || seen.x1 > d.x1 || seen.y1 > d.y1) {
      const mx = (seen.x1 - seen.x0) / 2, my = (seen.y1 - seen.y0) / 2;
      this.drawn = { scale: v.scale, x0: seen.x0 - mx, y0: seen.y0 - my, x1: seen.x1 + mx, y1: seen.y1 + my };
      this.fillWorld(this.drawn);
    }
    this.world.setAttribute("transform", `scale(${v.scale}) translate(${-v.x} ${-v.y})`);
    this.map.parentNode.classList.toggle("whole", seen.x0 <= 0 && seen.y0 <= 0 && seen.x1 >= this.at.width && seen.y1 >= this.at.height);
    for (const [name, value] of [["x", seen.x0], ["y", seen.y0], ["width", w / v.scale], ["height", h / v.scale]])
      this.window.setAttribute(name, value);
  }

  fillWorld(box) {
    const inside = [];
    const step = NODE.height + NODE.gapY;
    for (let r = Math.max(0, Math.floor(box.y0 / step)); r < Math.min(this.at.rows.length, box.y1 / step + 1); r++)
      for (const k of this.at.rows[r]) if (this.at.x[k] + NODE.width > box.x0 && this.at.x[k] < box.x1) inside.push(k);
    const detailed = inside.length <= DETAILED && this.view.scale >= 0.3;
    const nodes = detailed ? inside.map((k) => this.drawNode(k)) : this.batches(inside, this.matches);
    this.stage.classList.toggle("small", !detailed);
    this.world.replaceChildren(...this.edges(inside), ...nodes, ...this.outlines());
  }

  edges(inside) {
    const shown = new Set(inside);
    const near = [], far = [], own = [];
    const selected = this.place.get(this.selected);
    const line = (from, to) => {
      const x1 = this.at.x[from] + NODE.width / 2, y1 = this.at.y[from] + NODE.height;
      const x2 = this.at.x[to] + NODE.width / 2, y2 = this.at.y[to];
      const bend = Math.max(14, Math.min(60, (y2 - y1) / 2));
      const text = `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
      if (from === selected || to === selected) own.push(text);
      else (this.at.rank[to] - this.at.rank[from] > 4 ? far : near).push(text);
    };
    for (const k of inside) {
      for (const j of this.sources[k]) line(j, k);
      for (const j of this.readers[k]) if (!shown.has(j)) line(k, j);
    }
    return [["edge far", far], ["edge", near], ["edge own", own]].filter((e) => e[1].length)
      .map(([name, list]) => svg("path", { class: name, d: list.join("") }));
  }

  // Boxes without texts: one path per colour.
  batches(indices, matches, width = NODE.width, height = NODE.height) {
    const paths = new Map();
    for (const k of indices) {
      const node = this.nodes[this.keep[k]];
      const key = `${this.faint(k, matches) ? "faint" : ""}|${node.c ? node.c[0] : node.k}`;
      const box = `M${this.at.x[k]} ${this.at.y[k]}h${width}v${height}h${-width}z`;
      paths.set(key, (paths.get(key) || "") + box);
    }
    return [...paths].map(([key, d]) => {
      const [faint, what] = key.split("|");
      const cluster = /^\d+$/.test(what);
      return svg("path", { class: `box ${faint} ${cluster ? "fused" : what}`, style: cluster ? clusterFill(Number(what)) : null, d });
    });
  }

  faint(k, matches) {
    return matches !== null && !matches.has(this.keep[k]);
  }

  drawNode(k) {
    const node = this.nodes[this.keep[k]];
    const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
    const op = node.op === undefined ? null : this.ops[node.op];
    const label = op ? `${op.template}` : node.n;
    const small = op ? `${op.nodes.length} nodes, ${node.t}` : node.n.startsWith(node.t) ? node.o[0] || "" : `${node.t} ${node.o[0] || ""}`;
    const state = node.c ? "fused" : `${node.k}${node.r ? " refused" : ""}${node.s ? " gone" : ""}`;
    const badge = node.c ? `#${node.c[0] + 1}${node.c.length > 1 ? "+" : ""}` : "";
    return svg("g", { class: `node ${state}${this.faint(k, this.matches) ? " faint" : ""}`, transform: `translate(${this.at.x[k]} ${this.at.y[k]})` },
      svg("title", {}, `${node.n} (${node.t}) ${node.o.join(", ")}`),
      svg("rect", { width: NODE.width, height: NODE.height, rx: 4, style: node.c ? clusterFill(node.c[0]) : null }),
      svg("text", { x: 7, y: 14 }, cut(label, badge ? 18 : 22)),
      svg("text", { x: 7, y: 27, class: "small" }, cut(small, 26)),
      badge ? svg("text", { x: NODE.width - 6, y: 14, class: "badge" }, badge) : null);
  }

  outlines() {
    const found = [];
    const outline = (index, name) => {
      const k = this.place.get(index);
      if (k === undefined) return;
      found.push(svg("rect", { class: name, x: this.at.x[k] - 3, y: this.at.y[k] - 3, width: NODE.width + 6, height: NODE.height + 6, rx: 6 }));
    };
    for (const i of this.marked) outline(i, "marked");
    outline(this.selected, "selected");
    return found;
  }

  hit(px, py) {
    const x = this.view.x + px / this.view.scale, y = this.view.y + py / this.view.scale;
    const slack = 6 / this.view.scale;
    const row = this.at.rows[Math.floor(y / (NODE.height + NODE.gapY))] || [];
    const found = row.find((k) => x >= this.at.x[k] - slack && x <= this.at.x[k] + NODE.width + slack);
    return found === undefined ? -1 : this.keep[found];
  }

  listen() {
    const at = (e) => { const r = this.stage.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    let moved = 0;
    this.stage.addEventListener("pointerdown", (e) => {
      this.stage.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, at(e));
      moved = 0;
    });
    this.stage.addEventListener("pointermove", (e) => {
      const last = this.pointers.get(e.pointerId);
      if (!last) return;
      const now = at(e);
      const other = [...this.pointers].find(([id]) => id !== e.pointerId);
      moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
      this.pointers.set(e.pointerId, now);
      if (other) {
        const far = (p) => Math.max(Math.hypot(p[0] - other[1][0], p[1] - other[1][1]), 1);
        this.zoom(far(now) / far(last), other[1][0], other[1][1]);
      } else {
        this.view = { ...this.view, x: this.view.x - (now[0] - last[0]) / this.view.scale, y: this.view.y - (now[1] - last[1]) / this.view.scale };
        this.redraw();
      }
    });
    const end = (e) => {
      if (this.pointers.delete(e.pointerId) && e.type === "pointerup" && moved < 6) {
        const found = this.hit(...at(e));
        if (found >= 0) this.pick(found);
      }
    };
    this.stage.addEventListener("pointerup", end);
    this.stage.addEventListener("pointercancel", end);
    this.stage.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey && document.activeElement !== this.stage) return; // the page scrolls
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY / 400), ...at(e));
    }, { passive: false });
    this.stage.addEventListener("keydown", (e) => this.key(e));
    const jump = (e) => {
      const r = this.map.getBoundingClientRect(), { w, h } = this.size();
      this.view = { ...this.view, x: ((e.clientX - r.left) / r.width) * this.at.width - w / this.view.scale / 2,
        y: ((e.clientY - r.top) / r.height) * this.at.height - h / this.view.scale / 2 };
      this.redraw();
    };
    this.map.addEventListener("pointerdown", (e) => { this.map.setPointerCapture(e.pointerId); jump(e); });
    this.map.addEventListener("pointermove", (e) => { if (this.map.hasPointerCapture(e.pointerId)) jump(e); });
  }

  key(e) {
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const arrow = arrows[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (arrow && e.shiftKey) {
      this.view = { ...this.view, x: this.view.x + (arrow[0] * 80) / this.view.scale, y: this.view.y + (arrow[1] * 80) / this.view.scale };
      this.redraw();
    } else if (arrow) this.step(arrow);
    else if (e.key === "+" || e.key === "=") this.zoom(1.4);
    else if (e.key === "-") this.zoom(0.7);
    else if (e.key === "0") this.showAll();
    else return;
    e.preventDefault();
  }

  step([dx, dy]) {
    const k = this.place.get(this.selected);
    let next;
    if (k === undefined) next = (this.at.rows.find((row) => row.length) || [])[0];
    else if (dy) {
      const near = (dy < 0 ? this.sources : this.readers)[k];
      next = near.slice().sort((a, b) => Math.abs(this.at.rank[a] - this.at.rank[k]) - Math.abs(this.at.rank[b] - this.at.rank[k]) || a - b)[0];
    } else {
      const row = this.at.rows[this.at.rank[k]];
      next = row[row.indexOf(k) + dx];
    }
    if (next !== undefined) { this.pick(this.keep[next]); this.show(this.keep[next]); }
  }
}
