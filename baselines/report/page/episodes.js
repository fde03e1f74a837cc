// The explorer of episodes: filters and list on the left, the chosen episode on the right.

const PAGE_SIZE = 200; // rows of the list that are made at once
const FLAGS = {
  all: ["all", () => true],
  solved: ["solved", (set, i) => set.columns.solved[i] === 1],
  unsolved: ["not solved", (set, i) => set.columns.solved[i] === 0],
  failed: ["failed", (set, i) => set.columns.failed[i] === 1],
  violated: ["violated a rule", (set, i) => set.columns.violated[i] === 1],
  shortened: ["prompt shortened", (set, i) => set.columns.shortened[i] === 1],
  invalid: ["invalid action", (set, i) => set.columns.invalid[i] === 1],
};
const CHANGES = {
  fixed: ["✗ → ✓", (before, after) => before === 0 && after === 1],
  broken: ["✓ → ✗", (before, after) => before === 1 && after === 0],
};
const ORDERS = {
  recorded: ["as played", (a, b) => a - b],
  newest: ["newest first", (a, b) => b - a],
  returns: ["lowest return", (a, b, set) => (set.columns.return[a] ?? 0) - (set.columns.return[b] ?? 0) || a - b],
  tokens: ["most tokens", (a, b, set) => set.columns.tokens[b] - set.columns.tokens[a] || a - b],
};

class Explorer {
  constructor(data, report) {
    this.data = data;
    this.report = report;
    this.set = 0;
    this.beside = -1;
    this.filters = { flag: "all", change: "", text: "", update: "", cohorts: {}, order: "recorded" };
    this.colouring = "none";
    this.chosen = null;
    this.rows = [];
    this.searching = 0; // number of the newest search; older ones stop
    this.texts = new Map(); // "set/block" -> lower-case text of each episode
    this.controls = h("div", { class: "controls" });
    this.list = h("ol", { class: "list" });
    this.status = h("p", { class: "muted", role: "status" });
    this.detail = h("div", { class: "detail", tabindex: -1, "aria-label": "The chosen episode", role: "region" });
    this.element = h("section", { id: "episodes", "aria-labelledby": "episodes-title", "data-title": "Episodes" },
      h("h2", { id: "episodes-title" }, "Episodes"),
      h("p", { class: "about" }, "One lane per agent. Open what an agent saw to read it as the agent did, coloured by author. Keys: / searches, j and k go to the next and the previous episode."),
      this.controls, h("div", { class: "explorer" }, h("div", { class: "master" }, this.status, this.list), this.detail));
    this.choosePair();
  }

  // With two sides, the evaluations that both played stand beside each other; in one run, those before and after.
  choosePair() {
    const sets = this.report.sets;
    const evaluations = sets.map((set, place) => place).filter((place) => sets[place].label !== "training");
    const second = sets.findIndex((set) => set.side === 1 && set.label !== "training");
    const first = sets.findIndex((set) => set.side === 0 && set.label !== "training");
    if (second >= 0 && first >= 0) [this.set, this.beside] = [first, second];
    else {
      const gain = this.report.sides[0].gains[0];
      if (gain && evaluations.length) [this.set, this.beside] = [gain.before, gain.after].map((label) => sets.findIndex((set) => set.label === label));
    }
    if (this.set < 0 || !sets[this.set]?.columns.task.length) this.set = Math.max(0, sets.findIndex((set) => set.columns.task.length));
  }

  get current() { return this.report.sets[this.set]; }
  get other() { return this.beside >= 0 ? this.report.sets[this.beside] : null; }

  // ---------------------------------------------------------------- scenarios of both sets

  // The same scenario of the other set: the same task, or the same seed where tasks have no ids; the nth with the nth.
  pairOf(index) {
    if (!this.other) return -1;
    const key = keyOf(this.current, index);
    this.pairs ||= placesOf(this.other);
    this.own ||= placesOf(this.current);
    const theirs = this.pairs.get(key);
    return theirs ? theirs[Math.min(theirs.length - 1, this.own.get(key).indexOf(index))] : -1;
  }

