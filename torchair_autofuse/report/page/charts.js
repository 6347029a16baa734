// UB to scale, and the roofline.

// A bar per part of the kernel, all to the scale of the limit. `large` bars have a table of their buffers.
function ubBars(parts, limit, large) {
  const height = large ? 26 : 12;
  const bar = (part) => {
    let at = 0;
    const pieces = [];
    part.buffers.forEach((b, i) => {
      for (let copy = 0; copy < b.copies; copy++) {
        const width = (100 * b.size) / limit;
        pieces.push(svg("rect", { class: `ub ub${i % 6}${copy ? " copy" : ""}`, x: `${at}%`, width: `${width}%`, y: 0, height },
          svg("title", {}, `${b.name}: ${humanBytes(b.size)}${b.copies > 1 ? `, copy ${copy + 1} of ${b.copies}` : ""}; ${b.holds}`)));
        at += width;
      }
    });
    const used = part.buffers.reduce((sum, b) => sum + b.size * b.copies, 0);
    return svg("svg", { class: `ubbar${large ? " large" : ""}`, width: "100%", height, role: "img",
      "aria-label": `${humanBytes(used)} of ${humanBytes(limit)} of UB` },
      svg("rect", { class: "limit", x: 0, y: 0, width: "100%", height }), ...pieces);
  };
  if (!large) return [bar(parts.reduce((a, b) => (used(b) > used(a) ? b : a)))];
  return parts.map((part) => el("div", { class: "ubpart" },
    el("p", {}, `${parts.length > 1 ? `${part.name}: ` : ""}${humanBytes(used(part))} of ${humanBytes(limit)}, ${Math.round((100 * used(part)) / limit)} %`),
    bar(part),
    el("table", { class: "buffers" },
      el("thead", {}, el("tr", {}, ...["buffer", "layout", "bytes", "copies", "holds"].map((t) => el("th", { scope: "col" }, t)))),
      el("tbody", {}, ...part.buffers.map((b, i) => el("tr", {},
        el("td", {}, el("span", { class: `swatch ub${i % 6}` }), b.name), el("td", {}, b.layout),
        el("td", { class: "num" }, humanBytes(b.size)), el("td", { class: "num" }, b.copies), el("td", {}, b.holds)))))));
}

const used = (part) => part.buffers.reduce((sum, b) => sum + b.size * b.copies, 0);

// All fused ops under the roof of the chip; logarithmic axes.
function roofline(ops, pictures, chip, shown, pick) {
  const points = ops.map((op, i) => ({ i, at: position(op, pictures[i], chip) }))
    .filter((p) => p.at && p.at.rate > 0 && (!shown || shown.has(p.i)));
  if (!points.length) return null;
  const ridge = chip.vector_rate / chip.read_rate;
  const log = Math.log10;
  const xs = [ridge, ...points.map((p) => p.at.intensity)].map(log);
  const ys = [chip.vector_rate, ...points.map((p) => p.at.rate)].map(log);
  const x0 = Math.floor(Math.min(...xs) - 0.3), x1 = Math.ceil(Math.max(...xs) + 0.5);
  const y0 = Math.floor(Math.min(...ys) - 0.2), y1 = Math.ceil(Math.max(...ys) + 0.2);
  const W = 640, H = 300, left = 62, bottom = 40, top = 12, right = 14;
  const px = (v) => left + ((log(v) - x0) / (x1 - x0)) * (W - left - right);
  const py = (v) => H - bottom - ((log(v) - y0) / (y1 - y0)) * (H - top - bottom);
  const parts = [];
  const unit = (e) => (Math.abs(e) <= 3 ? String(Number((10 ** e).toPrecision(3))) : `1e${e}`);
  for (let e = x0; e <= x1; e++) {
    const x = px(10 ** e);
    parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: H - bottom }), svg("text", { class: "tick", x, y: H - bottom + 15, "text-anchor": "middle" }, unit(e)));
  }
  for (let e = y0; e <= y1; e++) {
    const y = py(10 ** e);
    parts.push(svg("line", { class: "grid", x1: left, x2: W - right, y1: y, y2: y }), svg("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end" }, unit(e - 3)));
  }
  const start = Math.max(10 ** x0, 10 ** y0 / chip.read_rate);
  parts.push(svg("path", { class: "roof", d: `M${px(start)} ${py(start * chip.read_rate)}L${px(ridge)} ${py(chip.vector_rate)}L${px(10 ** x1)} ${py(chip.vector_rate)}` }));
  parts.push(svg("text", { class: "tick", x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, "element operations per byte of the busier direction of GM"));
  parts.push(svg("text", { class: "tick", transform: `translate(13 ${(top + H - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "G operations / s"));
  for (const p of points) {
    const text = `#${p.i + 1} ${ops[p.i].op_type}: ${Math.round(100 * p.at.memory)} % of the predicted time moves bytes`;
    parts.push(svg("circle", { class: "point", tabindex: 0, role: "button", "aria-label": text, cx: px(p.at.intensity), cy: py(p.at.rate), r: 5.5, style: clusterFill(p.i),
      onclick: () => pick(p.i), onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(p.i); } } }, svg("title", {}, text)));
  }
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "roofline chart" }, ...parts);
}
