// What runs in the browser: theme, figures that follow it, the table's search, and links from rows and points.
(function () {
  "use strict";
  const KEY = "ncubble-theme";
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const resolve = (choice) => (choice === "light" || choice === "dark" ? choice : media.matches ? "dark" : "light");
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    return theme;
  };

  // Before the first paint: the choice of the last visit, so that a dark page never flashes white.
  let stored = null;
  try {
    stored = window.localStorage.getItem(KEY);
  } catch (error) {
    stored = null;
  }
  apply(resolve(stored));
  media.addEventListener("change", () => {
    window.dash_clientside.set_props("system-theme", { data: media.matches ? "dark" : "light" });
  });

  const skip = () => window.dash_clientside.no_update;
  const shown = (figure, theme, templates) => ({
    data: figure.data,
    layout: Object.assign({}, figure.layout, { template: templates[theme] }),
  });
  // A click with a modifier belongs to the browser (new tab, new window, selection), not to the table.
  let modified = false;
  document.addEventListener(
    "click",
    (event) => {
      modified = event.ctrlKey || event.metaKey || event.shiftKey;
    },
    true
  );
  const MOST_SIDES = 8;
  // Without a secure context (plain HTTP from another host) there is no clipboard but that of a selected text.
  const copyByHand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.appendChild(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  // The state of a page lies in its address. Parameters that are null, empty or [] leave it; nothing is loaded anew.
  const keep = (changes) => {
    const query = new URLSearchParams(window.location.search);
    Object.entries(changes).forEach(([name, value]) => {
      query.delete(name);
      [].concat(value === null || value === undefined || value === "" ? [] : value).forEach((one) => query.append(name, one));
    });
    const text = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
    const address = window.location.pathname + (text ? "?" + text : "");
    if (address !== window.location.pathname + window.location.search) window.history.replaceState(window.history.state, "", address);
  };
  const copy = (text) => {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text).then(() => true, () => false);
    return Promise.resolve(copyByHand(text));
  };
  const typing = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) || document.activeElement.isContentEditable;
  window.ncubble = Object.assign({}, window.ncubble, { keep: keep, copy: copy, typing: typing });
  const open = (id) => (id ? "/kernel/" + id : skip());

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble: {
      theme: function (choice) {
        try {
          window.localStorage.setItem(KEY, choice);
        } catch (error) {
          // Storage is off: the choice lasts as long as the page.
        }
        return apply(resolve(choice));
      },
      title: function (title) {
        if (title) document.title = title;
        return title || skip();
      },
      draw: function (figure, theme, templates) {
        return figure && theme && templates ? shown(figure, theme, templates) : skip();
      },
      search: function (text, options) {
        return Object.assign({}, options, { quickFilterText: text || "" });
      },
      matches: function (visible, rows) {
        if (!visible || !rows) return "";
        return visible.length === rows.length ? rows.length + " shown" : visible.length + " of " + rows.length + " shown";
      },
      reset: function () {
        return [{}, ""];
      },
      filterScatter: function (visible, figure) {
        if (!figure) return skip();
        if (!visible) return figure;
        const ids = new Set(visible.map((row) => row.id));
        const data = figure.data.map((trace) => {
          const keep = trace.customdata.map((id) => ids.has(id));
          const pick = (list) => list.filter((_, index) => keep[index]);
          return Object.assign({}, trace, {
            x: pick(trace.x),
            y: pick(trace.y),
            text: pick(trace.text),
            customdata: pick(trace.customdata),
            marker: Object.assign({}, trace.marker, { size: pick(trace.marker.size) }),
          });
        });
        return { data: data.filter((trace) => trace.x.length), layout: figure.layout };
      },
      compareLink: function (rows) {
        const chosen = (rows || []).slice(0, MOST_SIDES);
        const href = "/compare?" + chosen.map((row) => "launch=" + row.id).join("&");
        if (chosen.length < 2) return ["/compare", "Compare", "button primary hidden"];
        const count = rows.length > MOST_SIDES ? "the first " + MOST_SIDES : rows.length;
        return [href, "Compare " + count + " launches", "button primary"];
      },
      copyMarkdown: function (clicks, text) {
        if (!clicks) return skip();
        const said = (ok) => (ok ? "copied" : "The browser refused: copy the text below.");
        return copy(text).then(said);
      },
      copyLink: function () {
        const button = document.getElementById("copy-link");
        return copy(window.location.href).then((ok) => {
          button.textContent = ok ? "Copied" : "Not copied";
          window.setTimeout(() => (button.textContent = "Copy link"), 1500);
          return ok;
        });
      },
      openRow: function (cell) {
        if (cell && cell.colId === "ag-Grid-SelectionColumn") return skip();
        const selected = window.getSelection && String(window.getSelection());
        return cell && !selected && !modified ? open(cell.rowId) : skip();
      },
      openPoint: function (click) {
        return click && click.points && click.points.length ? open(click.points[0].customdata) : skip();
      },
    },
  });

  const help = (show) => {
    const dialog = document.getElementById("help");
    if (dialog && show && !dialog.open) dialog.showModal();
    if (dialog && !show && dialog.open) dialog.close();
  };
  document.addEventListener("click", (event) => {
    if (event.target.id === "show-help") help(true);
    if (event.target.id === "hide-help" || event.target.id === "help") help(false);
  });
  document.addEventListener("keydown", (event) => {
    if (typing() || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.getElementById("search");
    if (event.key === "?") help(true);
    if (event.key === "/" && search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
    const compare = document.getElementById("compare-selected");
    if (event.key === "c" && compare && !compare.classList.contains("hidden")) compare.click();
    const step = { "[": "previous-launch", "]": "next-launch", s: "show-source" }[event.key];
    const link = step && document.getElementById(step);
    if (link) link.click();
  });
})();
