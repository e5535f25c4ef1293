// Parallel coordinates of the Sweep page: asked for when they are in view; marked ranges go into the address, and the
// table keeps the lines that lie within them.
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
  const plot = () => {
    const place = document.getElementById("sweep-parallel");
    return place && place.querySelector(".js-plotly-plot");
  };

  const watcher = new IntersectionObserver(
    (entries) => {
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
        watcher.unobserve(entry.target);
        window.dash_clientside.set_props("sweep-parallel-asked", { data: true });
      });
    },
    { rootMargin: "200px" }
  );
  let watched = null;
  const look = () => {
    const place = document.getElementById("sweep-parallel");
    if (place === watched) return;
    if (watched) watcher.unobserve(watched);
    watched = place;
    if (place) watcher.observe(place);
  };
  new MutationObserver(look).observe(document.documentElement, { subtree: true, childList: true });

  // The address holds the ranges: `range=AXIS=LOW~HIGH`, in the unit of the axis.
  const rangesOf = (axes) =>
    new URLSearchParams(window.location.search).getAll("range").flatMap((text) => {
      const parts = /^(.+)=(-?[\d.]+)~(-?[\d.]+)$/.exec(text);
      const at = parts ? axes.findIndex((axis) => axis.name === parts[1]) : -1;
      if (at < 0) return [];
      const [low, high] = [Number(parts[2]), Number(parts[3])].map((end) => (end - axes[at].low) / (axes[at].high - axes[at].low));
      return low < high ? [{ at: at, low: low, high: high }] : [];
    });
  const keep = (ranges, axes) => {
    const value = (axis, share) => Number((axis.low + share * (axis.high - axis.low)).toFixed(6));
    const text = (one) => `${axes[one.at].name}=${value(axes[one.at], one.low)}~${value(axes[one.at], one.high)}`;
    window.ncubble.keep({ range: ranges.map(text) });
  };
  // A box marks the axis that is next to its middle.
  const selected = (box, axes) => {
    if (!box || !box.range || !box.range.x) return null;
    const middle = Math.round((box.range.x[0] + box.range.x[1]) / 2);
    const ends = box.range.y.map((end) => Math.min(Math.max(end, -0.06), 1.06));
    return { at: Math.min(Math.max(middle, 0), axes.length - 1), low: Math.min(...ends), high: Math.max(...ends) };
  };

  const redraw = (marks, ranges, kept, tries) => {
    const drawn = plot();
    if (!drawn || !drawn._fullLayout) {
      if (tries > 0) window.setTimeout(() => redraw(marks, ranges, kept, tries - 1), 50); // Dash has not drawn yet
      return;
    }
    const ys = marks.tones.map((lines) =>
      lines.flatMap((line) => [...marks.axes.map((axis) => (kept[line] ? axis.shares[line] : null)), null])
    );
    const shapes = ranges.map((one) => ({
      type: "rect", x0: one.at - 0.05, x1: one.at + 0.05, y0: one.low, y1: one.high,
      line: { color: "#8a8f98", width: 1 }, fillcolor: "rgba(138,143,152,0.35)", layer: "above",
    }));
    const dragmode = window.matchMedia("(hover: none)").matches ? false : "select"; // fingers scroll
    window.Plotly.update(drawn, { y: ys }, { shapes: shapes, selections: [], dragmode: dragmode }, marks.tones.map((_, at) => at + 1));
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_parallel: {
      mark: function (figure, box, _clear, marks) {
        if (!figure || !marks) return [skip(), skip()];
        const cause = (window.dash_clientside.callback_context.triggered[0] || {}).prop_id || "";
        let ranges = cause.startsWith("sweep-clear") ? [] : rangesOf(marks.axes);
        const added = cause.endsWith(".selectedData") ? selected(box, marks.axes) : null;
        if (cause.endsWith(".selectedData") && !added) return [skip(), skip()];
        if (added) ranges = [...ranges.filter((one) => one.at !== added.at), added];
        if (added || !ranges.length) keep(ranges, marks.axes);
        const kept = marks.axes[0].shares.map((_, line) =>
          ranges.every((one) => marks.axes[one.at].shares[line] >= one.low && marks.axes[one.at].shares[line] <= one.high)
        );
        const rows = Array.from(document.querySelectorAll("#sweep-lines tbody tr"));
        rows.forEach((row, line) => (row.hidden = !kept[line]));
        window.setTimeout(() => redraw(marks, ranges, kept, 200), 0); // behind Dash's own drawing
        const count = kept.filter(Boolean).length;
        const text = `${count} of ${kept.length} configurations lie within the marked ranges; the table lists these`;
        return ranges.length ? [text, "button small"] : ["", "button small hidden"];
      },
    },
  });
})();
