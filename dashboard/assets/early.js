// Asks for the layout, with the page of this address in it, and for the callbacks while Dash's scripts still load. Dash
// finds the answers there when it asks.
(function () {
  "use strict";
  const plain = window.fetch;
  const address = new URLSearchParams({ path: window.location.pathname, search: window.location.search });
  const early = new Map();
  const ask = (path, query) => early.set(path, plain(path + query));
  ask("/_dash-layout", "?" + address);
  ask("/_dash-dependencies", "");
  // Dash requests plotly.js once it has built a page; pages that begin with a figure do so now, and Dash waits for that.
  Object.defineProperty(window, "_dashPlotlyJSURL", { get: () => "FIGURES", set: () => {} });
  if (/^\/(kernel|compare|sweep|program|timelines)\b/.test(window.location.pathname)) {
    const script = document.createElement("script");
    script.src = "FIGURES";
    window.Plotly = new Promise((arrive, fail) => Object.assign(script, { onload: () => arrive(), onerror: fail }));
    document.head.append(script);
  }
  window.fetch = (resource, options) => {
    const answer = early.get(resource);
    early.delete(resource);
    if (!early.size) window.fetch = plain;
    return answer || plain(resource, options);
  };
})();
