// The sections of the page below the head, each built anew for a graph or a search.

function tile(title, value, note) {
  return el("div", { class: "tile" }, el("dt", {}, title), el("dd", {}, value, note ? el("span", { class: "note" }, note) : null));
}

function summary(g, data) {
  const whole = (text) => String(text).replaceAll(" ", "\u00a0"); // a number stays with its unit
  const arrow = (a, b) => `${whole(a)}\u00a0\u2192 ${whole(b)}`;
  const notes = [];
  if (g.run_unfused) notes.push(el("p", { class: "note" }, "Planned only: the graph runs as it was."));
  if (g.options) notes.push(el("p", { class: "note" }, `Options: ${g.options}`));
  if (g.rolled_back) notes.push(el("p", { class: "warning" }, `Rolled back, the graph runs as it was: ${g.rolled_back.code}: ${g.rolled_back.text}`));
  for (const w of g.warnings) notes.push(el("p", { class: "warning" }, codeLink(w.code, data), ` ${w.text}`));
  const seconds = Object.entries(g.seconds).map(([stage, s]) => `${stage} ${s.toFixed(3)}`).join(", ");
  return [
    el("dl", { class: "tiles" },
      tile("Kernels", arrow(g.kernels_before, g.kernels_after), change(g.kernels_before, g.kernels_after)),
      tile("GM bytes", arrow(humanBytes(g.gm_bytes_before), humanBytes(g.gm_bytes_after)), change(g.gm_bytes_before, g.gm_bytes_after)),
      tile("GM floor", humanBytes(g.gm_bytes_floor), "inputs and outputs of the kernels once"),
      tile("Time", arrow(humanUs(g.predicted_us_before), humanUs(g.predicted_us_after)), `${change(g.predicted_us_before, g.predicted_us_after)} ${data.predicted}`),
      tile("Fused ops", String(g.fused.length), `${g.fused.reduce((n, op) => n + op.nodes.length, 0)} nodes`),
      tile("Chip", g.soc || "unknown", "")),
    ...notes,
    seconds ? el("p", { class: "note" }, `Seconds of the plugin: ${seconds}.`) : null,
  ];
}

function codeLink(code, data) {
  return el("a", { href: `#code-${code}`, title: data.codes[code] }, code);
}

// What a node is: for the panel beside the pictures.
function nodePanel(page, which, index) {
  const nodes = page.lists[which], node = nodes[index], g = page.graph;
  const link = (i) => el("button", { type: "button", class: "link", onclick: () => page.pick(which, i, true) }, nodes[i].n);
  const op = node.op === undefined ? null : g.fused[node.op];
  const told = op ? [`fused op of ${op.nodes.length} nodes, template ${op.template}`, ...op.patterns] : [KINDS[node.k]];
  if (node.s === "gone") told.push("removed before planning: nothing reads it, or it changes nothing");
  if (node.s === "inlined") told.push("computed inside the fused ops that need it");
  const parts = [el("h3", {}, node.n), el("p", {}, op ? null : el("b", {}, node.t), op ? told.join("; ") : `: ${told.join("; ")}`)];
  if (node.c) {
    parts.push(el("p", {}, op ? "Details: " : "In fused op ", node.c.map((c) => [chip(c, page.openOp), " ", el("code", {}, g.fused[c].op_type), " "])));
  }
  const refused = page.refusalsOf(node.n);
  if (refused.length) {
    parts.push(el("h4", {}, node.c ? "Not fused with more" : "Why it was not fused"), ...growing(refused.length, (k) => {
      const r = g.refused[refused[k]];
      const other = r.node === node.n ? r.other : r.node;
      return [codeLink(r.code, page.data), ` ${page.data.codes[r.code]}: ${r.reason}`, other ? [" (with ", page.nodeButton(other), ")"] : null];
    }, 8));
  } else if (!node.c && node.k === "kernel" && !node.s) {
    parts.push(el("p", {}, "No refusal names it."));
  }
  const tensors = (title, list) => {
    if (list.length) parts.push(el("h4", {}, title), ...growing(list.length, (k) => list[k], 12));
  };
  tensors("Inputs", node.i.map((e) => (e ? [el("code", {}, nodes[e[0]].o[e[1]] || "?"), " of ", link(e[0])] : "absent")));
  tensors("Outputs", node.o.map((text, k) => {
    const readers = nodes.flatMap((n, i) => (n.i.some((e) => e && e[0] === index && e[1] === k) ? [i] : []));
    return [el("code", {}, text), readers.length ? " read by " : "", readers.slice(0, 6).flatMap((i, n) => [n ? ", " : "", link(i)]),
      readers.length > 6 ? ` and ${readers.length - 6} more` : ""];
  }));
  tensors("After", (node.w || []).map((i) => link(i)));
  if (op) parts.push(el("h4", {}, "Nodes"), ...growing(op.nodes.length, (k) => [page.nodeButton(op.nodes[k]), ` ${op.node_types[k]}`], 20));
  tensors("Attributes", Object.entries(node.a || {}).map(([name, text]) => [el("code", {}, name), ` ${text}`]));
  if (node.g) parts.push(el("h4", {}, "From"), el("p", {}, node.g));
  return parts;
}

