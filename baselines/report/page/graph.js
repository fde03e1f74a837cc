// Drawings of the dependency function: the graph of a team, and the lanes of one episode.

// Columns are layers. Solid arrows run from an agent to those that see its action in the same round, dashed ones to
// those that see it from the next round on. A thin arrow was used in few episodes.
function teamGraph(agents, edges) {
  const direct = edges.filter(([, , delayed]) => !delayed);
  const layer = new Map(agents.map((agent) => [agent, 0]));
  for (const _ of agents) {
    for (const [author, reader] of direct) layer.set(reader, Math.max(layer.get(reader), Math.min(agents.length - 1, layer.get(author) + 1)));
  }
  const columns = [];
  for (const agent of agents) (columns[layer.get(agent)] ||= []).push(agent);
  const boxWidth = Math.max(96, ...agents.map((agent) => agent.length * 8.2 + 28));
  const boxHeight = 36;
  const step = { x: boxWidth + 76, y: boxHeight + 34 };
  const layers = columns.filter(Boolean);
  const tallest = Math.max(...layers.map((column) => column.length));
  const backward = edges.some(([, , delayed]) => delayed) || direct.some(([a, b]) => layer.get(b) - layer.get(a) > 1);
  const top = backward ? 46 : 8;
  const place = new Map();
  layers.forEach((column, x) => column.forEach((agent, row) =>
    place.set(agent, { x: 4 + x * step.x, y: top + (row + (tallest - column.length) / 2) * step.y })));
  const width = 8 + (layers.length - 1) * step.x + boxWidth;
  const height = top + tallest * step.y - 24;
  const arrow = ([author, reader, delayed, used]) => {
    const a = place.get(author), b = place.get(reader);
    if (!a || !b) return null;
    const name = `${author} is seen by ${reader}${delayed ? " from the next round on" : ""}, in ${Math.round(used * 100)} % of the episodes`;
    return svg("g", { class: `edge ${delayed ? "delayed" : ""} ${used < 0.34 ? "rare" : used < 0.67 ? "some" : ""}` },
      svg("path", { d: edgePath(a, b, boxWidth, boxHeight, step.x), "marker-end": "url(#arrow)" }), svg("title", {}, name));
  };
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing of the dependency function" },
    svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": edges.length ? edges.map(([a, b, delayed]) => `${b} sees ${a}${delayed ? " from the next round on" : ""}`).join("; ") : "no agent sees another" },
      arrowHead(), edges.map(arrow),
      agents.map((agent) => svg("g", { class: colourOf(agent) },
        svg("rect", { class: "node", x: place.get(agent).x, y: place.get(agent).y, width: boxWidth, height: boxHeight, rx: 8 }),
        svg("text", { x: place.get(agent).x + boxWidth / 2, y: place.get(agent).y + boxHeight / 2 + 5, "text-anchor": "middle" }, agent)))));
}

function arrowHead() {
  return svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    svg("path", { class: "head", d: "M0,0.5L7.5,4L0,7.5z" })));
}

function edgePath(a, b, width, height, step) {
  const start = { x: a.x + width, y: a.y + height / 2 }, end = { x: b.x - 3, y: b.y + height / 2 };
  if (b.x > a.x && b.x - a.x < step * 1.5) {
    const bend = (end.x - start.x) / 2;
    return `M${start.x},${start.y}C${start.x + bend},${start.y} ${end.x - bend},${end.y} ${end.x},${end.y}`;
  }
  const from = { x: a.x + width / 2, y: a.y }, to = { x: b.x + width / 2, y: b.y - 3 };
  if (Math.abs(from.x - to.x) < 1) return `M${a.x},${a.y + height / 2}C${a.x - 40},${a.y} ${b.x - 40},${b.y + height} ${b.x - 3},${b.y + height / 2}`;
  const high = Math.min(from.y, to.y) - 44;
  return `M${from.x},${from.y}C${from.x},${high} ${to.x},${high} ${to.x},${to.y}`;
}

// One lane per agent, one column per layer of a round; a curve runs from each action to those who saw it. A dot opens
// its turn.
function lanes(episode, agents, open) {
  const steps = [...new Set(episode.turns.map((turn) => `${turn.round}/${turn.layer}`))];
  const column = new Map(steps.map((step, place) => [step, place]));
  const names = Math.max(...agents.map((agent) => agent.length)) * 7.4 + 18;
  const gap = { x: 50, y: 30 };
  const x = (turn) => names + 22 + column.get(`${turn.round}/${turn.layer}`) * gap.x;
  const y = (turn) => 26 + agents.indexOf(turn.agent) * gap.y;
  const width = names + 44 + (steps.length - 1) * gap.x;
  const height = 26 + agents.length * gap.y - 6;
  const rounds = [...new Set(episode.turns.map((turn) => turn.round))];
  const starts = rounds.map((round) => Math.min(...episode.turns.filter((turn) => turn.round === round).map(x)));
  const edges = episode.turns.flatMap((turn) => turn.visible.map((other) => [episode.turns[other], turn]));
  // With many rounds every action is seen again and again: only the round of the action and the next one are drawn.
  // Of a program all are drawn, and dotted what was delivered just before: what a turn may depend on at most.
  const near = edges.filter(([author, reader]) => reader.bound !== undefined || reader.round - author.round <= 1);
  const bounds = episode.turns.flatMap((turn) => episode.turns.slice(0, turn.bound || 0)
    .filter((other, place) => turn.round - other.round === 1 && !turn.visible.includes(place)).map((other) => [other, turn]));
  const curve = (author, reader) => {
    const [x1, y1, x2, y2] = [x(author), y(author), x(reader), y(reader)];
    const bend = Math.max(14, (x2 - x1) / 2);
    return `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  };
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Lanes of the episode" },
    svg("svg", { class: "lanes", width, height, viewBox: `0 0 ${width} ${height}` },
      starts.map((start, place) => svg("g", { class: "round" }, svg("line", { x1: start - 23, x2: start - 23, y1: 4, y2: height }),
        svg("text", { x: start - 17, y: 11 }, place ? rounds[place] + 1 : `round ${rounds[place] + 1}`))),
      agents.map((agent, row) => svg("g", { class: colourOf(agent) },
        svg("line", { class: "lane", x1: names, x2: width - 4, y1: 26 + row * gap.y, y2: 26 + row * gap.y }),
        svg("text", { x: names - 10, y: 30 + row * gap.y, "text-anchor": "end" }, agent))),
      bounds.map(([author, reader]) => svg("path", { class: `edge bound ${colourOf(author.agent)}`, d: curve(author, reader) },
        svg("title", {}, `${reader.agent} was asked after ${author.agent} was delivered`))),
      near.map(([author, reader]) => {
        const delayed = reader.bound === undefined && author.round !== reader.round;
        const evidence = reader.evidence?.[reader.visible.indexOf(episode.turns.indexOf(author))];
        return svg("path", { class: `edge ${colourOf(author.agent)} ${delayed ? "delayed" : ""}`, d: curve(author, reader) },
          evidence ? svg("title", {}, `${reader.agent} read ${author.agent}: ${evidence}`) : null);
      }),
      episode.turns.map((turn, place) => svg("g", { class: `turn ${colourOf(turn.agent)}`, tabindex: 0, role: "button",
        "aria-label": `turn ${place + 1}: ${turn.agent}, round ${turn.round + 1}`, onclick: () => open(place),
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(place); } } },
        svg("circle", { cx: x(turn), cy: y(turn), r: 8 }), svg("title", {}, clipped(turn.text, 160))))));
}
