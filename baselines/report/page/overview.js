// Sections of the report but the episodes. Each is a function of the data; one without data returns null.

const SIDES = ["A", "B"];
const SMOOTHING = 5; // updates of the running mean
const FIRST_MEASURES = ["return", "entropy", "kl", "tokens_mean", "grad_norm", "advantage_std", "explained_variance", "cap_hit_share"];
const NO_AGENTS = ["team", "critic", "seconds", "validation", "validation_before"];

function overviewSections(report) {
  return [
    headSection(report),
    comparisonSection(report),
    learningSection(report),
    heldOutSection(report),
    cohortSection(report),
    changesSection(report),
    benchSection(report),
    teamSection(report),
    attributionSection(report),
    costSection(report),
    alarmSection(report),
  ].filter(Boolean);
}

function section(id, title, about, ...content) {
  return h("section", { id, "aria-labelledby": `${id}-title`, "data-title": title },
    h("h2", { id: `${id}-title` }, title), about && h("p", { class: "about" }, about), content);
}

// Contents of each side under its letter, where there are two.
function bySide(report, draw) {
  const parts = report.sides.map((side, place) => {
    const content = draw(side, place);
    if (!content || (Array.isArray(content) && !content.length)) return null;
    return report.sides.length === 1 ? content : h("div", { class: "side" }, h("h3", {}, h("span", { class: `letter side-${place}` }, SIDES[place]), side.label), content);
  }).filter(Boolean);
  return parts.length ? parts : null;
}

// ------------------------------------------------------------------ head

function headSection(report) {
  const kinds = { run: "Training run", evaluation: "Evaluation", bench: "Benchmark", attribution: "Attribution" };
  const [first] = report.sides;
  return h("section", { id: "top", "aria-labelledby": "top-title", "data-title": "Overview" },
    h("p", { class: "kind" }, report.sides.length === 2 ? "Comparison" : kinds[first.kind]),
    h("h1", { id: "top-title" }, report.sides.map((side, place) => [place ? h("span", { class: "muted" }, " and ") : "",
      report.sides.length === 2 ? h("span", { class: `letter side-${place}` }, SIDES[place]) : "", side.label])),
    h("p", { class: "lead" }, leadOf(report)),
    h("dl", { class: "facts" }, first.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, shown(clipped(value, 120)))))),
    bySide(report, tiles));
}

// What the numbers say, in one sentence.
function leadOf(report) {
  const [side] = report.sides;
  const rows = report.comparison && report.comparison.rows;
  if (rows) {
    const { a, b, difference: [middle, low, high], p } = rows[0];
    const said = low > 0 ? "B solves more scenarios than A" : high < 0 ? "B solves fewer scenarios than A" : "No difference between A and B is certain";
    return `${said}: ${share(a)} and ${share(b)}, difference ${signed(middle)} ${between(low, high, signed)}, ${probability(p)}.`;
  }
  if (side.gains.length) {
    const [gain] = side.gains;
    const [middle, low, high] = gain.difference;
    const said = low > 0 ? "Training raised held-out success" : high < 0 ? "Training lowered held-out success" : "Training changed held-out success by less than can be told";
    return `${said}: from ${share(gain.a)} to ${share(gain.b)}, paired gain ${signed(middle)} ${between(low, high, signed)} (${gain.before} and ${gain.after}).`;
  }
  if (side.validations.length > 1) {
    const [before, after] = [side.validations[0], side.validations[side.validations.length - 1]];
    return `Success on held-out tasks: ${share(before[1])} ${between(before[2], before[3])} after ${plural(before[0], "update")}, ${share(after[1])} ${between(after[2], after[3])} after ${plural(after[0], "update")}.`;
  }
  const success = side.curves["team/success"] || [];
  if (success.length) return `Success in training: ${share(mean(success.slice(0, 5)))} in the first updates, ${share(mean(success.slice(-5)))} in the latest.`;
  if (side.kind === "evaluation") {
    const [one] = side.evaluations;
    return `The team solved ${share(one.mean)} of ${plural(one.scenarios, "scenario")}, 95 % interval ${one.interval ? between(...one.interval) : "–"}.`;
  }
  if (side.tables.length) return `${plural(side.tables.reduce((total, table) => total + table.rows.length, 0), "arm")} on ${plural(side.tables.length, "task")}, each beside one agent with as many tokens.`;
  if (side.attributions.length) return "How much of the team's success each agent brings, and how much each message matters.";
  if (side.evaluations.length) return `No update is done yet: ${share(side.evaluations[0].mean)} of ${plural(side.evaluations[0].scenarios, "scenario")} solved before.`;
  return "No numbers were recorded yet.";
}

