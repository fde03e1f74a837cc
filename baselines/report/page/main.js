// Start of the page: data from this file or from `marft view`, sections, contents, keys, theme.

const POLL_MS = 2000;

const inflated = (stream) => new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).json();

// Data inside the file: base64 of raw deflate, decompressed by the browser.
const embedded = {
  live: false,
  cache: new Map(),
  async read(id) {
    const element = document.getElementById(id);
    const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
    return inflated(new Blob([bytes]).stream());
  },
  report() { return this.read("report"); },
  block(set, number) {
    const id = `block-${set}-${number}`;
    if (!this.cache.has(id)) this.cache.set(id, this.read(id));
    return this.cache.get(id);
  },
};

// Data of `marft view`. A block is fetched anew when its set has grown since.
const served = {
  live: true,
  cache: new Map(),
  tag: "",
  labels: "",
  async report() {
    const answer = await fetch("report.json", { headers: { "If-None-Match": this.tag } });
    if (answer.status === 304) return null;
    if (answer.status === 404) location.replace("/"); // the folder has become a run, or holds another one
    if (!answer.ok) throw new Error(await answer.text());
    this.tag = answer.headers.get("ETag");
    this.sizes = null;
    const report = await answer.json();
    const labels = report.sets.map((set) => set.label).join();
    if (labels !== this.labels) this.cache.clear(); // a new set comes before others, whose numbers change
    this.labels = labels;
    this.sizes = report.sets.map((set) => set.total);
    return report;
  },
  block(set, number) {
    const id = `${set}-${number}`;
    const known = this.cache.get(id);
    if (known && known.size === this.sizes[set]) return known.episodes;
    const episodes = fetch(`block-${set}-${number}.json`).then((answer) => {
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      return inflated(answer.body);
    });
    this.cache.set(id, { size: this.sizes[set], episodes });
    return episodes;
  },
};

const data = document.getElementById("report") ? embedded : served;
const main = document.getElementById("main");
let explorer = null;

function draw(report) {
  const open = new Set([...main.querySelectorAll("details[id][open]")].map((details) => details.id));
  report.sets.forEach((set) => set.agents.forEach(colourOf));
  if (explorer) { explorer.report = report; explorer.pairs = explorer.own = null; explorer.texts.clear(); }
  else if (report.sets.length) explorer = new Explorer(data, report);
  const sections = [...overviewSections(report), explorer && explorer.element, settingsSection(report)].filter(Boolean);
  const top = window.scrollY;
  main.replaceChildren(...sections);
  open.forEach((id) => { const details = document.getElementById(id); if (details) details.open = true; });
  window.scrollTo(0, top);
  document.title = `${report.title} · MARFT report`;
  document.getElementById("contents").replaceChildren(...sections.map((one) => h("li", {}, h("a", { href: `#${one.id}` }, one.dataset.title))));
  if (explorer) explorer.apply();
}

// The list of `marft view` on a folder with several runs.
function drawList(places) {
  places.hidden = false;
  places.className = "places";
  main.replaceChildren(h("h1", {}, "Runs"), places);
}

async function start() {
  const places = document.getElementById("places");
  if (places) return drawList(places);
  try {
    const report = await data.report();
    agentNumbers.clear();
    draw(report);
    goToEpisode();
  } catch (error) {
    document.getElementById("notice")?.replaceChildren(`The report cannot be shown: ${error.message}`);
    throw error;
  }
  if (data.live) watch();
}

// An address that ends with #episode=SET.NUMBER opens that episode.
function goToEpisode() {
  const match = /^#episode=(\d+)\.(\d+)$/.exec(location.hash);
  if (!match || !explorer) return;
  const [set, index] = [Number(match[1]), Number(match[2])];
  if (!explorer.report.sets[set] || index >= explorer.report.sets[set].columns.task.length) return;
  Object.assign(explorer, { set, chosen: index, pairs: null, own: null });
  if (explorer.beside === set) explorer.beside = -1;
  explorer.apply().then(() => explorer.element.scrollIntoView());
}

// ------------------------------------------------------------------ live

function watch() {
  const pill = document.getElementById("live");
  pill.className = "live";
  let changed = Date.now();
  const tick = async () => {
    try {
      const report = await data.report();
      if (report) {
        changed = Date.now();
        if (report.sides[0] && !isReading()) draw(report);
        else data.tag = "";
      }
      pill.textContent = `live · changed ${duration(Math.round((Date.now() - changed) / 1000))} ago`;
    } catch {
      pill.textContent = "not connected";
    }
    setTimeout(tick, POLL_MS);
  };
  setTimeout(tick, POLL_MS);
}

// The page is not redrawn under a reader who types, or who selects text.
function isReading() {
  return ["INPUT", "SELECT"].includes(document.activeElement?.tagName) || String(getSelection()) !== "";
}

// ------------------------------------------------------------------ keys, theme

document.addEventListener("keydown", (event) => {
  if (!explorer || event.ctrlKey || event.metaKey || event.altKey) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = { "/": () => document.getElementById("search")?.focus(), j: () => explorer.step(1), k: () => explorer.step(-1) }[event.key];
  if (act) { event.preventDefault(); act(); }
});

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
themeButton.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % THEMES.length];
  document.documentElement.dataset.theme = next;
  themeButton.textContent = `Theme: ${next}`;
});

start();
