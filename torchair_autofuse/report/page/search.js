// What a query matches: pure functions. Every word of the query has to occur, in any case and order.

function words(query) {
  return query.toLowerCase().split(/\s+/).filter((word) => word);
}

// The texts that searching looks in, made once per graph: of each fused op, refusal and node.
function searchIndex(graph, codes) {
  const byNode = new Map();
  const add = (name, text) => byNode.set(name, `${byNode.get(name) || ""} ${text}`);
  const title = (code) => `${code} ${codes[code] || ""}`;
  graph.fused.forEach((op) => {
    op.nodes.forEach((name, k) => add(name, [op.node_types[k], op.op_type, op.template, ...op.patterns].join(" ")));
  });
  graph.refused.forEach((r) => {
    add(r.node, title(r.code));
    if (r.other) add(r.other, title(r.code));
  });
  const types = new Map();
  const lower = (...parts) => parts.join(" ").toLowerCase();
  const pictures = graph.pictures || {};
  const nodes = (list) => (list || []).map((node) => {
    types.set(node.n, node.t);
    const inside = node.op === undefined ? [] : [graph.fused[node.op].template, ...graph.fused[node.op].patterns, ...graph.fused[node.op].nodes];
    return lower(node.n, node.t, byNode.get(node.n) || "", ...inside);
  });
  const before = nodes(pictures.before);
  const after = nodes(pictures.after);
  return {
    before,
    after,
    ops: graph.fused.map((op) => lower(op.op_type, op.template, ...op.patterns, ...op.nodes, ...op.node_types)),
    refused: graph.refused.map((r) =>
      lower(r.node, types.get(r.node) || "", r.other, types.get(r.other) || "", title(r.code), r.reason)),
  };
}

// Per kind the indices that match, or null for a query without a word: everything is shown then.
function matching(index, query) {
  const wanted = words(query);
  if (!wanted.length) return null;
  const found = {};
  for (const kind of Object.keys(index)) {
    found[kind] = new Set();
    index[kind].forEach((text, i) => { if (wanted.every((word) => text.includes(word))) found[kind].add(i); });
  }
  return found;
}

function matchText(found, names) {
  if (!found) return "";
  const count = (set, noun, nouns) => `${set.size} ${set.size === 1 ? noun : nouns}`;
  const parts = [count(found.ops, "fused op", "fused ops"), count(found.refused, "refusal", "refusals")];
  if (names) parts.unshift(count(found.before, "node", "nodes"));
  return `${parts.join(", ")} found`;
}

// Refusals by code, in the order of the codes: [code, indices].
function byCode(refused, shown) {
  const groups = new Map();
  refused.forEach((r, i) => {
    if (shown && !shown.has(i)) return;
    if (!groups.has(r.code)) groups.set(r.code, []);
    groups.get(r.code).push(i);
  });
  return [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

function humanBytes(count) {
  if (count === null || count === undefined) return "unknown";
  let size = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return unit === "B" ? `${count} B` : `${size.toFixed(2)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(2)} TiB`;
}

function humanUs(us) {
  if (us === null || us === undefined) return "unknown";
  return us < 1000 ? `${us.toFixed(1)} us` : `${(us / 1000).toFixed(2)} ms`;
}

function change(before, after) {
  if (before === null || after === null || !before) return "";
  const percent = (100 * (after - before)) / before;
  return `${percent >= 0 ? "+" : "\u2212"}${Math.abs(percent).toFixed(1)} %`;
}

// Where a fused op stands under the chip's roof, all of it by the cost table; null where a size is unknown.
function position(op, picture, chip) {
  if (!picture || op.predicted_us === null || picture.read_bytes === null || picture.vector_elements === null) return null;
  const bytes = Math.max(picture.read_bytes, (picture.written_bytes * chip.read_rate) / chip.write_rate);
  const memory = bytes / chip.read_rate;
  const vector = picture.vector_elements / chip.vector_rate;
  return {
    intensity: picture.vector_elements / Math.max(bytes, 1),
    rate: picture.vector_elements / op.predicted_us,
    memory: memory / op.predicted_us,
    vector: vector / op.predicted_us,
    bytes,
  };
}