const COLUMNS = ["", "Op", "Nodes", "UB", "GM bytes", "Predicted time", "Of it moving bytes"];

function opsTable(page, shown) {
  const g = page.graph, pictures = g.pictures;
  const title = el("h2", { id: "ops-title" }, "Fused ops");
  const rows = g.fused.map((op, i) => i).filter((i) => !shown || shown.has(i));
  if (!g.fused.length) return [title, el("p", {}, "Nothing was fused.")];
  if (!rows.length) return [title, el("p", {}, "No fused op matches the search.")];
  const body = el("tbody", {});
  page.opRows = new Map();
  for (const i of rows) {
    const op = g.fused[i], picture = pictures ? pictures.ops[i] : null;
    const at = pictures ? position(op, picture, pictures.chip) : null;
    const cell = (k, ...content) => el("td", { "data-label": COLUMNS[k] }, ...content);
    const detail = el("tr", { class: "detail", hidden: true }, el("td", { colspan: COLUMNS.length }));
    const button = el("button", { type: "button", class: "chip", style: clusterBack(i), "aria-expanded": "false", "aria-label": `details of fused op ${i + 1}` }, `#${i + 1}`);
    const toggle = (open) => {
      if (open && !detail.firstChild.children.length) detail.firstChild.append(...opDetails(page, i));
      detail.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => toggle(detail.hidden));
    const limit = pictures ? pictures.chip.ub_limit : null;
    const row = el("tr", {},
      cell(0, button),
      cell(1, el("code", {}, op.op_type), el("br"), el("span", { class: "note" }, op.template, op.limit ? [el("br"), `limit ${op.limit}`] : null)),
      cell(2, el("span", { class: "count" }, op.nodes.length), el("span", { class: "note" }, op.patterns.length ? el("b", {}, op.patterns.join(", ")) : null, op.patterns.length ? el("br") : null, typesOf(op))),
      cell(3, picture ? ubBars(picture.ub_parts, limit, false) : null, el("span", { class: "note" }, `${humanBytes(op.ub_bytes)}${limit ? ` of ${humanBytes(limit)}` : ""}`)),
      cell(4, humanBytes(op.gm_bytes), el("br"), el("span", { class: "note" }, alone(op.gm_bytes_alone, humanBytes), `floor ${humanBytes(op.gm_bytes_floor)}`)),
      cell(5, humanUs(op.predicted_us), el("br"), el("span", { class: "note" }, alone(op.predicted_us_alone, humanUs))),
      cell(6, at ? el("meter", { min: 0, max: 1, value: Math.min(at.memory, 1), "aria-label": "share" }) : null, at ? ` ${Math.round(100 * at.memory)} %` : "unknown"));
    body.append(row, detail);
    page.opRows.set(i, { row, button, toggle });
  }
  const head = el("thead", {}, el("tr", {}, ...COLUMNS.map((text) => el("th", { scope: "col" }, text || el("span", { class: "unseen" }, "Details")))));
  return [title, el("p", { class: "note" }, `Times are ${page.data.predicted}. GM bytes are counted from shapes and passes; the floor is inputs and outputs once. Press a number for nodes, UB, source and IR.`),
    el("div", { class: "wide" }, el("table", { class: "ops" }, head, body))];
}

function alone(value, human) {
  return value === null ? null : [`nodes alone ${human(value)}`, el("br")];
}

// Why the op exists: kernels, bytes and time before and after, where its time goes, and the rules that made it.
function opReasons(op, data) {
  const before = (value, human) => (value === null ? "unknown" : human(value));
  const facts = [
    `kernels ${before(op.kernels_alone, String)} \u2192 1`,
    `GM bytes ${before(op.gm_bytes_alone, humanBytes)} \u2192 ${humanBytes(op.gm_bytes)}`,
    `time ${before(op.predicted_us_alone, humanUs)} \u2192 ${humanUs(op.predicted_us)} (${data.predicted})`,
  ];
  const pipes = Object.entries(op.pipes_us).map(([name, us]) => `${name} ${humanUs(us)}`).join(", ");
  return [el("h3", {}, "Why"), el("p", {}, `${facts.join("; ")}.`),
    op.limit ? el("p", {}, `Limit ${op.limit}, template ${op.template}: ${pipes}; the pipes overlap.`) : null,
    ...op.why.map((why) => el("p", {}, el("b", {}, data.rules[why.rule]), `: ${why.text}`))];
}