  // ---------------------------------------------------------------- controls

  drawControls() {
    const { report, filters } = this;
    const select = (label, value, options, change) => h("label", {}, label, " ",
      h("select", { onchange: (event) => { change(event.target.value); this.apply(); } },
        options.map(([key, name]) => h("option", { value: key, selected: String(key) === String(value) }, name))));
    const setName = (set) => `${report.sides.length === 2 ? SIDES[set.side] + ": " : ""}${set.label} (${count(set.columns.task.length)})`;
    const sets = report.sets.map((set, place) => [place, setName(set)]);
    const flags = Object.entries(FLAGS).map(([key, [name, test]]) => [key, name, indices(this.current).filter((i) => test(this.current, i)).length]);
    const chip = (pressed, name, number, choose) => h("button", { type: "button", class: "chip", "aria-pressed": String(pressed), onclick: () => { choose(); this.apply(); } }, name, " ", h("small", {}, count(number)));
    const change = (key) => { if (key === "set") { this.pairs = this.own = null; this.filters.cohorts = {}; } };
    this.controls.replaceChildren(
      h("div", { class: "row" },
        sets.length > 1 && select("episodes of", this.set, sets, (value) => { this.set = Number(value); this.chosen = null; change("set"); }),
        sets.length > 1 && select("beside", this.beside, [[-1, "nothing"], ...sets.filter(([place]) => place !== this.set)], (value) => { this.beside = Number(value); change("set"); }),
        select("order", filters.order, Object.entries(ORDERS).map(([key, [name]]) => [key, name]), (value) => { filters.order = value; }),
        new Set(this.current.columns.update).size > 1 && h("label", {}, "update ", h("input", { type: "number", min: 1, class: "short", value: filters.update, placeholder: "all",
          onchange: (event) => { filters.update = event.target.value; this.apply(); } })),
        Object.entries(this.current.cohorts).map(([name, values]) => select(words(name), filters.cohorts[name] ?? "", [["", "all"], ...[...new Set(values.map(String))].sort().map((value) => [value, value])], (value) => { filters.cohorts[name] = value; }))),
      h("div", { class: "row", role: "group", "aria-label": "Filter" },
        flags.filter(([key, , number]) => number || key === "all").map(([key, name, number]) => chip(filters.flag === key && !filters.change, name, number, () => { filters.flag = key; filters.change = ""; })),
        this.other && Object.entries(CHANGES).map(([key, [name, test]]) => chip(filters.change === key, name,
          indices(this.current).filter((i) => this.changed(i, test)).length, () => { filters.change = key; filters.flag = "all"; }))),
      h("div", { class: "row" }, h("label", { class: "grow" }, "text ", h("input", { type: "search", id: "search", value: filters.text, placeholder: "words of an action, a prompt, a tool call, a task id",
        oninput: (event) => { filters.text = event.target.value; clearTimeout(this.timer); this.timer = setTimeout(() => this.apply(false), 250); } }))));
  }

  changed(index, test) {
    const pair = this.pairOf(index);
    return pair >= 0 && test(this.current.columns.solved[index], this.other.columns.solved[pair]);
  }

  // ---------------------------------------------------------------- list