function tiles(side) {
  const updates = (side.curves["team/success"] || []).length;
  const evaluation = side.kind === "evaluation" ? side.evaluations[0] : null;
  const ledger = evaluation ? evaluation.ledger : side.ledger;
  const found = [
    updates && ["updates", count(updates)],
    updates && ["latest training success", share(side.curves["team/success"][updates - 1])],
    side.validations.length && ["latest validation", share(side.validations[side.validations.length - 1][1])],
    evaluation && ["success", share(evaluation.mean)],
    evaluation && ["scenarios", count(evaluation.scenarios)],
    ledger && ["tokens generated", count(ledger.team.output_tokens)],
    ledger && ["time", duration(sum(["rollout", "update"].map((part) => ledger.seconds[part])) || ledger.seconds.generation)],
    updates && ["alarms", count(side.alarms.length)],
    evaluation && ["failed episodes", count(evaluation.numbers.failures)],
    side.tables.length && ["tasks", count(side.tables.length)],
    side.tables.length && ["failed cells", count(sum(side.tables.map((table) => table.failed.length)))],
  ].filter(Boolean);
  return found.length ? h("dl", { class: "tiles" }, found.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))) : null;
}

// ------------------------------------------------------------------ comparison

function comparisonSection(report) {
  const found = report.comparison;
  if (!found) return null;
  if (found.error) return section("comparison", "A and B", null, h("p", { class: "warning" }, "No paired comparison: ", shown(found.error)));
  const name = (row) => (row.cohort ? `${words(row.cohort[0])} ${row.cohort[1]}` : "all scenarios");
  const both = found.rows.map((row) => ({
    label: [name(row), h("small", {}, `${count(row.scenarios)}`)],
    dots: [{ interval: [row.a, null, null], class: "side-0", name: "A" }, { interval: [row.b, null, null], class: "side-1", name: "B" }],
    text: `${share(row.a)} → ${share(row.b)}`,
  }));
  const differences = found.rows.map((row) => ({
    label: [name(row), h("small", {}, `${count(row.scenarios)}`)],
    dots: [{ interval: row.difference, class: row.difference[1] > 0 ? "better" : row.difference[2] < 0 ? "worse" : "by-team" }],
    text: [`${signed(row.difference[0])} ${between(row.difference[1], row.difference[2], signed)}`, h("small", {}, probability(row.p))],
  }));
  return section("comparison", "A and B", "Paired over the scenarios that both played. p-values of cohorts are adjusted together (Holm).",
    found.differing.length ? h("p", { class: "warning" }, `Settings that differ: ${found.differing.map(words).join(", ")}.`) : null,
    h("div", { class: "pair" },
      intervalTable({ caption: "Success", heads: ["scenarios", "A → B"], domain: [0, 1], rows: both }),
      intervalTable({ caption: "Difference B − A", heads: ["scenarios", "mean [95 % interval]"], rows: differences })));
}

// ------------------------------------------------------------------ learning

