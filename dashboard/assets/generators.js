// The few generators in Dash's compiled scripts, which else bring a polyfill of 100 kB: it takes 190 ms to start, and
// puts slower promises in place of the browser's own. Steps without try blocks are all that those scripts hold.
(function () {
  "use strict";
  const wrap = (step, _self, _outer, tries) => {
    if (tries) throw new Error("generators with try blocks are not supported");
    const state = { prev: 0, next: 0, sent: undefined, done: false };
    state.stop = () => {
      state.done = true;
    };
    state.abrupt = (_kind, value) => {
      state.done = true;
      return value;
    };
    const next = (value) => {
      state.sent = value;
      const given = state.done ? undefined : step(state);
      return { value: given, done: state.done };
    };
    const fail = (error) => {
      state.done = true;
      throw error;
    };
    return { next: next, throw: fail };
  };
  window.regeneratorRuntime = window.regeneratorRuntime || { mark: (made) => made, wrap: wrap };
})();
