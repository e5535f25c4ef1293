// Cells of the table of launches. Every text from a report becomes a text node; nothing here builds markup from it.
(function () {
  "use strict";
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const MISSING = "not collected";
  const missing = (value) => value === null || value === undefined || value === "";

  functions.ncPercent = (value) => (missing(value) ? MISSING : value.toFixed(1));
  functions.ncText = (value) => (missing(value) ? MISSING : String(value));
  functions.ncClass = (params) => (missing(params.value) ? "missing" : "");
  functions.ncNumber = (params) => (missing(params.value) ? "missing right" : "right num");
  functions.ncDuration = (value) => {
    if (missing(value)) return MISSING;
    if (value === 0) return "0";
    const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
    const [scale, unit] = units.find(([limit]) => value >= limit) || units[3];
    const scaled = value / scale;
    const digits = scale === 1 ? 0 : Math.max(0, 3 - String(Math.trunc(scaled)).length);
    return scaled.toFixed(digits) + " " + unit;
  };
  functions.ncNullsLast = (left, right, leftNode, rightNode, inverted) => {
    if (missing(left) || missing(right)) {
      if (missing(left) && missing(right)) return 0;
      return missing(left) !== Boolean(inverted) ? 1 : -1;
    }
    return left - right;
  };

  const make = (...parts) => window.React.createElement(...parts);

  const dot = (color) => make("span", { className: "swatch", style: color ? { background: color } : {} });

  cells.NcKernel = function (props) {
    const go = (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.preventDefault();
    };
    return make("a", { href: "/kernel/" + props.data.id, onClick: go, className: "row-link" }, props.value);
  };

  cells.NcBusy = function (props) {
    if (missing(props.value)) return make("span", null, MISSING);
    return make("span", { className: "cause-cell" }, make("span", { className: "unit" }, props.data.unit), make("span", { className: "num" }, props.value.toFixed(1)));
  };

  cells.NcCause = function (props) {
    const parts = (props.context && props.context.parts) || {};
    const causes = (props.context && props.context.causes) || {};
    const part = parts[props.data.cause_key];
    const color = part ? part[1] : causes[props.data.cause_key];
    const words = props.data.disease ? props.value + " · " + props.data.disease : props.value;
    const cost = missing(props.data.cause_pct) ? null : make("span", { className: "num" }, props.data.cause_pct.toFixed(1));
    return make("span", { className: "cause-cell", title: words }, dot(color), make("span", { className: "cause-name" }, words), cost);
  };

  cells.NcBubble = function (props) {
    const parts = (props.context && props.context.parts) || {};
    if (missing(props.value)) return make("span", null, MISSING);
    const part = parts[props.data.bubble_key];
    const words = make("span", { className: "bubble-name" }, props.data.bubble);
    return make("span", { className: "cause-cell" }, dot(part && part[1]), words, make("span", { className: "num" }, props.value.toFixed(1)));
  };

  cells.NcAccount = function (props) {
    const parts = (props.context && props.context.parts) || {};
    if (!props.value || !props.value.length) return make("span", { className: "missing" }, MISSING);
    const words = props.value.map(([name, share]) => (parts[name] ? parts[name][0] : name) + " " + share.toFixed(1) + " %");
    const segments = props.value.map(([name, share]) =>
      make("span", { key: name, style: { width: share + "%", background: parts[name] ? parts[name][1] : "#808890" } })
    );
    return make("span", { className: "account-cell", role: "img", "aria-label": words.join(", "), title: words.join("\n") }, ...segments);
  };
})();