  async apply(controls = true) {
    if (!this.report.sets.length) return;
    if (controls) this.drawControls();
    const { filters } = this;
    const set = this.current;
    const [, flag] = FLAGS[filters.flag];
    const cohorts = Object.entries(filters.cohorts).filter(([, value]) => value);
    let found = indices(set).filter((i) => flag(set, i)
      && (!filters.update || set.columns.update[i] + 1 === Number(filters.update))
      && (!filters.change || this.changed(i, CHANGES[filters.change][1]))
      && cohorts.every(([name, value]) => String(set.cohorts[name][i]) === value));
    const search = ++this.searching;
    if (filters.text.trim()) found = await this.matching(found, filters.text.trim().toLowerCase(), search);
    if (found === null) return; // another search began
    this.rows = found.sort((a, b) => ORDERS[filters.order][1](a, b, set));
    const all = set.columns.task.length;
    const kept = all < set.total ? `; the report keeps ${count(all)} of the ${count(set.total)} recorded` : "";
    this.status.replaceChildren(`${count(this.rows.length)} of ${plural(all, "episode")}${kept}`);
    this.list.replaceChildren();
    this.extend();
    if (this.chosen === null && this.other) this.chosen = this.rows.find((index) => this.changed(index, CHANGES.fixed[1])) ?? null;
    if (this.chosen === null || !this.rows.includes(this.chosen)) this.chosen = this.rows.length ? this.rows[0] : null;
    this.open(this.chosen, false);
  }

  async matching(candidates, wanted, search) {
    const set = this.current;
    const found = [];
    let texts = null, at = -1;
    for (const index of candidates) {
      const block = Math.floor(index / set.block_size);
      if (block !== at) {
        this.status.replaceChildren(`searching ${count(index)} of ${count(set.columns.task.length)}…`);
        texts = await this.textsOf(this.set, block);
        if (search !== this.searching) return null;
        at = block;
      }
      if (texts[index % set.block_size].includes(wanted)) found.push(index);
    }
    return found;
  }

  async textsOf(set, block) {
    const key = `${set}/${block}`;
    if (!this.texts.has(key)) this.texts.set(key, (await this.data.block(set, block)).map(allTexts));
    return this.texts.get(key);
  }

  extend() {
    const start = this.list.querySelectorAll("[data-index]").length;
    this.list.querySelector(".further")?.remove();
    const part = this.rows.slice(start, start + PAGE_SIZE);
    this.list.append(...part.map((index) => this.row(index)));
    const left = this.rows.length - start - part.length;
    if (left) this.list.append(h("li", { class: "further" }, h("button", { type: "button", class: "quiet", onclick: () => this.extend() }, `Show ${count(Math.min(PAGE_SIZE, left))} of ${count(left)} more`)));
  }

  row(index) {
    const { columns } = this.current;
    const pair = this.pairOf(index);
    const about = [columns.task[index] || `seed ${columns.seed[index]}`, new Set([columns.update[0], columns.update[columns.update.length - 1]]).size > 1 && `update ${columns.update[index] + 1}`,
      `return ${brief(columns.return[index])}`, columns.tokens[index] > 0 && plural(columns.tokens[index], "token")].filter(Boolean).join(" · ");
    return h("li", { "data-index": index }, h("button", { type: "button", onclick: () => this.open(index, true) },
      mark(columns, index), pair >= 0 ? ["→ ", mark(this.other.columns, pair)] : null,
      h("span", { class: "preview" }, shown(columns.preview[index] || "(empty)")), h("small", {}, about)));
  }

  step(by) {
    const place = this.rows.indexOf(this.chosen) + by;
    if (place < 0 || place >= this.rows.length) return;
    while (!this.list.querySelector(`[data-index="${this.rows[place]}"]`)) this.extend();
    this.open(this.rows[place], true);
    this.list.querySelector(`[data-index="${this.rows[place]}"]`).scrollIntoView({ block: "nearest" });
  }

  // ---------------------------------------------------------------- one episode

