// The Timelines page in the browser: a zoom is kept in the address, and its window is asked for in ns.
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;

  const whole = (run) => {
    window.ncubble.keep({ run: run, from: null, to: null });
    return {};
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_lanes: {
      zoom: function (changed, run) {
        if (!changed || !run) return skip();
        if (changed["xaxis.autorange"]) return whole(run);
        const ends = changed["xaxis.range"] || [changed["xaxis.range[0]"], changed["xaxis.range[1]"]];
        if (!Number.isFinite(ends[0]) || !Number.isFinite(ends[1])) return skip();
        const [low, high] = ends.map((micros) => Math.max(0, Math.round(1e3 * micros)));
        if (high <= low) return skip();
        window.ncubble.keep({ run: run, from: String(low), to: String(high) });
        return { from: low, to: high };
      },
      whole: function (clicks, run) {
        return clicks && run ? whole(run) : skip();
      },
    },
  });
})();