function learningSection(report) {
  if (!report.sides.some((side) => (side.curves["team/success"] || side.curves["team/return"] || []).length)) return null;
  const content = bySide(report, (side) => {
    const length = Math.max(0, ...Object.values(side.curves).map((column) => column.length));
    if (!length) return null;
    const x = Array.from({ length }, (_, place) => place + 1);
    return [successChart(side, x), agentCharts(side, x)];
  });
  return section("learning", "Learning", "Success of the training episodes, with the mean of the last five updates. Dots with lines: validation on held-out tasks with its 95 % interval. Triangles: alarms.", content);
}

function successChart(side, x) {
  const success = side.curves["team/success"];
  if (!success) return null;
  const smooth = smoothed(success);
  const raised = new Map();
  for (const alarm of side.alarms) raised.set(alarm.update + 1, [...(raised.get(alarm.update + 1) || []), `${alarm.kind} of ${alarm.agent}`]);
  return lineChart({
    label: "success", xLabel: "update", x, domain: [0, 1],
    series: [{ name: "each update", values: success, class: "by-team", faint: true }, { name: "training success", values: smooth, class: "by-team" }],
    points: side.validations.length ? [{ name: "validation", at: side.validations, class: "held-out" }] : [],
    marks: [...raised].map(([update, kinds]) => ({ x: update, text: `update ${update}: ${kinds.join(", ")}` })),
  });
}

const smoothed = (values) => values.map((_, place) => mean(values.slice(Math.max(0, place - SMOOTHING + 1), place + 1)));

function agentCharts(side, x) {
  const measures = new Map();
  for (const name of Object.keys(side.curves)) {
    const slash = name.lastIndexOf("/");
    const [prefix, measure] = slash < 0 ? ["team", name] : [name.slice(0, slash), name.slice(slash + 1)];
    if (name === "update" || prefix.startsWith("validation") || measure.startsWith("alarm_")) continue;
    if (!measures.has(measure)) measures.set(measure, []);
    measures.get(measure).push({ name: prefix, values: side.curves[name], class: colourOf(NO_AGENTS.includes(prefix) ? "team" : prefix) });
  }
  const ofAgents = (measure) => measures.get(measure).some((one) => !NO_AGENTS.includes(one.name));
  const draw = (measure) => lineChart({ title: words(measure), label: words(measure), xLabel: "update", x, compact: true, series: measures.get(measure) });
  const first = FIRST_MEASURES.filter((measure) => measures.has(measure) && (measure === "return" || ofAgents(measure)));
  const others = [...measures.keys()].filter((measure) => !first.includes(measure)).sort();
  const authors = [...new Map([...measures.values()].flat().filter((one) => !NO_AGENTS.includes(one.name)).map((one) => [one.name, one])).values()];
  return [
    legendOf([...authors, { name: "team", class: "by-team" }]),
    h("div", { class: "multiples" }, first.map(draw)),
    others.length ? onDemand("all-metrics", `All ${others.length} other metrics`, () => h("div", { class: "multiples" }, others.map(draw))) : null,
  ];
}

// Details whose content is made when they are opened.
function onDemand(id, title, make) {
  const box = h("details", { id, class: "more" }, h("summary", {}, title));
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(make()); });
  return box;
}

// ------------------------------------------------------------------ held-out success, cohorts

