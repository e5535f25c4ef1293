// What runs in the browser on every page: theme, figures that follow it, the address, the clipboard, keys.
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
  // Dash knows no component before its layout is there, which may come after a change.
  const follow = () => {
    if (!document.getElementById("theme-choice")) window.setTimeout(follow, 50);
    else window.dash_clientside.set_props("system-theme", { data: media.matches ? "dark" : "light" });
  };
  media.addEventListener("change", follow);

  const skip = () => window.dash_clientside.no_update;
  // Names above the time axis of a narrow window: those that would lie on an earlier one, which matters more, are left out.
  const NAME_PX = 105, MARGINS_PX = 210, NARROW_PX = 900;
  const named = (layout) => {
    const ends = layout.xaxis && layout.xaxis.range;
    if (!layout.annotations || !ends || window.innerWidth > NARROW_PX) return layout.annotations;
    const scale = (window.innerWidth - MARGINS_PX) / (ends[1] - ends[0]);
    const kept = [];
    return layout.annotations.filter((note) => {
      if (note.xref !== "x" || note.yref !== "paper") return true;
      const clear = kept.every((x) => Math.abs(x - note.x) * scale >= NAME_PX);
      if (clear) kept.push(note.x);
      return clear;
    });
  };
  // On a phone, texts right of a figure stand in it: their margin would take half of the width.
  const PHONE_PX = 480, WIDE_PX = 100;
  const fitted = (layout) => {
    const annotations = named(layout);
    const margin = layout.margin || {};
    if (window.innerWidth > PHONE_PX || !(margin.r > WIDE_PX)) return { annotations: annotations };
    const inside = (note) => (note.xref === "paper" && note.x >= 1 ? Object.assign({}, note, { xanchor: "right" }) : note);
    return { annotations: annotations && annotations.map(inside), margin: Object.assign({}, margin, { r: 8 }) };
  };
  const shown = (figure, theme, templates) => ({
    data: figure.data,
    layout: Object.assign({}, figure.layout, { template: templates[theme] }, fitted(figure.layout)),
  });
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
  // Whether letters go into what has the focus: into texts and lists of choices, not into switches and buttons.
  const typing = () => {
    const focus = document.activeElement;
    if (focus.tagName === "INPUT") return !/^(radio|checkbox|button|submit|reset|file|range|color|image)$/.test(focus.type);
    return /^(TEXTAREA|SELECT)$/.test(focus.tagName) || focus.isContentEditable;
  };
  window.ncubble = Object.assign({}, window.ncubble, { keep: keep, copy: copy, typing: typing });

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
