// The kernel page in the browser: numbers of the range of the timeline that is in sight, its samples as a table, and
// the state of the page in its address. Everything that comes from a report becomes text.
(function () {
  "use strict";
  const MOST_ROWS = 400;
  const skip = () => window.dash_clientside.no_update;
  const el = (type, children, props) => ({
    type: type,
    namespace: "dash_html_components",
    props: Object.assign({}, props || {}, { children: children }),
  });
  const plot = () => {
    const place = document.getElementById('{"name":"timeline","type":"figure"}');
    return place ? place.querySelector(".js-plotly-plot") : null;
  };
  const round = (value) => Math.round(value * 100) / 100;
  const same = (one, other) => Math.abs(one - other) < 0.006;

  // The range in sight, µs: as plotly says it moved to, else as it was drawn; null where the event was about something else.
  const rangeOf = (relayout, figure) => {
    if (relayout && Array.isArray(relayout["xaxis.range"])) return relayout["xaxis.range"].map(Number);
    if (relayout && relayout["xaxis.range[0]"] !== undefined) return [Number(relayout["xaxis.range[0]"]), Number(relayout["xaxis.range[1]"])];
    const drawn = plot();
    if (relayout && relayout["xaxis.autorange"] && drawn && drawn._fullLayout) return drawn._fullLayout.xaxis.range.map(Number);
    // A new size, or anything else that is no range, leaves numbers and half-typed fields alone once they are there.
    const place = document.getElementById("timeline-range");
    return relayout && place && place.childElementCount ? null : figure.layout.xaxis.range.map(Number);
  };
  const isWhole = (range, span) => range[0] <= 0 && range[1] >= span;

  const inside = (trace, range) => {
    const found = [];
    trace.x.forEach((x, index) => {
      if (x >= range[0] && x <= range[1] && trace.y[index] !== null) found.push(trace.y[index]);
    });
    return found;
  };
  const stats = (values) => {
    let sum = 0, least = Infinity, most = -Infinity;
    values.forEach((value) => {
      sum += value;
      least = Math.min(least, value);
      most = Math.max(most, value);
    });
    return { mean: sum / values.length, min: least, max: most };
  };
  const time = (micros) => (micros >= 1000 ? (micros / 1000).toPrecision(4) + " ms" : micros >= 1 ? micros.toPrecision(4) + " µs" : (micros * 1000).toFixed(0) + " ns");
  const number = (value) => (Math.abs(value) >= 1000 ? value.toFixed(0) : value.toFixed(1));

  const table = (caption, head, rows) =>
    el("Table", [
      el("Caption", caption),
      el("Thead", el("Tr", head.map((text, index) => el("Th", text, { className: index ? "num" : "", scope: "col" })))),
      el("Tbody", rows.map((row) => el("Tr", row.map((cell, index) => el("Td", cell, { className: index ? "num" : "" }))))),
    ], { className: "plain" });

  const unescaped = (text) =>
    String(text).replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&amp;", "&");
  const meta = (trace) => trace.meta || {};
  const label = (trace) => unescaped(trace.name);
  const isTrack = (trace) => meta(trace).kind === "track" || Boolean(meta(trace).reason);
  const unitOf = (trace) => unescaped(meta(trace).unit || "");

  const tracks = (figure, range) => {
    const rows = [];
    figure.data.filter(isTrack).forEach((trace) => {
      const values = inside(trace, range);
      if (!values.length) return;
      const found = stats(values);
      rows.push([label(trace), number(found.mean), number(found.min), number(found.max), unitOf(trace)]);
    });
    return rows.length ? table("Tracks in range, by PM samples", ["Track", "mean", "min", "max", "unit"], rows) : el("P", "No samples in this range.", { className: "hint" });
  };
  // Idle time by cause: the mean of each band is a share of the range.
  const bubbles = (figure, range, span) => {
    const length = Math.min(range[1], span) - Math.max(range[0], 0);
    const rows = [];
    figure.data.filter((trace) => meta(trace).part).forEach((trace) => {
      const values = inside(trace, range);
      const share = values.length ? stats(values).mean : 0;
      if (share >= 0.05) rows.push([label(trace), share, time((share / 100) * length)]);
    });
    rows.sort((one, other) => other[1] - one[1]);
    return rows.length ? table("Idle time in range, by cause", ["Bubble", "share", "time"], rows.map((row) => [row[0], row[1].toFixed(1) + " %", row[2]])) : null;
  };

  const samples = (figure, range) => {
    const shown = figure.data.filter((trace) => meta(trace).kind === "track");
    if (!shown.length) return skip();
    const times = shown[0].x.filter((x) => x >= range[0] && x <= range[1]);
    const byTime = shown.map((trace) => new Map(trace.x.map((x, index) => [x, trace.y[index]])));
    const rows = times.slice(0, MOST_ROWS).map((x) => [x.toFixed(2), ...byTime.map((values) => (values.has(x) ? number(values.get(x)) : "not sampled"))]);
    const head = ["µs", ...shown.map((trace) => label(trace) + ", " + unitOf(trace))];
    const parts = [el("Div", table("Samples of the timeline", head, rows), { className: "table-scroll samples" })];
    if (times.length > MOST_ROWS) parts.push(el("P", "The first " + MOST_ROWS + " of " + times.length + " samples. Select a shorter range to see the others.", { className: "hint" }));
    return parts;
  };

  const zoomTo = (range) => {
    const drawn = plot();
    if (!drawn || !drawn._fullLayout || !window.Plotly) return skip();
    const now = drawn._fullLayout.xaxis.range.map(Number);
    if (same(now[0], range[0]) && same(now[1], range[1])) return skip();
    window.Plotly.relayout(drawn, { "xaxis.range": range });
    return range;
  };
  const current = (figure) => {
    const drawn = plot();
    return drawn && drawn._fullLayout && drawn._fullLayout.xaxis ? drawn._fullLayout.xaxis.range.map(Number) : figure.layout.xaxis.range.map(Number);
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_kernel: {
      measure: function (relayout, figure, span) {
        if (!figure) return [skip(), skip(), skip()];
        const range = rangeOf(relayout, figure);
        if (!range || !(range[1] > range[0])) return [skip(), skip(), skip()];
        window.ncubble.keep({ range: isWhole(range, span) ? null : round(range[0]) + "," + round(range[1]) });
        // Of the whole launch, the account has the idle time: by counters, so it differs a little from samples.
        const parts = [tracks(figure, range), isWhole(range, span) ? null : bubbles(figure, range, span)].filter(Boolean);
        return [parts, round(Math.max(range[0], 0)), round(Math.min(range[1], span))];
      },
      zoom: function (from, to, span) {
        const drawn = plot();
        if (!drawn || !drawn._fullLayout || from === null || to === null || from === undefined || to === undefined || !(to > from)) return skip();
        const now = drawn._fullLayout.xaxis.range.map(Number);
        // What `measure` wrote into the fields is the range in sight, clipped to the launch: nothing was asked for.
        if (same(from, round(Math.max(now[0], 0))) && same(to, round(Math.min(now[1], span)))) return skip();
        return zoomTo([from, to]);
      },
      whole: function (clicks, span) {
        return clicks ? zoomTo([-0.01 * span, 1.01 * span]) : skip();
      },
      samples: function (clicks, _, figure) {
        return clicks && figure ? samples(figure, current(figure)) : skip();
      },
      find: function (text, options) {
        window.ncubble.keep({ metric: text || null });
        return Object.assign({}, options, { quickFilterText: text || "" });
      },
    },
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest(".sections button[data-anchor]");
    const place = button && document.getElementById(button.dataset.anchor);
    if (!place) return;
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "start" });
  });

  // `toggle` does not bubble: it is caught on its way down.
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.id !== "metrics-details") return;
      window.ncubble.keep(event.target.open ? { show: "metrics" } : { show: null, metric: null });
    },
    true
  );
})();