function heldOutSection(report) {
  if (!report.sides.some((side) => side.evaluations.length)) return null;
  const rows = report.sides.flatMap((side, place) => side.evaluations.map((one) => ({
    label: [report.sides.length === 2 ? h("span", { class: `letter side-${place}` }, SIDES[place]) : "", one.label,
      h("small", {}, [one.checkpoint || "no checkpoint", known(one.temperature) ? `temperature ${one.temperature}` : "", plural(one.scenarios, "scenario")].filter(Boolean).join(" · "))],
    dots: [{ interval: [one.mean, ...(one.interval || [null, null])], class: report.sides.length === 2 ? `side-${place}` : one.checkpoint ? "held-out" : "by-team" }],
    text: one.interval ? `${share(one.mean)} ${between(...one.interval)}` : share(one.mean),
  })));
  const gains = report.sides.flatMap((side) => side.gains.map((gain) => ({
    label: `${gain.before} → ${gain.after}`,
    dots: [{ interval: gain.difference, class: gain.difference[1] > 0 ? "better" : gain.difference[2] < 0 ? "worse" : "by-team" }],
    text: [`${signed(gain.difference[0])} ${between(gain.difference[1], gain.difference[2], signed)}`, h("small", {}, probability(gain.p))],
  })));
  return section("held-out", "Held-out success", "Mean over scenarios with its 95 % Wilson interval. Gains are paired: the same scenarios before and after training.",
    intervalTable({ heads: ["evaluation", "success [95 % interval]"], domain: [0, 1], rows }),
    gains.length ? intervalTable({ caption: "Paired gain of training", heads: ["evaluations", "gain [95 % interval]"], rows: gains }) : null,
    otherNumbers(report));
}

function otherNumbers(report) {
  const all = report.sides.flatMap((side) => side.evaluations);
  const names = [...new Set(all.flatMap((one) => Object.keys(one.numbers)))];
  if (!names.length) return null;
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Further numbers of the evaluations" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "evaluation"), names.map((name) => h("th", { scope: "col", class: "number" }, words(name))))),
    h("tbody", {}, all.map((one) => h("tr", {}, h("th", { scope: "row" }, one.label), names.map((name) => h("td", { class: "number" }, brief(one.numbers[name]))))))));
}

function cohortSection(report) {
  if (report.comparison && report.comparison.rows) return null; // its table has the cohorts
  const content = bySide(report, (side) => {
    const labels = side.evaluations.filter((one) => one.cohorts.length);
    const names = [...new Set(labels.flatMap((one) => one.cohorts.map((cohort) => cohort.name)))];
    return names.map((name) => {
      const shown = labels.map((one) => [one, one.cohorts.find((cohort) => cohort.name === name)]).filter(([, cohort]) => cohort);
      const [gain] = side.gains; // before and after, or the latest
      const pair = gain ? shown.filter(([one]) => [gain.before, gain.after].includes(one.label)) : [];
      const latest = pair.length ? pair : shown.slice(-1);
      const values = [...new Set(latest.flatMap(([, cohort]) => cohort.rows.map((row) => row.value)))];
      return intervalTable({
        caption: words(name), heads: [latest.length === 2 ? `${latest[0][0].label}, ${latest[1][0].label}` : "value", "success [95 % interval]"], domain: [0, 1],
        rows: values.map((value) => {
          const rows = latest.map(([, cohort]) => cohort.rows.find((row) => row.value === value)).filter(Boolean);
          const last = rows[rows.length - 1];
          return { label: [value, h("small", {}, count(last.scenarios))], text: `${share(last.interval[0])} ${between(last.interval[1], last.interval[2])}`,
            dots: rows.map((row, place) => ({ interval: row.interval, class: rows.length === 2 && place === 0 ? "by-team" : "held-out" })) };
        }),
      });
    });
  });
  return content && section("cohorts", "Cohorts", "Success by a property of the task. Small groups have wide intervals: look at those first.", h("div", { class: "pair" }, content));
}

// ------------------------------------------------------------------ changes by agent

function changesSection(report) {
  const content = bySide(report, (side) => side.changes.map((pair) => [
    plainTable(`${pair.before} → ${pair.after}`, ["KL a token [95 %]", "tokens a turn", "difference [95 %]", "tools apart", "share of episodes with a loop"],
      Object.entries(pair.agents).map(([agent, found]) => [agent, [
        pair.kl[agent] && known(pair.kl[agent].mean) ? `${share(pair.kl[agent].mean)} ${between(pair.kl[agent].low, pair.kl[agent].high)}` : "–",
        ...changed(found.tokens, brief), share(found.tools_distance), changed(found.loops, share)[0]]])),
    toolShares(pair.agents),
    Object.keys(pair.terms).length ? plainTable("term of the reward", ["mean", "difference [95 %]"], Object.entries(pair.terms).map(([name, found]) => [words(name), changed(found, share)])) : null,
  ]));
  return content && section("changes", "Changes by agent", "Before and after training, on the same scenarios. KL: divergence of the policies on the prompts of the first. Tools apart: total variation distance of the shares of each tool. A loop is a run of more than two hand-offs between the same two agents.", content);
}