  async open(index, asked) {
    this.list.querySelectorAll("[aria-current]").forEach((row) => row.removeAttribute("aria-current"));
    if (index === null) { this.drawn = ""; this.detail.replaceChildren(h("p", { class: "muted" }, "No episode fits the filters.")); return; }
    this.chosen = index;
    this.list.querySelector(`[data-index="${index}"] button`)?.setAttribute("aria-current", "true");
    const pair = this.pairOf(index);
    const drawn = [this.set, index, this.beside, pair, this.colouring].join("/");
    if (!asked && drawn === this.drawn) return; // a refresh keeps what a reader has opened
    this.drawn = drawn;
    const [own, theirs] = await Promise.all([this.episode(this.set, index), pair >= 0 ? this.episode(this.beside, pair) : null]);
    if (this.chosen !== index) return;
    const label = (set) => (this.report.sides.length === 2 ? [h("span", { class: `letter side-${set.side}` }, SIDES[set.side]), set.label] : set.label);
    this.detail.replaceChildren(...(theirs
      ? [h("div", { class: "beside" }, h("div", {}, h("h3", {}, label(this.current)), this.draw(own, true)), h("div", {}, h("h3", {}, label(this.other)), this.draw(theirs, true)))]
      : [this.draw(own, false)]));
    if (asked) {
      history.replaceState(null, "", `#episode=${this.set}.${index}`);
      if (matchMedia("(max-width: 60rem)").matches) this.detail.scrollIntoView({ block: "start" });
    }
  }

  async episode(set, index) {
    const size = this.report.sets[set].block_size;
    return (await this.data.block(set, Math.floor(index / size)))[index % size];
  }

  draw(episode, narrow) {
    const agents = [...new Set(episode.turns.map((turn) => turn.agent))];
    const cards = episode.turns.map((turn, place) => this.card(episode, turn, place));
    const show = (place) => { cards[place].focus({ preventScroll: true }); cards[place].scrollIntoView({ block: "nearest", behavior: "smooth" }); };
    const wide = !narrow && agents.length > 1 && agents.length <= 3;
    const board = h("div", { class: `board ${wide ? `wide columns-${agents.length}` : ""}` });
    const steps = new Map();
    episode.turns.forEach((turn) => { const key = `${turn.round}/${turn.layer}`; if (!steps.has(key)) steps.set(key, steps.size); });
    const rounds = [...new Set(episode.turns.map((turn) => turn.round))];
    for (const round of rounds) {
      episode.turns.forEach((turn, place) => {
        if (turn.round !== round) return;
        cards[place].classList.add(`column-${agents.indexOf(turn.agent) + 1}`);
        cards[place].style.gridRow = String(2 * round + steps.get(`${turn.round}/${turn.layer}`) + 1);
        board.append(cards[place]);
      });
      const verdict = verdictOf(episode.outcomes[round], round, rounds.length);
      if (verdict) {
        const last = episode.turns.filter((turn) => turn.round === round).map((turn) => steps.get(`${turn.round}/${turn.layer}`));
        verdict.style.gridRow = String(2 * round + Math.max(...last) + 2);
        board.append(verdict);
      }
    }
    if (wide) drawEdges(board, episode, cards);
    return h("article", { class: "episode" }, headOf(episode), this.colourControl(episode),
      agents.length ? lanes(episode, agents, show) : null, problemOf(episode), board,
      episode.failure ? h("p", { class: "warning" }, h("b", {}, "The episode failed: "), shown(episode.failure)) : null);
  }

  colourControl(episode) {
    if (!episode.turns.some((turn) => turn.sampled)) return null;
    const kinds = { none: "text", logprobs: "log-probs of tokens", advantages: "advantages" };
    return h("div", { class: "row", role: "group", "aria-label": "Colour of tokens" }, Object.entries(kinds).map(([kind, name]) =>
      h("button", { type: "button", class: "chip", "aria-pressed": String(this.colouring === kind), onclick: () => { this.colouring = kind; this.open(this.chosen, false); } }, name)),
      this.colouring === "none" ? null : legendOfTokens(this.colouring));
  }

