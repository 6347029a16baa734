// Small helpers to build the page. Texts are always set as text: names of nodes are data, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(2).filter((c) => c !== null && c !== undefined));
  return element;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// The colour of a fused op: hues far apart for neighbours; saturation and lightness are the theme's.
const hue = (cluster) => Math.round((cluster * 137.508 + 205) % 360);
const clusterFill = (cluster) => `fill:hsl(${hue(cluster)} var(--cluster-s) var(--cluster-l))`;
const clusterBack = (cluster) => `background:hsl(${hue(cluster)} var(--cluster-s) var(--cluster-l))`;

function chip(cluster, pick) {
  const text = `#${cluster + 1}`;
  return el("button", { type: "button", class: "chip", style: clusterBack(cluster), onclick: () => pick(cluster),
    "aria-label": `fused op ${cluster + 1}` }, text);
}

// A list that shows its first items, and more on demand.
function growing(count, make, step) {
  const list = el("ul", { class: "plain" });
  const more = el("button", { type: "button", class: "more" });
  let shown = 0;
  const grow = () => {
    const end = Math.min(count, shown + step);
    for (; shown < end; shown++) list.append(el("li", {}, make(shown)));
    more.hidden = shown >= count;
    more.textContent = `Show ${Math.min(step, count - shown)} more of ${count - shown}`;
  };
  more.addEventListener("click", grow);
  grow();
  return [list, more];
}

// A folded text that is put into the page when it is opened first.
function folded(title, text) {
  const made = el("details", { class: "fold" }, el("summary", {}, title));
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) made.append(el("pre", { tabindex: 0 }, el("code", {}, text)));
  });
  return made;
}