const changed = (found, form) => (found ? [`${form(found.a)} → ${form(found.b)}`, `${signed(found.mean)} ${between(found.low, found.high, signed)}`] : ["–", "–"]);

function toolShares(agents) {
  const rows = Object.entries(agents).flatMap(([agent, found]) => Object.entries(found.tools).map(([tool, [a, b]]) => [`${agent}: ${tool}`, [share(a), share(b)]]));
  return rows.length ? plainTable("tool", ["share of the calls before", "after"], rows) : null;
}

function plainTable(title, heads, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": title }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title), heads.map((head) => h("th", { scope: "col", class: "number" }, head)))),
    h("tbody", {}, rows.map(([name, cells]) => h("tr", {}, h("th", { scope: "row" }, shown(name)), cells.map((cell) => h("td", { class: "number" }, cell)))))));
}

// ------------------------------------------------------------------ benchmark

function benchSection(report) {
  const content = bySide(report, (side) => side.tables.map((table) => [
    h("h3", {}, table.task),
    h("div", { class: "pair" },
      intervalTable({ caption: "Success", heads: ["arm", "mean [95 % interval]"], domain: [0, 1], rows: [...table.rows].reverse().map((row) => ({
        label: armOf(row), class: row.arm === table.reference ? "reference" : "", dots: [{ interval: row.success, class: row.arm === table.reference ? "by-team" : "held-out" }],
        text: `${share(row.success[0])} ${between(row.success[1], row.success[2])}` })) }),
      table.rows.some((row) => row.difference) ? intervalTable({ caption: `Difference to ${table.reference}`, heads: ["arm", "mean [95 % interval]"], rows: [...table.rows].reverse().filter((row) => row.difference).map((row) => ({
        label: armOf(row), dots: [{ interval: row.difference, class: row.limits.length ? "by-team" : row.difference[1] > 0 ? "better" : row.difference[2] < 0 ? "worse" : "by-team" }],
        text: [`${signed(row.difference[0])} ${between(row.difference[1], row.difference[2], signed)}`, h("small", {}, probability(row.p_value), row.unequal ? ` · seeds ${row.unequal.seeds.join(", ")}` : "")] })) }) : null),
    trainingCurves(side.trainings.filter((training) => training.task === table.task)),
    h("ul", { class: "notes" }, table.notes.map((note) => h("li", {}, shown(note)))),
    onDemand(`numbers-${table.task}`, "All numbers", () => numbersOf(table.rows)),
  ]));
  return content && section("bench", "Benchmark", "Every arm plays the same test problems. Intervals are over training seeds and problems.", content);
}

const armOf = (row) => [row.arm, row.note ? ` (${row.note})` : "", row.limits.length ? " †" : "", h("small", {}, [row.team, row.algorithm || "untrained", row.seeds ? plural(row.seeds, "seed") : ""].filter(Boolean).join(" · "))];

function trainingCurves(trainings) {
  if (!trainings.length) return null;
  const tokens = [...new Set(trainings.flatMap((one) => one.tokens))].sort((a, b) => a - b);
  const groups = [...new Set(trainings.map((one) => one.name.replace(/--seed-\d+$/, "")))];
  return lineChart({ title: "Success in training over generated tokens, mean of five updates, one line per training seed", label: "success in training", xLabel: "tokens", x: tokens, domain: [0, 1],
    series: trainings.map((one) => {
      const values = new Map(smoothed(one.success).map((value, place) => [one.tokens[place], value]));
      return { name: words(one.name.replace(/^.*?--/, "").replaceAll("--", " · ")), class: `by-${groups.indexOf(one.name.replace(/--seed-\d+$/, "")) % PALETTE}`, values: tokens.map((token) => values.get(token) ?? null) };
    }) });
}