  card(episode, turn, place) {
    const cut = turn.stopped === false && turn.tokens;
    const seen = turn.visible.map((other) => episode.turns[other]);
    const calls = (episode.outcomes[turn.round]?.events || []).filter((event) => event.agent === turn.agent);
    const advantage = turn.sampled && turn.sampled.advantages.length === 1 ? turn.sampled.advantages[0] : null;
    return h("section", { class: `turn ${colourOf(turn.agent)}`, tabindex: -1, "aria-label": `turn ${place + 1} of ${turn.agent}` },
      h("header", {}, named(turn.agent), h("small", {}, [`round ${turn.round + 1}`, turn.tokens ? plural(turn.tokens, "token") : null,
        known(turn.logprob) && turn.tokens ? `log-prob ${brief(turn.logprob / turn.tokens)} a token` : null, turn.reward ? `reward ${brief(turn.reward)}` : null].filter(Boolean).join(" · ")),
      cut ? h("span", { class: "badge" }, "cut by the token limit") : null,
      turn.fault ? h("span", { class: "badge bad", title: turn.fault }, "invalid") : null,
      known(advantage) ? h("span", { class: "badge" }, `advantage ${signed(advantage)}`) : null),
      sightOf(episode, turn, seen),
      turn.fault ? h("p", { class: "fault" }, shown(clipped(turn.fault, 400))) : null,
      this.colouring !== "none" && turn.sampled ? tokensOf(turn.sampled, this.colouring) : prose(turn.text),
      calls.map(callOf));
  }
}

const indices = (set) => Array.from(set.columns.task.keys());
const keyOf = (set, index) => set.columns.task[index] ?? `seed ${set.columns.seed[index]}`;

function placesOf(set) {
  const places = new Map();
  for (const index of indices(set)) {
    const key = keyOf(set, index);
    if (!places.has(key)) places.set(key, []);
    places.get(key).push(index);
  }
  return places;
}

function mark(columns, index) {
  const [picture, name, kind] = columns.failed[index] ? ["!", "failed", "bad"] : columns.solved[index] ? ["✓", "solved", "good"] : ["✗", "not solved", "none"];
  return h("span", { class: `mark ${kind}`, title: name, role: "img", "aria-label": name }, picture);
}

// All texts of an episode in lower case, for the search.
function allTexts(episode) {
  const found = [];
  const collect = (value) => {
    if (typeof value === "string") found.push(value);
    else if (value && typeof value === "object") Object.entries(value).forEach(([name, one]) => { if (name !== "pieces") collect(one); });
  };
  collect(episode);
  return found.join("\n").toLowerCase();
}

function headOf(episode) {
  const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);
  const solved = episode.infos.success ?? (episode.return > 0 ? 1 : 0);
  const terms = Object.entries(episode.terms).map(([name, value]) => `${words(name)} ${brief(value)}`);
  return h("header", { class: "head" },
    h("h3", {}, shown(clipped(episode.task || `seed ${episode.seed}`, 80))),
    h("p", {}, episode.failure ? badge("bad", "! failed") : solved ? badge("good", "✓ solved") : badge("none", "✗ not solved"),
      episode.infos.violation ? badge("bad", "violated a rule") : null,
      episode.turns.some((turn) => turn.shortened.length) ? badge("bad", "prompt shortened") : null,
      h("small", {}, [`return ${brief(episode.return)}`, `update ${episode.update + 1}`, `group ${episode.group}`, `seed ${episode.seed}`, episode.branch === null ? null : `branch of turn ${episode.branch + 1}`,
        episode.terminated ? "terminated" : "truncated", ...terms].filter(Boolean).join(" · "))));
}

// The problem: what the environment said last before the first action, if observations are recorded.
function problemOf(episode) {
  const [first] = episode.turns;
  const told = (first?.saw || []).filter((one) => one.by === "environment" && one.text);
  return told.length ? h("section", { class: "problem by-environment" }, h("header", {}, named("environment")), prose(told[told.length - 1].text)) : null;
}

// ------------------------------------------------------------------ what an agent saw