function typesOf(op) {
  const counts = new Map();
  for (const type of op.node_types) counts.set(type, (counts.get(type) || 0) + 1);
  const found = [...counts].map(([type, n]) => (n > 1 ? `${type} \u00d7${n}` : type));
  return found.length > 6 ? `${found.slice(0, 6).join(", ")}, \u2026` : found.join(", ");
}

function opDetails(page, i) {
  const g = page.graph, op = g.fused[i], pictures = g.pictures;
  const parts = [el("h3", {}, "Nodes"), ...growing(op.nodes.length, (k) => [page.nodeButton(op.nodes[k]), ` ${op.node_types[k]}`], 40)];
  if (op.inputs.length || op.outputs.length) parts.push(el("p", {}, el("code", {}, `${op.inputs.join(", ")} \u2192 ${op.outputs.join(", ")}`)));
  parts.push(...opReasons(op, page.data));
  if (!pictures) return parts;
  const picture = pictures.ops[i], sources = pictures.sources[op.op_type];
  const at = position(op, picture, pictures.chip);
  const sizes = Object.entries(picture.sizes).map(([name, value]) => `${name} = ${value}`).join(", ");
  parts.push(el("h3", {}, `UB of one core${sizes ? ` at ${sizes}` : ""}`), ...ubBars(picture.ub_parts, pictures.chip.ub_limit, true));
  if (at) {
    parts.push(el("h3", {}, "Work"), el("p", {}, `${humanBytes(picture.read_bytes)} read, ${humanBytes(picture.written_bytes)} written, ` +
      `${picture.vector_elements.toLocaleString("en")} element operations on ${picture.cores} of ${pictures.chip.cores} cores. Of the predicted ${humanUs(op.predicted_us)}, ` +
      `moving bytes takes ${Math.round(100 * at.memory)} %; at the rate of simple ones the operations would take ${Math.round(100 * at.vector)} %. Launch and start are part of the rest.`));
  }
  parts.push(folded("Kernel source", sources.kernel), folded("Loop IR", sources.ir), folded("Schedule and tiling", sources.schedule));
  return parts;
}

function rooflineSection(page, shown) {
  const g = page.graph;
  const chart = g.pictures ? roofline(g.fused, g.pictures.ops, g.pictures.chip, shown, page.openOp) : null;
  if (!chart) return [];
  const chip = g.pictures.chip;
  return [el("h2", { id: "roofline-title" }, "Roofline"), chart,
    el("p", { class: "note" }, `Every point is a fused op at its predicted time (${page.data.predicted}), by the cost table of ${chip.soc}: ` +
      `${(chip.read_rate / 1000).toFixed(0)} GB/s read, ${(chip.write_rate / 1000).toFixed(0)} GB/s written, ${(chip.vector_rate / 1000).toFixed(0)} G simple operations per second. ` +
      "Operations are those of the loop IR; points far below the roof spend their time on launch and start.")];
}

function refusalsSection(page, shown) {
  const g = page.graph;
  const groups = byCode(g.refused, shown);
  const parts = [el("h2", { id: "refusals-title" }, "Not fused")];
  if (!groups.length) return [...parts, el("p", {}, g.refused.length ? "No refusal matches the search." : "Nothing was refused.")];
  for (const [code, indices] of groups) {
    const group = el("details", { class: "group", open: shown !== null && indices.length <= 50 }, el("summary", {}, el("b", {}, code), ` ${page.data.codes[code]} `, el("span", { class: "count" }, indices.length)));
    const open = () => {
      if (!group.open || group.children.length > 1) return;
      group.append(el("p", { class: "note" }, el("a", { href: `#code-${code}` }, `What ${code} means`)), ...growing(indices.length, (k) => {
        const r = g.refused[indices[k]];
        return [page.nodeButton(r.node), r.other ? [" with ", page.nodeButton(r.other)] : null, `: ${r.reason}`];
      }, 100));
    };
    group.addEventListener("toggle", open);
    open();
    parts.push(group);
  }
  return parts;
}

function codesSection(data) {
  const codes = Object.entries(data.codes);
  if (!codes.length) return [];
  return [el("h2", { id: "codes-title" }, "Codes"), el("p", { class: "note" }, "docs/codes/ of the project has a page for each: meaning, example, what to do."),
    el("dl", { class: "codes" }, ...codes.flatMap(([code, title]) => [
      el("dt", { id: `code-${code}`, tabindex: -1 }, code), el("dd", {}, title, el("span", { class: "note" }, ` docs/codes/${code}.md`))]))];
}
