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
  window.fetch = (resource, options) => {
    const answer = early.get(resource);
    early.delete(resource);
    if (!early.size) window.fetch = plain;
    return answer || plain(resource, options);
  };
})();