function messagesOf(episode, turn) {
  const before = turn.saw_after === null || turn.saw_after === undefined ? [] : messagesOf(episode, episode.turns[turn.saw_after]);
  return [...before, ...turn.saw];
}

function sightOf(episode, turn, seen) {
  const names = [...new Set(seen.map((one) => one.agent))];
  const others = names.length ? ["sees ", names.map((name, place) => [place ? ", " : "", named(name)])] : "sees no action of others";
  if (!turn.saw) return h("p", { class: "saw muted" }, others, turn.prompt_tokens ? ` · prompt of ${plural(turn.prompt_tokens, "token")}` : null);
  const messages = messagesOf(episode, turn).map((one) => ({ ...one, text: one.turn === undefined ? one.text : episode.turns[one.turn].text }));
  const total = sum(messages.map((one) => one.text.length)) || 1;
  const by = new Map();
  messages.forEach((one) => by.set(one.by, (by.get(one.by) || 0) + one.text.length));
  const box = h("details", { class: "saw" }, h("summary", {},
    splitBar([...by].map(([author, size]) => [colourOf(author), size / total, `${author}: ${Math.round(100 * size / total)} % of the characters`])),
    h("span", {}, "what it saw: ", plural(messages.length, "message"), turn.prompt_tokens ? `, ${plural(turn.prompt_tokens, "token")}` : "", names.length ? [" · ", others] : "")));
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(h("div", { class: "messages" }, messages.map((one) =>
      h("div", { class: `message ${colourOf(one.by)}` }, h("header", {}, named(one.by), one.turn === undefined && !["system", "environment", "user", ""].includes(one.by) ? h("small", {}, "in the prompt only: an example, or a shorter form of an action") : null), prose(one.text))),
      turn.shortened.map((one) => h("p", { class: "warning" }, `${plural(one.removed, "token")} of ${one.author} left out to fit the context window`))));
  });
  return box;
}

// ------------------------------------------------------------------ calls, verdicts, tokens

function callOf(event) {
  const { kind, agent, round, status, ...rest } = event;
  const { name, arguments: given, result, ...others } = rest;
  const head = kind === "call" ? `${name || "?"}(${given ? Object.entries(given).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ") : ""})` : words(String(kind || "event"));
  const details = kind === "call" ? others : rest;
  return h("div", { class: `call ${status && status !== "ok" ? "refused" : ""}` },
    h("code", {}, shown(clipped(head, 600))), status ? h("span", { class: `badge ${status === "ok" ? "good" : "bad"}` }, String(status)) : null,
    result === undefined || result === null || result === "" ? null : prose(typeof result === "string" ? result : JSON.stringify(result), { class: "result" }),
    Object.keys(details).length ? h("small", {}, shown(clipped(JSON.stringify(details), 400))) : null);
}

function verdictOf(outcome, round, rounds) {
  if (!outcome) return null;
  const sign = outcome.success ? "✓ " : round === rounds - 1 ? "✗ " : ""; // a round before the last one may go on
  const detail = Object.entries(outcome.detail || {}).filter(([, value]) => value !== "" && value !== null);
  const told = [...Object.entries(outcome.private || {}).filter(([, text]) => text).map(([agent, text]) => [`told to ${agent} alone`, text]), ["next observation", outcome.observation]].filter(([, text]) => text);
  return h("div", { class: `verdict ${outcome.success ? "good" : ""}` },
    h("p", {}, h("b", {}, sign, rounds > 1 ? `verdict of round ${round + 1}` : "verdict"), ` reward ${brief(outcome.reward)}`, outcome.invalid ? " · no readable answer" : "", outcome.verdict ? [" · ", shown(clipped(outcome.verdict, 600))] : null),
    detail.length ? h("p", { class: "muted" }, detail.map(([name, value], place) => [place ? " · " : "", `${words(name)}: `, shown(clipped(String(value), 300))])) : null,
    told.map(([name, text]) => h("details", {}, h("summary", {}, name), prose(text))));
}

