// The Checks page in the browser: cells of its table, and the address that follows every choice.
// Every text from a history becomes a text node; addresses hold checked names only.
(function () {
  "use strict";
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const make = (...parts) => window.React.createElement(...parts);
  const skip = () => window.dash_clientside.no_update;
  const none = (value) => value === null || value === undefined;

  // Rows without a number come last, whichever way the others are sorted.
  functions.ncChecksByChange = (left, right, one, other, inverted) => {
    const a = one.data.change_pct;
    const b = other.data.change_pct;
    if (none(a) || none(b)) return none(a) && none(b) ? 0 : none(a) !== Boolean(inverted) ? 1 : -1;
    return a - b;
  };
  functions.ncChecksByTime = (left, right, one, other) => one.data.checked - other.data.checked;

  const style = (props, verdict) => (props.context.verdicts || {})[verdict] || [String(verdict).replaceAll("_", " "), "#858d96", "■"];

  cells.NcCheckKernel = function (props) {
    if (!props.data) return null;
    const [kernel, gpu] = props.data.id.split("/");
    const stay = (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.preventDefault();
    };
    const href = "/checks?kernel=" + encodeURIComponent(kernel) + "&gpu=" + encodeURIComponent(gpu);
    const [name, ...parameters] = props.value.split(/ (?=\w+=)/);
    const second = make("span", { className: "second" }, parameters.join(" "));
    return make("a", { href: href, onClick: stay, className: "row-link two-lines", tabIndex: -1 }, make("span", null, name), " ", second);
  };

  cells.NcVerdict = function (props) {
    if (!props.data) return null;
    const [, color, sign] = style(props, props.data.verdict_key);
    return make("span", { className: "verdict-words" }, make("span", { className: "sign", style: { color: color }, "aria-hidden": true }, sign), props.value);
  };

  cells.NcStrip = function (props) {
    if (!props.data) return null;
    const marks = props.value.map((verdict, index) => {
      const [words, color, sign] = style(props, verdict);
      return make("span", { key: index, className: "sign", style: { color: color }, title: words }, sign);
    });
    const words = "last " + props.value.length + " checks, of all: " + props.data.counted;
    return make("span", { className: "strip", role: "img", "aria-label": words }, ...marks);
  };

  const address = () => Object.fromEntries(new URLSearchParams(window.location.search));
  // A choice adds to the address, which changes at once. Dash's copy changes later: of two choices made
  // before it does, the second would undo the first.
  const change = (parts) => {
    const before = address();
    if (Object.keys(parts).every((name) => (before[name] || "") === parts[name])) return skip();
    window.ncubble.keep(parts);
    return window.location.search;
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_checks: {
      choose: function (rows) {
        if (!Array.isArray(rows) || !rows.length || !rows[0].id) return skip();
        const [kernel, gpu] = rows[0].id.split("/");
        return change({ kernel: kernel, gpu: gpu });
      },
      metric: function (value) {
        return value ? change({ metric: value }) : skip();
      },
      axis: function (value) {
        return value ? change({ axis: value === "order" ? value : "" }) : skip();
      },
      search: function (text, options) {
        const search = (text || "").trim();
        window.ncubble.keep({ q: search });
        return [Object.assign({}, options, { quickFilterText: search }), search];
      },
      matches: function (visible, rows) {
        if (!visible || !rows) return "";
        if (rows.length && !visible.length) return "Nothing matches: Reset shows all " + rows.length;
        return visible.length === rows.length ? rows.length + " shown" : visible.length + " of " + rows.length + " shown";
      },
      reset: function () {
        return ["", {}];
      },
    },
  });

  document.addEventListener("keydown", (event) => {
    const search = document.getElementById("checks-search");
    if (!search || event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || window.ncubble.typing()) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
})();
