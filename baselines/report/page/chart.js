// Charts as inline SVG: scales, ticks and curves are D3's; colours and strokes are classes of the style sheet.

const HEIGHT = 220;

// Curves over a common x axis; a value that is missing is passed over. It redraws itself in the width it gets; pointer and arrow keys read values.
//
//   lineChart({ label: "success", x: [1, 2], xLabel: "update", domain: [0, 1],
//               series: [{ name: "team", values: [0.1, 0.2], class: "by-team", faint: true }],
//               points: [{ name: "validation", at: [[0, mean, low, high]], class: "by-team" }], marks: [{ x, text }] })
function lineChart(chart) {
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const picture = svg("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": describe(chart) });
  const legend = chart.compact ? null : legendOf([...chart.series.filter((one) => !one.faint), ...(chart.points || [])]);
  const figure = h("figure", { class: "line" }, chart.title && h("figcaption", {}, chart.title), legend, picture, readout);
  let at = null;
  let drawn = null;
  const draw = () => {
    const width = Math.max(240, figure.clientWidth);
    if (figure.clientWidth) drawn = drawLines(picture, chart, width, at);
  };
  const look = (place) => {
    at = place === null ? null : Math.max(0, Math.min(chart.x.length - 1, place));
    readout.replaceChildren(...(at === null ? [] : reading(chart, at)));
    draw();
  };
  picture.addEventListener("pointermove", (event) => {
    if (drawn) look(nearest(chart.x, drawn.invert(event.clientX - picture.getBoundingClientRect().left)));
  });
  picture.addEventListener("pointerleave", () => look(null));
  picture.addEventListener("blur", () => look(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    look(at === null ? (step > 0 ? 0 : chart.x.length - 1) : at + step);
  });
  new ResizeObserver(draw).observe(figure);
  return figure;
}

function describe(chart) {
  const told = chart.series.filter((one) => !one.faint).map((one) => {
    const there = one.values.filter(known);
    return there.length ? `${one.name} from ${brief(there[0])} to ${brief(there[there.length - 1])}` : `${one.name}: no values`;
  });
  return `${chart.label} over ${chart.xLabel}: ${told.join("; ")}`;
}

function legendOf(series) {
  if (series.length < 2) return null;
  return h("ul", { class: "legend" }, series.map((one) => h("li", { class: one.class }, h("i", { class: one.at ? "dot" : "" }), one.name)));
}

function reading(chart, at) {
  const values = chart.series.filter((one) => known(one.values[at]));
  return [h("b", {}, `${chart.xLabel} ${brief(chart.x[at])}`), ...values.map((one) =>
    h("span", { class: one.class }, `${one.name} ${brief(one.values[at])}`))];
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, place) => {
    if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = place;
  });
  return best;
}

function drawLines(picture, chart, width, at) {
  const compact = chart.compact;
  const height = compact ? 120 : HEIGHT;
  const margin = { left: 48, right: 14, top: 10, bottom: compact ? 20 : 34 };
  const points = (chart.points || []).flatMap((one) => one.at);
  const xs = [...chart.x, ...points.map((point) => point[0])];
  const ys = [...chart.series.flatMap((one) => one.values), ...points.flatMap((point) => point.slice(1))].filter(known);
  const extent = (values) => (values.length ? [Math.min(...values), Math.max(...values)] : [0, 1]);
  const widened = ([low, high]) => (low === high ? [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2] : [low, high]);
  const x = d3.scaleLinear(widened(extent(xs)), [margin.left, width - margin.right]);
  const y = d3.scaleLinear(chart.domain || widened(extent(ys)), [height - margin.bottom, margin.top]);
  if (!chart.domain) y.nice(4);
  const path = d3.line().x(([place]) => x(place)).y(([, value]) => y(value));
  const whole = x.ticks(Math.max(2, Math.min(8, width / 90))).filter(Number.isInteger);
  const yTicks = y.ticks(compact ? 3 : 5);
  const plain = y.tickFormat(compact ? 3 : 5);
  const form = (tick) => (plain(tick).length > 7 ? brief(tick) : plain(tick));
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("height", height);
  picture.replaceChildren(
    ...yTicks.map((tick) => svg("g", { class: "tick" },
      svg("line", { x1: margin.left, x2: width - margin.right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: margin.left - 7, y: y(tick) + 4, "text-anchor": "end" }, form(tick)))),
    ...whole.map((tick) => svg("text", { class: "tick", x: x(tick), y: height - margin.bottom + 16, "text-anchor": "middle" }, count(tick))),
    compact ? "" : svg("text", { class: "tick", x: width - margin.right, y: height - 4, "text-anchor": "end" }, chart.xLabel),
    ...(chart.marks || []).map((mark) => svg("g", { class: "mark" },
      svg("line", { x1: x(mark.x), x2: x(mark.x), y1: margin.top, y2: height - margin.bottom }), svg("title", {}, mark.text),
      svg("path", { d: `M${x(mark.x) - 5},${margin.top - 7}h10l-5,8z` }))),
    ...chart.series.map((one) => {
      const places = one.values.map((value, place) => [chart.x[place], value]).filter(([, value]) => known(value));
      return svg("g", { class: `${one.class} ${one.faint ? "faint" : ""}` }, svg("path", { class: "curve", d: path(places) || "" }),
        places.length === 1 ? svg("circle", { cx: x(places[0][0]), cy: y(places[0][1]), r: 3.5 }) : "");
    }),
    ...(chart.points || []).flatMap((one) => one.at.map(([place, value, low, high]) => svg("g", { class: one.class },
      known(low) ? svg("line", { class: "interval", x1: x(place), x2: x(place), y1: y(low), y2: y(high) }) : "",
      known(value) ? svg("circle", { cx: x(place), cy: y(value), r: 4.5 }) : "",
      svg("title", {}, `${one.name} at ${brief(place)}: ${share(value)} ${between(low, high)}`)))),
    at === null ? "" : svg("line", { class: "guide", x1: x(chart.x[at]), x2: x(chart.x[at]), y1: margin.top, y2: height - margin.bottom }),
  );
  return x;
}

