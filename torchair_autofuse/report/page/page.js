// What ties the page together: the graph in view, the selected node, the search.

const page = {
  data: JSON.parse(document.getElementById("data").textContent),
  pictures: {},
  showConstants: false,

  // Shows one of the graphs.
  open(number) {
    const g = (this.graph = this.data.graphs[number]);
    this.lists = { before: (g.pictures && g.pictures.before) || [], after: (g.pictures && g.pictures.after) || [] };
    this.named = { before: new Map(), after: new Map() };
    this.refusedAt = new Map();
    g.refused.forEach((r, i) => [...new Set([r.node, r.other])].forEach((name) => {
      if (name) this.refusedAt.set(name, (this.refusedAt.get(name) || []).concat(i));
    }));
    for (const which of ["before", "after"]) {
      this.lists[which].forEach((node, i) => { this.named[which].set(node.n, i); node.r = this.refusedAt.has(node.n); });
    }
    this.index = searchIndex(g, this.data.codes);
    this.fill("summary", summary(g, this.data));
    this.drawPictures();
    this.search(document.getElementById("query").value);
  },

  fill(id, parts) {
    const section = document.getElementById(id);
    section.replaceChildren(...parts.filter((p) => p));
    section.hidden = !section.children.length;
  },

  drawPictures() {
    this.pictures = {};
    const title = el("h2", { id: "pictures-title" }, "Graph");
    if (!this.lists.before.length) {
      this.fill("pictures", [title, el("p", { class: "note" }, "This report holds no graph: it was read back, or its rewrite failed.")]);
      return;
    }
    const box = el("input", { type: "checkbox", id: "constants", onchange: () => { this.showConstants = box.checked; this.arrange(); } });
    box.checked = this.showConstants;
    this.panel = el("aside", { class: "panel", "aria-label": "Selected node", "aria-live": "polite" },
      el("p", { class: "note" }, "Select a node: by a click, or by the arrow keys in a picture. Nodes of one fused op have one colour and number; those with a dashed edge were refused."));
    const make = (which, text) => {
      const picture = new Picture(text, this.lists[which], this.graph.fused, (i) => this.pick(which, i, false));
      this.pictures[which] = picture;
      return picture.root;
    };
    const roots = [make("before", `Before: ${this.graph.kernels_before} kernels`)];
    if (this.lists.after.length) roots.push(make("after", `After: ${this.graph.kernels_after} kernels`));
    this.fill("pictures", [title, el("p", { class: "options" }, el("label", {}, box, " constants and arithmetic on sizes")),
      el("div", { class: `pair of${roots.length}` }, ...roots, this.panel)]);
    this.arrange();
  },

  arrange() {
    for (const picture of Object.values(this.pictures)) picture.arrange((node) => (node.k === "const" || node.k === "host") && !node.c && !this.showConstants);
  },

  // Selects a node in one picture and shows what it became, or came from, in the other.
  pick(which, index, move) {
    const node = this.lists[which][index], other = which === "before" ? "after" : "before";
    const mine = this.pictures[which];
    mine.select(index, new Set());
    if (move) mine.show(index);
    if (this.pictures[other]) {
      const wanted = new Set();
      if (node.op !== undefined) this.graph.fused[node.op].nodes.forEach((name) => wanted.add(this.named.before.get(name)));
      else if (node.c && which === "before") this.lists.after.forEach((n, i) => { if (n.op !== undefined && node.c.includes(n.op)) wanted.add(i); });
      else if (this.named[other].has(node.n)) wanted.add(this.named[other].get(node.n));
      wanted.delete(undefined);
      this.pictures[other].select(-1, wanted);
      if (wanted.size) this.pictures[other].show(Math.min(...wanted));
    }
    this.panel.replaceChildren(...nodePanel(this, which, index));
  },

  refusalsOf(name) {
    return this.refusedAt.get(name) || [];
  },

  // A button that shows a node in the picture before fusion, or the bare name where there is none.
  nodeButton(name) {
    const index = this.named.before.get(name);
    if (index === undefined) return el("code", {}, name);
    return el("button", { type: "button", class: "link", onclick: () => {
      this.pick("before", index, true);
      document.getElementById("pictures").scrollIntoView({ block: "start" });
    } }, name);
  },

  search(query) {
    const found = matching(this.index, query);
    this.fill("ops", opsTable(this, found && found.ops));
    this.fill("roofline", rooflineSection(this, found && found.ops));
    this.fill("refusals", refusalsSection(this, found && found.refused));
    for (const [which, picture] of Object.entries(this.pictures)) picture.setMatches(found && found[which]);
    if (found && this.pictures.before && found.before.size) this.pictures.before.show(Math.min(...found.before));
    if (found && this.pictures.after && found.after.size) this.pictures.after.show(Math.min(...found.after));
    document.getElementById("matches").textContent = matchText(found, this.lists.before.length > 0);
  },
};

page.openOp = (i) => {
  if (!page.opRows || !page.opRows.has(i)) { document.getElementById("find").reset(); page.search(""); }
  const { row, button, toggle } = page.opRows.get(i);
  toggle(true);
  row.scrollIntoView({ block: "center" });
  button.focus();
};

(() => {
  const query = document.getElementById("query"), select = document.getElementById("graph");
  let timer = 0;
  query.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => page.search(query.value), 120); });
  document.getElementById("find").addEventListener("submit", (e) => { e.preventDefault(); page.search(query.value); });
  document.getElementById("find").addEventListener("reset", () => setTimeout(() => page.search(query.value), 0));
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { e.preventDefault(); query.focus(); }
  });
  window.addEventListener("resize", () => Object.values(page.pictures).forEach((p) => p.redraw()));
  page.data.graphs.forEach((g, i) => select.append(el("option", { value: i }, `${i + 1}: ${g.graph_name}`)));
  select.addEventListener("change", () => page.open(Number(select.value)));
  document.getElementById("pick").hidden = page.data.graphs.length < 2;
  page.fill("codes", codesSection(page.data));
  if (page.data.graphs.length) page.open(0);
  else page.fill("summary", [el("p", {}, "There is no report: no graph was compiled with fusion on.")]);
})();
