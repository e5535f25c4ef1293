// The overview: asks the server for the rows in sight, keeps the view in the address, and follows keys and clicks.
(function () {
  "use strict";
  const ROWS = "/_launches/rows";
  const VIEWS_KEY = "ncubble-views";
  const CHOSEN_KEY = "ncubble-chosen";
  const MOST_SIDES = 8;
  const SELECTION = "ag-Grid-SelectionColumn";
  const FIGURES_MS = 200; // loading plotly stops all for half a second: the table answers first
  const BELOW_MS = 3000; // and a figure that is out of sight waits until it comes into view, or this long
  const PATIENCE_MS = 2000; // the figure waits no longer for rows that do not come
  const HEAD = { claim: "headline-claim", place: "headline-place", more: "headline-more", order: "overview-order", matches: "match-count" };
  const NARROW = window.matchMedia("(max-width: 700px)");
  const SMALLEST = ["name", "account"]; // usual columns of a narrow window
  const at = (id) => document.getElementById(id);
  const skip = () => window.dash_clientside.no_update;
  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const shown = () => window.ncubble.shown;

  let grid = null; // the api of the table that is on the page
  let first = null; // the first block, which came with the page
  let there = false; // whether the table has shown rows: only then plotly is loaded
  let later = false; // whether the server draws the figure only after that
  let fresh = false; // whether that block still says what the server would
  let outdated = false; // whether news came while no table was there to ask for it
  let asked = 0; // grows with every change of what is listed: an answer to an older question sets no counts
  let chosen = new Map(); // selected rows by id: they outlive sorting, filtering and a look at another page
  let focused = null; // the row that has the focus
  let usual = []; // columns in their usual order

  // The view as its address says it. Everything that is not usual has a name here.
  const query = () => new URLSearchParams(window.location.search);
  const keep = (changes) => window.ncubble.keep(changes);
  const listed = () => {
    const from = query();
    return ["q", "sort", "filters", "group"].map((name) => name + "=" + (from.get(name) || "")).join("&");
  };

  // A click with a modifier belongs to the browser (new tab, new window, selection), not to the table.
  let modified = false;
  document.addEventListener(
    "click",
    (event) => {
      modified = event.ctrlKey || event.metaKey || event.shiftKey;
    },
    true
  );
  const visit = (href) => {
    window.history.pushState({}, "", href);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  };
  // The page of a launch holds its metrics against the pinned one.
  const kernel = (id) => {
    const pin = query().get("pin");
    return "/kernel/" + id + (pin && pin !== id && /^[0-9a-f]{8,64}\/\d{1,9}$/.test(pin) ? "?against=" + pin : "");
  };
  // A launch opens its page, a group the rows of its launches, here.
  const open = (id) => (/^(g-[0-9a-f]{12}|small)$/.test(id) ? toggle(id.replace("g-", "")) : visit(kernel(id)));
  const toggle = (name) => {
    const now = (query().get("open") || "").split(",").filter(Boolean);
    keep({ open: (now.includes(name) ? now.filter((one) => one !== name) : [...now, name]).join() });
    fresh = false;
    asked += 1;
    grid.refreshInfiniteCache();
  };

  // ----- rows
  const say = (text) => {
    if (at("query-said")) at("query-said").textContent = text || "";
  };
  const count = (answer) => {
    Object.entries(HEAD).forEach(([name, id]) => {
      if (at(id) && at(id).textContent !== answer.head[name]) at(id).textContent = answer.head[name];
    });
    at("nothing-matches").classList.toggle("hidden", answer.count > 0 || answer.total === 0);
    say(answer.said);
    pinned(answer.pinned);
  };
  const deliver = (params, answer, question) => {
    params.successCallback(answer.rows, answer.count);
    if (question === asked) count(answer);
    window.requestAnimationFrame(() => {
      reselect();
      refocus();
      if (!there) window.setTimeout(awaitSight, FIGURES_MS);
      there = true;
    });
  };
  const awaitSight = () => {
    const place = at("scatter-place");
    if (!place || !window.IntersectionObserver) return figures();
    let due = null;
    const draw = () => {
      window.clearTimeout(due);
      sight.disconnect();
      if (place.isConnected) figures();
    };
    const sight = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && draw(), { rootMargin: "-60px" });
    sight.observe(place);
    due = window.setTimeout(draw, BELOW_MS);
    return undefined;
  };
  const figures = () => {
    if (!at("launches")) return;
    there = true;
    set("overview-there", { data: true });
    if (later) set("overview-view", { data: window.location.search + "&" });
    later = false;
  };
  const address = (from, start, end) => {
    const text = from.toString();
    return ROWS + "?" + (text ? text + "&" : "") + "start=" + start + "&end=" + end;
  };
  const getRows = (params) => {
    const question = asked;
    if (first && fresh && params.startRow === 0 && first.query.replace("?", "") === query().toString()) {
      return deliver(params, first, question);
    }
    window
      .fetch(address(query(), params.startRow, params.endRow))
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error("status " + answer.status))))
      .then((answer) => deliver(params, answer, question))
      .catch((error) => {
        params.failCallback();
        if (question === asked && at("query-said")) failed(error);
      });
  };
  const failed = (error) => {
    const again = document.createElement("button");
    again.className = "button small";
    again.textContent = "Try again";
    again.addEventListener("click", () => ask());
    at("query-said").replaceChildren("The rows did not come (" + error.message + "). ", again);
  };

  // ----- what is listed: search, filters, order
  let waiting = null;
  const tell = () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => set("overview-view", { data: window.location.search }), 120);
  };
  const ask = () => {
    fresh = false;
    asked += 1;
    if (!grid || grid.isDestroyed()) return;
    if (grid.getDisplayedRowCount()) grid.ensureIndexVisible(0);
    grid.purgeInfiniteCache();
  };
  let typed = null;
  const searchSoon = () => {
    window.clearTimeout(typed);
    typed = window.setTimeout(searchNow, 120);
  };
  const searchNow = () => {
    const field = at("search");
    if (!field || !at("launches") || field.value === (query().get("q") || "")) return;
    keep({ q: field.value || null });
    ask();
    tell();
  };
  const sortWords = () =>
    grid
      .getColumnState()
      .filter((column) => column.sort)
      .sort((one, other) => one.sortIndex - other.sortIndex)
      .map((column) => (column.sort === "desc" ? "-" : "") + column.colId)
      .join(",");
  const sorted = () => {
    const words = sortWords();
    asked += 1;
    keep({ sort: words });
  };
  const filtered = () => {
    const model = grid.getFilterModel();
    const before = listed();
    keep({ filters: Object.keys(model).length ? JSON.stringify(model) : null });
    if (listed() === before) return;
    asked += 1;
    tell();
  };
  const reset = () => {
    keep({ q: null, filters: null, sort: null });
    set("search", { value: "" });
    asked += 1;
    if (grid) grid.applyColumnState({ defaultState: { sort: null } });
    if (grid && Object.keys(grid.getFilterModel()).length) grid.setFilterModel(null);
    else ask();
    tell();
  };

  // ----- columns
  const columnsShown = () => grid.getAllDisplayedColumns().map((column) => column.getColId()).filter((id) => id !== SELECTION);
  const columnsChanged = () => {
    const now = columnsShown();
    const choice = at("columns-shown");
    if (!choice) return;
    keep({ columns: now.join() === usual.join() ? null : now.join() });
  };
  const showColumns = (wanted) => {
    if (!grid || grid.isDestroyed()) return;
    const now = new Set(columnsShown());
    const hide = [...now].filter((id) => !wanted.includes(id));
    const add = wanted.filter((id) => !now.has(id));
    if (hide.length) grid.setColumnsVisible(hide, false);
    if (add.length) {
      grid.setColumnsVisible(add, true);
      grid.moveColumns(add, grid.getAllGridColumns().filter((column) => column.isVisible()).length - add.length);
      grid.ensureColumnVisible(add[add.length - 1]);
    }
  };
  const usualColumns = () => {
    grid.resetColumnState();
    grid.applyColumnState({
      state: [...usual.map((colId) => ({ colId: colId, hide: false }))],
      defaultState: { hide: true },
      applyOrder: false,
    });
    grid.setColumnsVisible([SELECTION], true);
    grid.moveColumns(usual, 1);
    set("columns-shown", { value: usual.slice() });
    keep({ columns: null });
    ask();
  };
  // A narrow window has room for two columns, which share it.
  const narrow = () => {
    grid.setGridOption("columnDefs", grid.getColumnDefs().map((one) => Object.assign({}, one, { minWidth: Math.min(one.minWidth || 0, 130), pinned: null })));
    showColumns(usual);
  };
  const findColumns = (text) => {
    const wanted = text.trim().toLowerCase();
    at("columns-shown")
      .querySelectorAll("label")
      .forEach((label) => label.classList.toggle("hidden", !label.textContent.toLowerCase().includes(wanted)));
  };

  // ----- selection, comparison, baseline
  const rememberChosen = () => {
    try {
      window.sessionStorage.setItem(CHOSEN_KEY, JSON.stringify([...chosen.keys()]));
    } catch (error) {
      // Storage is off: the selection lasts as long as the page.
    }
  };
  const recallChosen = () => {
    try {
      const ids = JSON.parse(window.sessionStorage.getItem(CHOSEN_KEY) || "[]");
      return new Map(ids.filter((id) => /^[0-9a-f]{8,64}\/\d{1,9}$/.test(id)).map((id) => [id, true]));
    } catch (error) {
      return new Map();
    }
  };
  let marking = false;
  const reselect = () => {
    if (!grid || grid.isDestroyed() || !chosen.size) return;
    marking = true;
    grid.forEachNode((node) => {
      if (node.data && chosen.has(node.data.id) && !node.isSelected()) node.setSelected(true);
    });
    marking = false;
    showChosen();
  };
  const selected = (event) => {
    if (marking || !event.node.data || event.node.rowPinned) return;
    if (event.node.isSelected()) chosen.set(event.node.data.id, true);
    else if (event.source !== "api" && event.source !== "rowDataChanged") chosen.delete(event.node.data.id);
    rememberChosen();
    showChosen();
  };
  const showChosen = () => {
    const ids = [...chosen.keys()];
    const few = ids.slice(0, MOST_SIDES);
    const words = ids.length > MOST_SIDES ? "the first " + MOST_SIDES : ids.length;
    set("compare-selected", {
      href: few.length < 2 ? "/compare" : "/compare?" + few.map((id) => "launch=" + id).join("&"),
      children: few.length < 2 ? "Compare" : "Compare " + words + " launches",
      className: few.length < 2 ? "button primary hidden" : "button primary",
    });
    showPin();
  };
  const pinnable = () => (chosen.size === 1 ? [...chosen.keys()][0] : focused);
  const showPin = () => {
    const button = at("pin-baseline");
    if (!button) return;
    const pin = query().get("pin");
    button.textContent = pin ? "Unpin baseline" : "Pin as baseline";
    button.disabled = !pin && !pinnable();
    button.title = pin || pinnable() ? "" : "Select one launch or focus its row first";
  };
  const pin = () => {
    const id = query().get("pin") ? null : pinnable();
    keep({ pin: id });
    if (!id) pinned(null);
    else
      window
        .fetch(address(query(), 0, 0))
        .then((answer) => answer.json())
        .then((answer) => pinned(answer.pinned))
        .catch(failed);
    showPin();
  };
  const COMPARED = { duration_ns: 150, recoverable_ns: 156, busy: 160, dram: 140, tensor: 140 };
  const pinned = (row) => {
    const before = shown().baseline;
    shown().baseline = row || null;
    showPin();
    if (!grid || grid.isDestroyed() || (before && before.id) === (row && row.id)) return;
    grid.setGridOption("pinnedTopRowData", row ? [row] : []);
    const widen = ([key, width]) => ({ key: key, newWidth: row ? width : grid.getColumnDef(key).width || 100 });
    grid.setColumnWidths(Object.entries(COMPARED).filter(([key]) => grid.getColumn(key)).map(widen));
    grid.refreshCells({ force: true });
  };

  // ----- saved views
  const views = () => {
    try {
      const found = JSON.parse(window.localStorage.getItem(VIEWS_KEY) || "[]");
      return found.filter((one) => one && typeof one.name === "string" && typeof one.query === "string").slice(0, 50);
    } catch (error) {
      return [];
    }
  };
  const storeViews = (list) => {
    try {
      window.localStorage.setItem(VIEWS_KEY, JSON.stringify(list));
    } catch (error) {
      say("The browser does not store views.");
    }
    listViews();
  };
  const listViews = () => {
    if (!at("saved-views")) return;
    const rows = views().map((one) => {
      const link = document.createElement("a");
      link.textContent = one.name;
      link.href = "/?" + one.query.replace(/^\?/, "");
      const remove = document.createElement("button");
      remove.className = "button small";
      remove.textContent = "Delete";
      remove.setAttribute("aria-label", "Delete view " + one.name);
      remove.addEventListener("click", () => storeViews(views().filter((other) => other.name !== one.name)));
      const row = document.createElement("div");
      row.append(link, remove);
      return row;
    });
    at("saved-views").replaceChildren(...(rows.length ? rows : ["No saved view yet."]));
  };
  const saveView = () => {
    const field = at("view-name");
    const name = field.value.trim().slice(0, 60);
    if (!name) return field.focus();
    storeViews([...views().filter((one) => one.name !== name), { name: name, query: window.location.search }]);
    return undefined;
  };
  const download = (suffix) => {
    const from = query();
    from.set("columns", columnsShown().join());
    const link = document.createElement("a");
    link.href = "/_launches/launches." + suffix + "?" + from.toString();
    link.download = "launches." + suffix;
    document.body.appendChild(link);
    link.click();
    link.remove();
  };

  // ----- keys: j and k move the focused row, Enter opens it, Space (the table's own) selects it
  let held = false; // whether the focus belongs in the table: rows that are drawn anew take it away
  const refocus = () => {
    const cell = held && grid && !grid.isDestroyed() && grid.getFocusedCell();
    if (!held || document.activeElement !== document.body || !grid.getDisplayedRowCount()) return;
    if (cell) grid.setFocusedCell(cell.rowIndex, cell.column, cell.rowPinned);
    else focusRow(0);
  };
  document.addEventListener("focusin", (event) => {
    held = Boolean(event.target.closest("#launches"));
  });
  window.addEventListener("popstate", () => {
    held = false; // another page, or this one anew: the focus of the last visit is over
  });
  const focusRow = (step) => {
    held = true;
    if (!grid || grid.isDestroyed() || !grid.getDisplayedRowCount()) return;
    const cell = grid.getFocusedCell();
    const from = cell && !cell.rowPinned ? cell.rowIndex + step : 0;
    const row = Math.max(0, Math.min(grid.getDisplayedRowCount() - 1, from));
    grid.ensureIndexVisible(row);
    grid.setFocusedCell(row, cell && cell.column.getColId() !== SELECTION ? cell.column : columnsShown()[0]);
  };
  const focusedNode = () => {
    const cell = grid && !grid.isDestroyed() && grid.getFocusedCell();
    if (!cell) return null;
    return cell.rowPinned ? grid.getPinnedTopRow(cell.rowIndex) : grid.getDisplayedRowAtIndex(cell.rowIndex);
  };
  document.addEventListener(
    "keydown",
    (event) => {
      if (!at("launches") || event.ctrlKey || event.metaKey || event.altKey) return;
      const inside = event.target.closest && event.target.closest("#launches .ag-row");
      if (event.key === "Enter" && inside && !event.target.closest("input, button")) {
        const node = focusedNode();
        if (node && node.data) open(node.data.id);
      }
      if (window.ncubble.typing()) {
        if (event.key === "Escape" && event.target.id === "search") event.target.blur();
        if (event.key === "ArrowDown" && event.target.id === "search") focusRow(0);
        return;
      }
      if (event.key === "j") focusRow(1);
      if (event.key === "k") focusRow(-1);
    },
    true
  );
  const clicks = {
    "reset-filters": reset,
    "show-all": reset,
    "pin-baseline": pin,
    "save-view": saveView,
    "usual-columns": usualColumns,
    "download-csv": () => download("csv"),
    "download-json": () => download("json"),
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button");
    if (button && clicks[button.id] && !button.disabled) clicks[button.id]();
    document.querySelectorAll("details.tool-menu[open]").forEach((menu) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest && event.target.closest("details.tool-menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  document.addEventListener("input", (event) => {
    if (event.target.id === "columns-search") findColumns(event.target.value);
    if (event.target.id === "search" && at("launches")) searchSoon();
  });

  const listen = () => {
    grid.addEventListener("sortChanged", sorted);
    grid.addEventListener("filterChanged", filtered);
    grid.addEventListener("displayedColumnsChanged", columnsChanged);
    grid.addEventListener("rowSelected", selected);
    grid.addEventListener("cellFocused", () => {
      const node = focusedNode();
      focused = node && node.data && !node.data.group ? node.data.id : null;
      showPin();
    });
  };
  // The table sets a source of its own once it is ready, at a moment that it does not tell: ours goes in again after it.
  const hold = (api, source) => {
    const again = () => {
      if (!api.isDestroyed() && api.getGridOption("datasource") !== source) api.setGridOption("datasource", source);
    };
    again();
    api.addEventListener("gridReady", () => window.setTimeout(again, 0));
    [0, 30, 100, 300, 1000].forEach((later) => window.setTimeout(again, later));
  };
  const start = (api, block) => {
    grid = api;
    first = block;
    fresh = !outdated;
    outdated = false;
    focused = null;
    held = held && document.activeElement === document.body;
    chosen = recallChosen();
    shown().baseline = null;
    shown().time = query().get("time") || "auto";
    asked += 1;
    if (NARROW.matches && !query().get("columns")) narrow();
    listen();
    hold(grid, { getRows: getRows });
    pinned(block.pinned);
    listViews();
    showChosen();
    there = false;
    later = block.figure_later;
    window.setTimeout(() => there || figures(), PATIENCE_MS);
    searchSoon(); // what was typed before the table was there
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_overview: {
      start: function (block) {
        if (!block) return skip();
        usual = NARROW.matches ? block.usual.filter((name) => SMALLEST.includes(name)) : block.usual;
        return window.dash_ag_grid.getApiAsync("launches").then((api) => {
          start(api, block);
          return true;
        });
      },
      place: function (there, waiting) {
        return there ? waiting : skip();
      },
      refresh: function () {
        fresh = false;
        if (grid && !grid.isDestroyed()) grid.refreshInfiniteCache();
        else outdated = true;
        return skip();
      },
      columns: function (wanted) {
        showColumns(wanted || []);
        return skip();
      },
      group: function (by) {
        keep({ group: by === "kernel" ? null : by, open: null });
        ask();
        return skip();
      },
      figure: function (kind) {
        keep({ figure: kind === "utilization" ? null : kind });
        tell();
        return skip();
      },
      time: function (unit) {
        keep({ time: unit === "auto" ? null : unit });
        shown().time = unit;
        if (grid && !grid.isDestroyed()) grid.refreshCells({ force: true });
        return skip();
      },
      openRow: function (cell) {
        const text = window.getSelection && String(window.getSelection());
        if (cell && cell.colId !== SELECTION && cell.rowId && !text && !modified) open(cell.rowId.replace(/^t-/, ""));
        return skip();
      },
      openPoint: function (click) {
        const point = click && click.points && click.points[0];
        if (point && typeof point.customdata === "string") open(point.customdata);
        return skip();
      },
    },
  });
})();