function numbersOf(rows) {
  const inNotes = ["limits", "unequal", "settings", "tuned"];
  const names = Object.keys(rows[0]).filter((name) => !inNotes.includes(name) && rows.some((row) => row[name] !== null && row[name] !== ""));
  const cell = (value) => (Array.isArray(value) ? `${share(value[0])} ${between(value[1], value[2])}` : known(value) ? brief(value) : value === null ? "–" : String(value));
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "All numbers of the table" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, words(name))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, names.map((name) => h("td", { class: typeof row[name] === "string" ? "" : "number" }, cell(row[name]))))))));
}

// ------------------------------------------------------------------ team

function teamSection(report) {
  const content = bySide(report, (side, place) => {
    const set = report.sets.find((one) => one.side === place && one.agents.length);
    return set && teamGraph(set.agents, set.edges);
  });
  return content && section("team", "Team",
    "The dependency function D: an arrow runs from an agent to those that see its action, dashed if from the next round on. Drawn from the episodes: thin arrows were used in few of them.", content);
}

// ------------------------------------------------------------------ attribution

function attributionSection(report) {
  const content = bySide(report, (side) => side.attributions.map((one) => {
    const interval = (found) => [Number(found.mean), ...found.interval_95.map(Number)];
    const text = (found) => { const [middle, low, high] = interval(found); return `${signed(middle)} ${between(low, high, signed)}`; };
    const agents = Object.entries(one.agents).map(([agent, found]) => ({ label: named(agent), dots: [{ interval: interval(found), class: colourOf(agent), name: agent }], text: text(found) }));
    if (one.total) agents.push({ label: h("b", {}, "whole team − none"), dots: [{ interval: interval(one.total), class: "by-team", name: "all" }], text: text(one.total) });
    const edges = one.influence.map((edge) => ({
      label: [named(edge.author), " → ", named(edge.reader)],
      dots: [{ interval: interval(edge.answer_changed), class: colourOf(edge.author), name: "answer changed" }],
      text: share(Number(edge.answer_changed.mean)),
    }));
    const groups = one.coalitions.map((group) => ({
      label: group.players.length ? group.players.map((agent, place) => [place ? ", " : "", named(agent)]) : h("span", { class: "muted" }, "none"),
      dots: [{ interval: interval(group), class: "held-out" }], text: `${share(Number(group.mean))} ${between(...interval(group).slice(1))}`,
    }));
    const method = one.method === "shapley" ? "Shapley value" : "Leave-one-out value";
    return [
      h("p", { class: "about" }, `${method} over ${plural(one.scored_scenarios, "scenario")}; the agents outside of a coalition are replaced by: ${one.replace}.`),
      intervalTable({ caption: method, heads: ["agent", "value [95 % interval]"], bars: true, rows: agents }),
      h("div", { class: "pair" },
        groups.length ? intervalTable({ caption: "Success of each coalition", heads: ["trained agents", "success"], domain: [0, 1], rows: groups }) : null,
        edges.length ? intervalTable({ caption: "Answers changed by replacing a message", heads: ["message", "share"], domain: [0, 1], bars: true, rows: edges }) : null),
    ];
  }));
  return content && section("attribution", "Attribution", "How much of the team's success each agent brings.", content);
}

// ------------------------------------------------------------------ cost

