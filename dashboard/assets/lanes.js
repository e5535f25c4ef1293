// The Timelines page in the browser: a zoom is kept in the address, and its window is asked for in ns. Ctrl and wheel,
// or W, A, S and D move the window; a search dims what does not match, and Enter moves to the next hit.
(function () {
  "use strict";
  const SLOW_MS = 120; // between two windows that are asked for
  const LEAST_NS = 10;
  const skip = () => window.dash_clientside.no_update;

  const graph = () =>
    [...document.querySelectorAll(".js-plotly-plot")].find((one) => one.layout && one.layout.meta && one.layout.meta.lanes_ns);
  // ns of a unit of the axis, which follows the window.
  const unit = () => (graph() ? graph().layout.meta.lanes_ns : 1e3);

  const whole = (run) => {
    window.ncubble.keep({ run: run, from: null, to: null });
    return window.location.search;
  };

  let waiting = null;
  const moved = () => waiting || graph()._fullLayout.xaxis.range.map(Number);
  const move = (low, high) => {
    const most = graph().layout.meta.whole_ns / unit();
    const span = Math.min(Math.max(high - low, LEAST_NS / unit()), most);
    const start = Math.min(Math.max(low, 0), most - span);
    const asked = waiting;
    waiting = [start, start + span];
    if (asked) return;
    window.setTimeout(() => {
      const range = waiting;
      waiting = null;
      if (graph()) window.Plotly.relayout(graph(), { "xaxis.range": range });
    }, SLOW_MS);
  };
  const scale = (factor, at) => {
    const [low, high] = moved();
    const middle = at === undefined ? (low + high) / 2 : at;
    move(middle - (middle - low) * factor, middle + (high - middle) * factor);
  };
  const pan = (share) => {
    const [low, high] = moved();
    move(low + share * (high - low), high + share * (high - low));
  };
  const KEYS = { w: () => scale(0.7), s: () => scale(1 / 0.7), a: () => pan(-0.25), d: () => pan(0.25) };

  document.addEventListener(
    "wheel",
    (event) => {
      const plot = graph();
      if (!plot || !(event.ctrlKey || event.metaKey) || !plot.contains(event.target)) return;
      event.preventDefault();
      const axis = plot._fullLayout.xaxis;
      scale(event.deltaY < 0 ? 0.8 : 1.25, axis.p2l(event.clientX - plot.getBoundingClientRect().left - axis._offset));
    },
    { passive: false }
  );

  // The search: the server looks through the whole recording, the bars in sight are dimmed here.
  const field = () => (graph() ? document.getElementById("search") : null);
  const query = () => (field() ? field().value.trim().toLowerCase() : "");
  let hit = null; // the interval that was moved to: its bar may be called after what took most of a step
  const isHit = (trace, at) => {
    if (!hit || trace.y[at] !== hit.lane) return false;
    const middle = (hit.start + hit.end) / 2 / unit();
    return trace.base[at] <= middle && middle <= trace.base[at] + trace.x[at];
  };
  const texts = new Map(); // names in the figure are escaped
  const plain = (name) => {
    if (!texts.has(name)) texts.set(name, new DOMParser().parseFromString(name, "text/html").body.textContent.toLowerCase());
    return texts.get(name);
  };
  const opacityOf = (trace, at) => {
    if (isHit(trace, at)) return 1;
    if (!plain(trace.name).includes(query()) && !plain(trace.y[at]).includes(query())) return 0.12;
    return hit ? 0.6 : 1;
  };
  const dim = () => {
    const plot = graph();
    if (!plot) return;
    const opacity = plot._fullData.map((trace) =>
      query() ? Array.from(trace.y, (lane, at) => opacityOf(trace, at)) : 1
    );
    window.Plotly.restyle(plot, { "marker.opacity": opacity }, plot._fullData.map((trace, at) => at));
  };
  let place = null;
  const ask = (step) => {
    const [from, to] = moved().map((end) => Math.max(0, end * unit()));
    window.dash_clientside.set_props("lanes-asked", { data: { query: query(), from: from, to: to, place: place, step: step } });
  };
  const told = (found) => {
    if (!found || found.query !== query() || !query()) return query() ? skip() : "";
    if (found.hit) {
      [hit, place] = [found.hit, found.hit.place];
      move(...hit.window.map((end) => end / unit()));
      window.setTimeout(dim, 0);
      window.setTimeout(reveal, 3 * SLOW_MS);
    }
    return found.words;
  };
  // Lanes may be taller than the window of the browser.
  const reveal = () => {
    const plot = graph();
    const at = plot && hit ? (plot._fullLayout.yaxis._categories || []).indexOf(hit.lane) : -1;
    if (at < 0) return;
    const y = plot.getBoundingClientRect().top + plot._fullLayout._size.t + plot._fullLayout.yaxis.c2p(at);
    if (y < 80 || y > window.innerHeight - 80) window.scrollBy({ top: y - window.innerHeight / 2 });
  };

  const drawn = new WeakSet();
  let typing = null;
  document.addEventListener("input", (event) => {
    if (event.target.id !== "search" || !graph()) return;
    const plot = graph();
    if (!drawn.has(plot)) {
      drawn.add(plot);
      plot.on("plotly_react", () => query() && window.setTimeout(dim, 0)); // a new window has new bars
    }
    [hit, place] = [null, null];
    dim();
    window.clearTimeout(typing);
    typing = window.setTimeout(() => ask(0), SLOW_MS);
  });
  document.addEventListener("keydown", (event) => {
    if (!graph() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === "search" && event.key === "Enter" && query()) {
      window.clearTimeout(typing);
      ask(event.shiftKey ? -1 : 1);
    }
    if (!window.ncubble.typing() && KEYS[event.key]) KEYS[event.key]();
  });

  // The list of runs scrolls by itself: the one that is shown must be in sight once its page is there.
  new MutationObserver(() => {
    const list = document.querySelector(".timelines-page .sides");
    const line = list && list.querySelector("[aria-current]");
    if (!line || list.dataset.shown === line.textContent) return;
    list.dataset.shown = line.textContent;
    const [inner, outer] = [line.getBoundingClientRect(), list.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.top - outer.top - outer.height / 2;
  }).observe(document.documentElement, { childList: true, subtree: true });
  // The time axis again, which stays at the lower edge of the window while the lanes above it are taller than that.
  const ruler = (plot) => {
    const strip = document.getElementById("lanes-ruler");
    if (!strip || plot !== graph()) return;
    const [axis, size] = [plot._fullLayout.xaxis, plot._fullLayout._size];
    const height = plot.offsetHeight - size.t - size.h;
    Object.assign(strip.style, { height: `${height}px`, marginTop: `${-height}px` });
    const texts = [...axis._vals.map((tick) => [axis._offset + axis.l2p(tick.x), tick.text]), [axis._offset + axis._length / 2, axis.title.text]];
    strip.replaceChildren(
      ...texts.map(([left, text], at) => {
        const span = document.createElement("span");
        span.textContent = text;
        Object.assign(span.style, { left: `${left}px`, top: at < texts.length - 1 ? "3px" : "20px" });
        return span;
      })
    );
  };
  // On a phone, names of lanes would take most of the width: their ends tell lanes apart.
  const [NARROW_PX, LONGEST_NAME] = [600, 16];
  const names = (plot) => {
    const axis = plot._fullLayout.yaxis;
    const short = (name) => {
      const words = name.split(" ");
      while (words.length > 1 && words.join(" ").length > LONGEST_NAME) words.shift();
      const text = words.join(" ");
      return text === name ? name : "… " + text;
    };
    const texts = plot.offsetWidth < NARROW_PX ? Array.from(axis.tickvals, short) : null;
    if (String(axis.ticktext || "") !== String(texts || "")) window.Plotly.relayout(plot, { "yaxis.ticktext": texts });
  };
  const WAIT_MS = 50;
  const followed = new WeakSet();
  const follow = (tries) => {
    const plot = graph();
    if (!plot || !plot._fullLayout) {
      if (tries > 0) window.setTimeout(() => follow(tries - 1), WAIT_MS); // plotly itself is still being loaded
      return;
    }
    const all = () => (names(plot), ruler(plot));
    if (!followed.has(plot)) plot.on("plotly_afterplot", all);
    followed.add(plot);
    all();
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_lanes: {
      follow: function (figure) {
        if (figure) window.setTimeout(() => follow(200), 0); // behind Dash's own drawing
        return "lanes-ruler";
      },
      zoom: function (changed, run) {
        if (!changed || !run) return skip();
        if (changed["xaxis.autorange"]) return whole(run);
        const ends = changed["xaxis.range"] || [changed["xaxis.range[0]"], changed["xaxis.range[1]"]];
        if (!Number.isFinite(ends[0]) || !Number.isFinite(ends[1])) return skip();
        const [low, high] = ends.map((end) => Math.max(0, Math.round(unit() * end)));
        if (high <= low) return skip();
        window.ncubble.keep({ run: run, from: String(low), to: String(high) });
        return window.location.search;
      },
      told: told,
      whole: function (clicks, run) {
        return clicks && run ? whole(run) : skip();
      },
    },
  });
})();