// A table whose middle column is a picture: a dot with its interval, or a bar from zero, on one scale.
//
//   intervalTable({ caption, heads: ["arm", "success"], domain: [0, 1], bars: false,
//                   rows: [{ label: node, dots: [{ interval: [mean, low, high], class, name }], text: "0.5 [0.4, 0.6]" }] })
function intervalTable(table) {
  const values = table.rows.flatMap((row) => row.dots.flatMap((dot) => dot.interval)).filter(known);
  const domain = table.domain || [Math.min(0, ...values), Math.max(0, ...values)];
  const scale = d3.scaleLinear(domain, [3, 97]);
  if (!table.domain) scale.nice(5);
  const [low, high] = scale.domain();
  const ticks = scale.ticks(4);
  const at = (value) => `${scale(Math.max(low, Math.min(high, value)))}%`;
  const grid = () => ticks.map((tick) => svg("line", { class: tick === 0 ? "zero" : "grid", x1: at(tick), x2: at(tick), y1: 0, y2: "100%" }));
  const dot = (one, place, number) => {
    const [middle, from, to] = one.interval;
    const y = `${((place + 0.5) / number) * 100}%`;
    if (!known(middle)) return null;
    const bar = table.bars && svg("rect", { class: "bar", x: at(Math.min(0, middle)), width: `${Math.abs(scale(middle) - scale(0))}%`, y: "22%", height: "56%", rx: 2 });
    return svg("g", { class: one.class || "by-team" }, bar,
      known(from) && svg("line", { class: "interval", x1: at(from), x2: at(to), y1: y, y2: y }),
      svg("circle", { cx: at(middle), cy: y, r: table.bars ? 3 : 5 }),
      svg("title", {}, `${one.name || ""} ${share(middle)} ${between(from, to)}`));
  };
  const strip = (row) => {
    const dots = row.dots;
    return svg("svg", { class: "strip", height: Math.max(24, 16 * dots.length), "aria-hidden": "true" }, grid(),
      dots.map((one, place) => dot(one, place, dots.length)));
  };
  const axis = svg("svg", { class: "strip", height: 18, "aria-hidden": "true" },
    ticks.map((tick) => svg("text", { class: "tick", x: at(tick), y: 13, "text-anchor": "middle" }, String(tick).replace("-", "−"))));
  return h("table", { class: "dots" },
    table.caption && h("caption", {}, table.caption),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, table.heads[0]), h("td", { class: "picture" }), h("th", { scope: "col", class: "number" }, table.heads[1]))),
    h("tbody", {}, table.rows.map((row) => h("tr", { class: row.class }, h("th", { scope: "row" }, row.label),
      h("td", { class: "picture" }, strip(row)), h("td", { class: "number" }, row.text)))),
    h("tfoot", {}, h("tr", {}, h("td", {}), h("td", { class: "picture" }, axis), h("td", {}))));
}