function costSection(report) {
  const ledgers = report.sides.flatMap((side) => [
    side.ledger && ["training", side.ledger], ...side.evaluations.flatMap((one) => [[one.label, one.ledger], ...Object.entries(one.tables).map(([name, counts]) => [`${one.label}: ${words(name)}`, counts])])]).filter((one) => one && one[1]);
  if (!ledgers.length) return null;
  return section("cost", "Cost", "Tokens, calls and seconds of all episodes, failed ones included. An ideal KV cache computes each distinct prefix of an episode once.",
    ledgers.map(([label, ledger]) => ledgerTable(label, ledger)));
}

function ledgerTable(label, ledger) {
  const rows = [...Object.entries(ledger.agents), ["team", ledger.team]];
  const names = [...new Set(rows.flatMap(([, counts]) => Object.keys(counts)))].filter((name) => rows.some(([, counts]) => known(counts[name])));
  const parts = Object.entries(ledger.seconds).filter(([, value]) => known(value)).map(([part, value]) => `${words(part)} ${duration(value)}`);
  const table = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Costs of ${label}` }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, label), names.map((name) => h("th", { scope: "col", class: "number" }, words(name))))),
    h("tbody", {}, rows.map(([agent, counts]) => h("tr", { class: agent === "team" ? "total" : "" },
      h("th", { scope: "row" }, agent === "team" ? "team" : named(agent)), names.map((name) => h("td", { class: "number" }, count(counts[name]))))))));
  const tokens = Object.entries(ledger.agents).filter(([, counts]) => known(counts.output_tokens));
  const all = sum(tokens.map(([, counts]) => counts.output_tokens));
  return [table,
    all ? h("div", { class: "split", role: "img", "aria-label": `Output tokens: ${tokens.map(([agent, counts]) => `${agent} ${Math.round(counts.output_tokens / all * 100)} %`).join(", ")}` },
      splitBar(tokens.map(([agent, counts]) => [colourOf(agent), counts.output_tokens / all, `${agent}: ${count(counts.output_tokens)} output tokens`]))) : null,
    parts.length ? h("p", { class: "seconds" }, "Time: ", parts.join(" · ")) : null];
}

// A thin bar of shares that sum to one: [class, share, title].
function splitBar(parts) {
  let left = 0;
  return svg("svg", { class: "split", height: 8, "aria-hidden": "true" }, parts.map(([colour, width, title]) => {
    const part = svg("g", { class: colour }, svg("rect", { x: `${left * 100}%`, width: `${width * 100}%`, height: 8 }), svg("title", {}, title));
    left += width;
    return part;
  }));
}

// ------------------------------------------------------------------ alarms, settings

function alarmSection(report) {
  if (!report.sides.some((side) => (side.curves["team/success"] || []).length)) return null;
  const content = bySide(report, (side) => (side.alarms.length
    ? h("ol", { class: "alarms" }, side.alarms.map((alarm) => h("li", {}, h("b", {}, `update ${alarm.update + 1}`), " ", h("span", { class: "badge bad" }, alarm.kind), " ", named(alarm.agent), h("p", {}, shown(alarm.sentence)))))
    : h("p", { class: "muted" }, "No alarm was raised.")));
  return section("alarms", "Alarms", null, content);
}

function settingsSection(report) {
  const content = bySide(report, (side, place) => {
    const parts = [["Settings", side.config], ...side.evaluations.map((one) => [`Settings of ${one.label}`, one.settings]), ["Versions", side.versions]].filter(([, value]) => Object.keys(value).length);
    const commands = side.tables.flatMap((table) => table.commands).concat(side.attributions.map((one) => one.command)).filter(Boolean);
    return [
      commands.length ? [h("h3", {}, "Commands"), [...new Set(commands)].map((command) => h("pre", { tabindex: 0 }, shown(command)))] : null,
      parts.map(([name, value], number) => onDemand(`settings-${place}-${number}`, name, () => h("pre", { tabindex: 0 }, shown(JSON.stringify(value, null, 1))))),
    ];
  });
  return content && section("settings", "Settings", null, content);
}
