// Elements, text and numbers. All content enters the page as text nodes and attributes, so markup in it stays text.

const SVG = "http://www.w3.org/2000/svg";

// h("p", { class: "note", onclick: f }, "text", node, [nodes], null)
function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// ------------------------------------------------------------------ text of agents

const LONGEST = 6000; // characters that are shown at once
// Control characters, marks that change the direction of text, and characters without width.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]/g;

// Text as nodes: hidden characters become visible marks, and the direction of a text cannot leave its element.
function shown(text) {
  const nodes = [];
  let last = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > last) nodes.push(text.slice(last, match.index));
    const code = match[0].codePointAt(0);
    const name = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    const picture = code < 0x20 ? String.fromCodePoint(0x2400 + code) : code === 0x7f ? "\u2421" : name;
    nodes.push(h("span", { class: "control", title: name }, picture));
    last = match.index + 1;
  }
  if (last < text.length) nodes.push(text.slice(last));
  return nodes;
}

// A block of text; a long one starts short and opens on demand.
function prose(text, properties = {}) {
  const block = h("div", { ...properties, class: `prose ${properties.class || ""}`, dir: "auto" });
  if (text === "") return fill(block, {}, [h("span", { class: "muted" }, "(empty)")]);
  if (text.length <= LONGEST) return fill(block, {}, shown(text));
  const more = h("button", { type: "button", class: "quiet", onclick: () => block.replaceChildren(...shown(text)) },
    `Show all ${count(text.length)} characters`);
  return fill(block, {}, [shown(text.slice(0, LONGEST / 2)), h("span", { class: "muted" }, " … "), more]);
}

function clipped(text, length = 90) {
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}

// ------------------------------------------------------------------ numbers

const known = (value) => typeof value === "number" && Number.isFinite(value);
const share = (value) => (known(value) ? value.toFixed(3) : "–");
const signed = (value) => (known(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3) : "–");
const count = (value) => (known(value) ? Math.round(value).toLocaleString("en-US") : "–");
const between = (low, high, form = share) => `[${form(low)}, ${form(high)}]`;
const probability = (p) => (!known(p) ? "–" : p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);

// A number of unknown size, with three significant digits.
function brief(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  if (size !== 0 && size < 0.001) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 120) return `${brief(seconds)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const words = (name) => name.replaceAll("_", " ");
const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
const mean = (values) => {
  const there = values.filter(known);
  return there.length ? sum(there) / there.length : null;
};

// ------------------------------------------------------------------ colours of agents

const PALETTE = 8;
const agentNumbers = new Map();

// The same agent has the same colour everywhere on the page, by the order in which agents are first named.
function colourOf(author) {
  if (author === "system" || author === "") return "by-profile";
  if (author === "environment" || author === "user") return "by-environment";
  if (author === "team") return "by-team";
  if (!agentNumbers.has(author)) agentNumbers.set(author, agentNumbers.size % PALETTE);
  return `by-${agentNumbers.get(author)}`;
}

const named = (author) => h("span", { class: `author ${colourOf(author)}` }, shown(author || "text"));
