// Cells of the table of launches. Every text from a report becomes a text node; nothing here builds markup from it.
(function () {
  "use strict";
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const MISSING = "not collected";
  const missing = (value) => value === null || value === undefined || value === "";
  // What the page shows beside the rows: the pinned row (or null) and the unit of time. overview.js sets it.
  const shown = { baseline: null, time: "auto" };
  window.ncubble = Object.assign({}, window.ncubble, { shown: shown });
  const UNITS = { s: 1e9, ms: 1e6, us: 1e3, "µs": 1e3, ns: 1 };

  const digits = (value) => Math.max(0, 3 - String(Math.trunc(Math.abs(value))).length);
  const duration = (value) => {
    if (value === 0) return "0";
    if (shown.time !== "auto") return (value / UNITS[shown.time]).toLocaleString("en", { maximumFractionDigits: shown.time === "ns" ? 0 : 3 });
    const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find((one) => value >= one[1]) || ["ns", 1];
    return (value / scale).toFixed(scale === 1 ? 0 : digits(value / scale)) + " " + unit;
  };
  const bytes = (value) => (value >= 1024 ? (value / 1024).toFixed(value % 1024 ? 1 : 0) + " KiB" : value + " B");
  const plain = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
  // A row that is still on its way has no data: its cells stay empty, and nothing is said of it.
  const drawn = (write) => (params) => (!params.data ? "" : missing(params.value) ? absent(params.data, params.colDef.field) : write(params.value));
  // A row of several launches has no single value of some fields; it says so, in place of "not collected".
  const absent = (data, field) => (data && data.several && data.several.includes(field) ? (data.group === "small" ? "" : "several") : MISSING);
  functions.ncIsLaunch = (params) => Boolean(params.data && !params.data.group);
  functions.ncTime = drawn(duration);
  functions.ncPercent = drawn((value) => value.toFixed(1));
  functions.ncBytes = drawn(bytes);
  functions.ncPlain = drawn(plain);
  functions.ncText = drawn(String);
  functions.ncClass = (params) => (params.data && missing(params.value) ? "missing" : "");
  functions.ncNumber = (params) => (params.data && missing(params.value) ? "missing right" : "right num");
  functions.ncRaw = (params, unit) => (missing(params.value) ? MISSING : params.value + (unit ? " " + unit : ""));
  // A comma parts groups of three digits, or else stands for the point: "1,500" is 1500, "1,5" and "0,500" are not.
  const readNumber = (text) => {
    if (/^-?[1-9]\d{0,2}(,\d{3})+(?:\.\d*)?(?:e-?\d+)?$/i.test(text)) return Number(text.replaceAll(",", ""));
    return text.split(",").length > 2 || (text.includes(",") && text.includes(".")) ? NaN : Number(text.replace(",", "."));
  };
  // Filters of times: "1.5 ms", or a bare number in the unit that the table shows (µs where that is automatic).
  functions.ncReadTime = (text) => {
    const found = /^\s*(-?[\d.,]+(?:e-?\d+)?)\s*(s|ms|us|µs|ns)?\s*$/i.exec(String(text === null || text === undefined ? "" : text));
    if (!found) return null;
    const unit = (found[2] || (shown.time === "auto" ? "us" : shown.time)).toLowerCase();
    const number = readNumber(found[1]);
    return Number.isFinite(number) ? number * UNITS[unit] : null;
  };
  functions.ncWriteTime = (value) => {
    if (missing(value)) return null;
    const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find((one) => Math.abs(value) >= one[1]) || ["ns", 1];
    return Number((value / scale).toPrecision(12)) + " " + unit;
  };

  const make = (...parts) => window.React.createElement(...parts);
  const dot = (color, hatch) => make("span", { className: ("swatch " + (hatch || "")).trim(), style: color ? { background: color } : {} });
  const SHARES = { busy: 1, dram: 1, tensor: 1, occupancy: 1 };
  // Which way is better, where that is known: more DRAM traffic or occupancy is neither good nor bad by itself.
  const BETTER = { duration_ns: -1, recoverable_ns: -1, cycles: -1, busy: 1, tensor: 1, tflops: 1 };
  // The difference to the pinned row: points for shares, percent for everything else. The arrow says what the colour says.
  const difference = (props) => {
    const base = shown.baseline && shown.baseline[props.colDef.field];
    if (missing(base) || missing(props.value) || props.node.rowPinned || props.data.id === shown.baseline.id) return null;
    const points = SHARES[props.colDef.field];
    if (!points && !base) return null;
    const change = points ? props.value - base : (100 * (props.value - base)) / base;
    const words = Math.abs(change) < 0.05 ? "±0" : (change > 0 ? "+" : "−") + Math.abs(change).toFixed(1) + (points ? " pt" : " %");
    const gain = Math.abs(change) < 0.05 ? 0 : change * (BETTER[props.colDef.field] || 0);
    const kind = gain > 0 ? "better" : gain < 0 ? "worse" : "";
    return make("small", { className: ("delta " + kind).trim(), title: kind ? kind + " than the pinned launch" : "against the pinned launch" }, words);
  };
  const written = (props) => props.valueFormatted || (missing(props.value) ? absent(props.data, props.colDef.field) : String(props.value));
  const lines = (first, second, kind) =>
    make("span", { className: ("two-lines " + (kind || "")).trim() }, make("span", { className: "first" }, first), make("span", { className: "second", title: second || "" }, second || ""));

  cells.NcCompared = function (props) {
    if (!props.data) return null;
    const delta = difference(props);
    return delta ? make("span", { className: "compared" }, delta, make("span", null, written(props))) : written(props);
  };

  cells.NcTime = function (props) {
    if (!props.data) return null;
    const delta = difference(props);
    const share = missing(props.data.time_pct) ? "" : props.data.time_pct.toFixed(1) + " %";
    return lines(delta ? make("span", { className: "compared" }, delta, make("span", null, written(props))) : written(props), share, "to-right");
  };

  // A group opens and closes by its button, a click anywhere on its row, or Enter.
  const groupName = (data) => [
    make("button", { key: "toggle", type: "button", className: "toggle", tabIndex: -1, "aria-expanded": Boolean(data.open), "aria-label": (data.open ? "Close " : "Open ") + data.name }, data.open ? "▾" : "▸"),
    make("span", { key: "name", className: "row-group" }, data.name),
    data.group === "small" ? null : make("span", { key: "count", className: "tag" }, "×" + data.count.toLocaleString("en")),
  ];
  cells.NcKernel = function (props) {
    const data = props.data;
    if (!data) return make("span", { className: "loading-cell" }, "…");
    const go = (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) event.preventDefault();
    };
    const beside = shown.baseline && shown.baseline.id !== data.id ? "?against=" + shown.baseline.id : "";
    const link = () => make("a", { href: "/kernel/" + data.id + beside, onClick: go, className: "row-link", tabIndex: -1 }, data.title || props.value);
    const first = data.group ? groupName(data) : props.node.rowPinned ? [make("span", { key: "tag", className: "tag" }, "baseline"), " ", link()] : link();
    return make("span", { className: "kernel-cell depth-" + (data.depth || 0) }, lines(first, props.node.rowPinned ? data.label : data.detail));
  };

  cells.NcBusy = function (props) {
    if (!props.data) return null;
    if (missing(props.value)) return make("span", null, written(props));
    const number = make("span", { className: "num" }, props.value.toFixed(1));
    return lines(make("span", { className: "compared" }, difference(props), number), props.data.unit, "to-right");
  };

  const costs = (data) => {
    const words = [];
    if (data.cause_key === "unknown") words.push("counters not collected");
    if (!missing(data.cause_pct)) words.push(data.cause_pct.toFixed(1) + " % of time" + (missing(data.at) ? "" : " at " + data.at));
    if (data.group && data.judged && data.judged < data.count) words.push("judged in " + data.judged + " of " + data.count + " launches");
    return words.join(", ");
  };
  cells.NcCause = function (props) {
    const data = props.data;
    if (!data || data.group === "small") return null;
    const context = props.context || {};
    const part = (context.parts || {})[data.cause_key];
    const color = part ? part[1] : (context.causes || {})[data.cause_key];
    const words = data.change ? props.value + " · " + data.change : props.value;
    const first = [make("span", { key: "dot" }, dot(color, part && part[2])), make("span", { key: "name", className: "cause-name" }, words)];
    return make("span", { className: "cause-cell", title: (context.meanings || {})[data.cause_key] || words }, lines(first, costs(data)));
  };

  cells.NcBubble = function (props) {
    if (!props.data) return null;
    const parts = (props.context && props.context.parts) || {};
    if (missing(props.value)) return make("span", null, written(props));
    const part = parts[props.data.bubble_key];
    const words = make("span", { className: "bubble-name" }, props.data.bubble);
    return make("span", { className: "cause-cell" }, dot(part && part[1], part && part[2]), words, make("span", { className: "num" }, props.value.toFixed(1)));
  };

  cells.NcAccount = function (props) {
    if (!props.data) return null;
    const parts = (props.context && props.context.parts) || {};
    const measured = props.data.measured;
    const account = measured || props.value;
    if (!account || !account.length) return make("span", { className: "missing" }, absent(props.data, "account"));
    const words = account.map(([name, share]) => (parts[name] ? parts[name][0] : name) + " " + share.toFixed(1) + " %");
    if (measured) words.unshift("measured by ablation");
    const inks = (props.context && props.context.inks) || {};
    // A name where it fits its segment, else the share, else nothing.
    const width = props.column.getActualWidth() - 34;
    const label = (name, share) => {
      const words = (name === "unit_busy" && props.data.unit ? props.data.unit + " busy" : parts[name] ? parts[name][0] : name) + " " + share.toFixed(0) + " %";
      const fits = (text) => (share / 100) * width > text.length * 6 + 6;
      return [words, share.toFixed(0), ""].find(fits) || "";
    };
    const segments = account.filter(([, share]) => share > 0).map(([name, share]) =>
      make(
        "span",
        { key: name, className: parts[name] ? parts[name][2] : "", style: { width: share + "%", background: parts[name] ? parts[name][1] : "#808890", color: inks[name] || "#ffffff" } },
        make("span", { className: "share", style: { background: parts[name] ? parts[name][1] : "#808890" } }, label(name, share))
      )
    );
    return make("span", { className: "account-cell", role: "img", "aria-label": words.join(", "), title: words.join("\n") }, ...segments);
  };
})();