const LEVELS = [[-0.05, 0], [-0.5, 1], [-1.5, 2], [-3, 3], [-Infinity, 4]];

function tokensOf(sampled, colouring) {
  const { pieces, logprobs, advantages } = sampled;
  const largest = Math.max(1e-9, ...advantages.map(Math.abs));
  const advantage = (place) => (advantages.length === 1 ? advantages[0] : advantages[place]);
  const level = (place) => {
    if (colouring === "logprobs") return known(logprobs[place]) ? `level-${LEVELS.find(([least]) => logprobs[place] >= least)[1]}` : "";
    const value = advantage(place);
    return !known(value) || value === 0 ? "" : `${value < 0 ? "minus" : "plus"}-${Math.min(3, Math.ceil(3 * Math.abs(value) / largest))}`;
  };
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a token, or move with the arrow keys.");
  const told = (place) => [`${JSON.stringify(pieces[place])} `, h("b", {}, `p = ${known(logprobs[place]) ? Math.exp(logprobs[place]).toPrecision(2) : "–"}`), ` · log-prob ${brief(logprobs[place])}`, known(advantage(place)) ? ` · advantage ${signed(advantage(place))}` : ""];
  const tokens = pieces.map((piece, place) => h("span", { class: `token ${level(place)}`, "data-place": place }, shown(piece)));
  let at = -1;
  const look = (place) => {
    tokens[at]?.classList.remove("at");
    at = Math.max(0, Math.min(tokens.length - 1, place));
    tokens[at].classList.add("at");
    readout.replaceChildren(...told(at));
  };
  const text = h("div", { class: "prose tokens", tabindex: 0, dir: "auto", role: "group", "aria-label": "Tokens of the action",
    onpointerover: (event) => { const token = event.target.closest("[data-place]"); if (token) look(Number(token.dataset.place)); },
    onkeydown: (event) => { const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]; if (by) { event.preventDefault(); look(at + by); } } }, tokens);
  if (colouring === "advantages" && !advantages.length) return [text, h("p", { class: "muted" }, "This action was not trained, or its advantages are not recorded.")];
  return [text, readout];
}

function legendOfTokens(colouring) {
  const entries = colouring === "logprobs" ? [["level-0", "p > 0.95"], ["level-1", "> 0.6"], ["level-2", "> 0.2"], ["level-3", "> 0.05"], ["level-4", "less"]] : [["minus-3", "lower than expected"], ["plus-3", "better than expected"]];
  return h("span", { class: "tokens" }, entries.map(([level, name]) => h("span", { class: `token ${level}` }, name)));
}

// Arrows of D between the cards of a round, drawn behind them.
function drawEdges(board, episode, cards) {
  const layer = svg("svg", { class: "edges", "aria-hidden": "true" });
  board.prepend(layer);
  const draw = () => {
    const origin = board.getBoundingClientRect();
    layer.replaceChildren(arrowHead(), ...episode.turns.flatMap((turn, place) => turn.visible.filter((other) => episode.turns[other].round === turn.round && episode.turns[other].agent !== turn.agent).map((other) => {
      const a = cards[other].getBoundingClientRect(), b = cards[place].getBoundingClientRect();
      if (Math.abs(a.left - b.left) < 4) return "";
      const right = b.left > a.left;
      const x1 = (right ? a.right : a.left) - origin.left, y1 = a.top - origin.top + Math.min(24, a.height / 2);
      const x2 = b.left - origin.left + (right ? Math.min(36, b.width / 2) : b.width - 36), y2 = b.top - origin.top - 3;
      return y2 <= y1 ? "" : svg("path", { class: `edge ${colourOf(episode.turns[other].agent)}`, d: `M${x1},${y1}C${x2},${y1} ${x2},${y1} ${x2},${y2}`, "marker-end": "url(#arrow)" });
    })));
  };
  new ResizeObserver(draw).observe(board);
}
