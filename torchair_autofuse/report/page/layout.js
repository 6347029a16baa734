// Layered layout of a graph: pure functions, no chance, no page. Nodes come in topological order.

const NODE = { width: 150, height: 34, gapX: 16, gapY: 34 };

// Ranks by depth. sources[i]: indices of the nodes that node i reads. What depends on nothing but such nodes (weights,
// constants and views of them) goes right above its first reader instead of to the top.
function ranks(sources) {
  const count = sources.length;
  const readers = readersOf(sources);
  const rank = new Array(count).fill(0);
  const free = new Array(count).fill(true);
  for (let i = 0; i < count; i++) {
    for (const j of sources[i]) rank[i] = Math.max(rank[i], rank[j] + 1);
    free[i] = sources[i].length <= 1 && sources[i].every((j) => free[j]);
  }
  for (let i = count - 1; i >= 0; i--) {
    if (free[i] && readers[i].length) {
      rank[i] = readers[i].reduce((least, j) => Math.min(least, rank[j]), Infinity) - 1;
    }
  }
  return rank;
}

function readersOf(sources) {
  const readers = sources.map(() => []);
  sources.forEach((list, i) => list.forEach((j) => readers[j].push(i)));
  return readers;
}

// Centres for items that want to be at `wanted` (ascending), at least `space` apart, with the least sum of squared
// distances: neighbours that would overlap are pooled (pool adjacent violators).
function spread(wanted, space) {
  const pools = [];
  wanted.forEach((x, i) => {
    let pool = { sum: x - i * space, count: 1 };
    while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].count >= pool.sum / pool.count) {
      const last = pools.pop();
      pool = { sum: last.sum + pool.sum, count: last.count + pool.count };
    }
    pools.push(pool);
  });
  const found = [];
  for (const pool of pools) {
    for (let k = 0; k < pool.count; k++) found.push(pool.sum / pool.count + found.length * space);
  }
  return found;
}

// Positions of all nodes: { x, y (of the left upper corners), rank, rows, width, height }.
function layered(sources) {
  const count = sources.length;
  const rank = ranks(sources);
  const readers = readersOf(sources);
  const rows = [];
  for (let i = 0; i < count; i++) (rows[rank[i]] = rows[rank[i]] || []).push(i);
  for (let r = 0; r < rows.length; r++) rows[r] = rows[r] || [];
  const space = NODE.width + NODE.gapX;
  const x = new Array(count).fill(0);
  for (const row of rows) row.forEach((i, k) => (x[i] = (k - (row.length - 1) / 2) * space));
  const mean = (list) => list.reduce((sum, j) => sum + x[j], 0) / list.length;
  const place = (row, neighbours) => {
    // a little towards the middle, lest a long graph drift to one side
    const wanted = row.map((i, k) => ({ i, k, at: 0.93 * (neighbours(i).length ? mean(neighbours(i)) : x[i]) }));
    wanted.sort((a, b) => a.at - b.at || a.k - b.k);
    const at = spread(wanted.map((w) => w.at), space);
    wanted.forEach((w, k) => { row[k] = w.i; x[w.i] = at[k]; });
  };
  const both = (i) => sources[i].concat(readers[i]);
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const row of rows) place(row, (i) => sources[i]);
    for (const row of rows.slice().reverse()) place(row, (i) => readers[i]);
  }
  for (const row of rows) place(row, both);
  let least = 0, most = 0;
  for (let i = 0; i < count; i++) { least = Math.min(least, x[i]); most = Math.max(most, x[i]); }
  return {
    x: x.map((v) => Math.round(v - least)),
    y: rank.map((r) => r * (NODE.height + NODE.gapY)),
    rank,
    rows,
    width: Math.round(most - least) + NODE.width,
    height: Math.max(rows.length, 1) * (NODE.height + NODE.gapY) - NODE.gapY,
  };
}

// The graph without some nodes: { keep: old indices, sources: of the kept ones, by new index }.
function without(nodes, hidden) {
  const keep = [];
  const place = new Map();
  nodes.forEach((node, i) => { if (!hidden(node)) { place.set(i, keep.length); keep.push(i); } });
  const sources = keep.map((i) => {
    const found = nodes[i].i.filter((e) => e).map((e) => e[0]).concat(nodes[i].w || []);
    return [...new Set(found)].filter((j) => place.has(j)).map((j) => place.get(j));
  });
  return { keep, sources };
}
