// The Source page: two lists, source lines and instructions, joined by line and heated by the samples of one cause.
(function () {
  "use strict";
  const LONG_TEXT = 60; // characters of a line that a narrow pane may cut: all of it is in its tooltip
  const skip = () => window.dash_clientside.no_update;
  const KEEP_AFTER = 200; // ms: browsers refuse addresses that change faster for long
  const FOLLOW_AFTER = 120;
  const base = (name) => name.split(/[\\/]/).pop() || name;
  const percent = (value) => (value === 0 ? "0" : value < 0.05 ? "<0.1" : value.toFixed(1));
  const count = (value) => {
    if (value === null || value === undefined) return "n/c";
    const scale = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => value >= one);
    return scale ? (value / scale[0]).toPrecision(3) + scale[1] : String(value);
  };
  const hex = (pc) => "0x" + pc.toString(16).padStart(4, "0");
  const plural = (number, word) => number + " " + word + (number === 1 ? "" : "s");

  // What the server sent, with the places of lines and the heat of each row.
  class Code {
    constructor(data) {
      Object.assign(this, data);
      this.causes.forEach((cause) => {
        let row = 0;
        cause.rows = cause.steps.map((step) => (row += step));
        cause.percent = cause.counts.map((samples) => samples * cause.scale);
      });
      this.rowCount = data.sass.length;
      this.places = data.files.map(() => new Map());
      for (let row = 0; row < this.rowCount; row++) {
        if (this.file[row] < 0) continue;
        const lines = this.places[this.file[row]];
        const rows = lines.get(this.line[row]);
        if (rows) rows.push(row);
        else lines.set(this.line[row], [row]);
      }
      this.views = new Map();
      this.heat(this.causes.length ? this.causes[0].id : "", "");
    }

    cause() {
      return this.causes.find((one) => one.id === this.by) || null;
    }

    heat(by, op) {
      this.by = this.causes.some((one) => one.id === by) ? by : this.causes.length ? this.causes[0].id : "";
      this.op = this.kinds.some((kind) => kind.id === op) ? op : "";
      const kind = this.kinds.findIndex((one) => one.id === this.op);
      this.hot = new Float64Array(this.rowCount);
      const cause = this.cause();
      if (cause) cause.rows.forEach((row, at) => (this.hot[row] = kind < 0 || this.kind[row] === kind ? cause.percent[at] : 0));
      this.order = [...this.hot.keys()].filter((row) => this.hot[row] > 0).sort((a, b) => this.hot[b] - this.hot[a] || a - b);
      this.mostRow = this.order.length ? this.hot[this.order[0]] : 0;
      this.whole = this.hot.reduce((a, b) => a + b, 0);
      this.lineHeat = this.places.map((lines) => {
        const heat = new Map();
        lines.forEach((rows, line) => heat.set(line, rows.reduce((sum, row) => sum + this.hot[row], 0)));
        return heat;
      });
      this.mostLine = this.lineHeat.reduce((most, heat) => [...heat.values()].reduce((a, b) => Math.max(a, b), most), 0);
      this.fileHeat = this.lineHeat.map((heat) => [...heat.values()].reduce((a, b) => a + b, 0));
    }

    // The lines of one file: all of its text, then lines that instructions name beyond its end; without text only those.
    viewOf(index) {
      if (index < 0) return { lines: [], texts: [], inside: [], known: new Map(), widest: 0 };
      if (this.views.has(index)) return this.views.get(index);
      const { name, text } = this.files[index];
      const texts = text === null ? [] : text.split(/\r?\n/);
      if (texts.length && texts[texts.length - 1] === "") texts.pop();
      const lines = texts.map((_, at) => at + 1);
      const beyond = [...this.places[index].keys()].filter((line) => line > texts.length).sort((a, b) => a - b);
      lines.push(...beyond);
      const known = new Map(lines.map((line, at) => [line, at]));
      const widest = texts.reduce((most, line) => Math.max(most, line.length), 40);
      const view = { lines, texts, inside: window.ncubble.code.blocks(texts, name), known, widest };
      this.views.set(index, view);
      return view;
    }

    rowsOf(file, line) {
      return (file >= 0 && this.places[file].get(line)) || [];
    }

    // The instruction at an address, or the last one before it.
    rowAt(pc) {
      const after = this.pc.findIndex((one) => one > pc);
      return after < 0 ? this.rowCount - 1 : Math.max(0, after - 1);
    }
  }

  class Viewer {
    constructor(root, data, asked, page) {
      this.root = root;
      this.page = page;
      this.code = new Code(data);
      this.chosen = { side: "sass", file: -1, line: 0, row: -1 };
      this.file = this.code.files.length ? 0 : -1;
      this.linked = new Set();
      this.rested = new Set();
      this.restedLine = 0;
      this.found = { sass: [], source: [], at: -1, search: null };
      this.active = "sass";
      this.touched = false;
      this.build();
      this.open(asked);
      this.keys = (event) => this.key(event);
      document.addEventListener("keydown", this.keys);
    }

    close() {
      document.removeEventListener("keydown", this.keys);
      window.clearTimeout(this.keeping);
      [this.sass, this.source, this.sassMap, this.sourceMap].forEach((part) => part && part.close());
      this.root.replaceChildren();
    }

    // ---- what is on the page

    build() {
      const make = window.ncubble.make;
      const notes = this.code.notes.map((note) => {
        const command = note.command ? [make("code", { text: note.command })] : [];
        return make("div", { class: "note note-empty", role: "note" }, [make("span", { text: note.text }), ...command]);
      });
      this.root.replaceChildren(...notes);
      if (!this.code.rowCount) return;
      this.tools = this.toolbar(make);
      this.panes = make("div", { class: "source-panes" });
      this.detail = make("div", { class: "source-detail", id: "source-detail", role: "status" });
      this.root.append(this.tools, this.panes, this.detail);
      this.source = this.sourcePane(make);
      this.sass = this.sassPane(make);
      this.panes.classList.toggle("no-source", !this.code.files.length);
    }

    button(make, id, text, title, act) {
      return make("button", { type: "button", id: id, class: "button small", title: title, text: text, onclick: act });
    }

    toolbar(make) {
      const option = (one) => make("option", { value: one.id, text: one.label });
      const group = (name, label) => make("optgroup", { label: label }, this.code.causes.filter((one) => one.group === name).map(this.causeOption(make)));
      const has = (name) => this.code.causes.some((one) => one.group === name);
      const groups = [...(has("part") ? [group("part", "parts of the account")] : []), ...(has("stall") ? [group("stall", "stall reasons")] : [])];
      const all = this.code.causes.filter((one) => one.group === "all").map(option);
      this.bySelect = make("select", { id: "source-by", onchange: () => this.reheat() }, [...all, ...groups]);
      this.opSelect = make("select", { id: "source-op", onchange: () => this.reheat() }, [make("option", { value: "", text: "all instructions" }), ...this.code.kinds.map(option)]);
      this.only = make("input", { type: "checkbox", id: "source-only", onchange: () => this.filter(true) });
      this.follow = make("input", { type: "checkbox", id: "source-follow", onchange: () => this.keep() });
      this.input = make("input", { type: "search", id: "source-find", class: "search", placeholder: "regular expression", "aria-label": "Search source and SASS", maxlength: 200, onkeydown: (event) => this.searchKey(event), oninput: () => this.search() });
      this.counted = make("span", { id: "source-count", class: "hint", role: "status" });
      const label = (text, control) => make("label", {}, [control.type === "checkbox" ? control : text, control.type === "checkbox" ? text : control]);
      const buttons = [
        this.button(make, "hot-previous", "‹ hotter", "Previous hot row (p)", () => this.hotter(-1)),
        this.button(make, "hot-next", "next hot ›", "Next hot row (n)", () => this.hotter(1)),
        this.button(make, "use-previous", "‹ use", "Previous instruction of this line (U)", () => this.use(-1)),
        this.button(make, "use-next", "use ›", "Next instruction of this line (u)", () => this.use(1)),
      ];
      if (!this.code.causes.length) [this.bySelect, this.only, buttons[0], buttons[1]].forEach((one) => (one.disabled = true));
      const parts = [label("Heat", this.bySelect), label("of", this.opSelect), label("only rows with heat", this.only), label("follow pointer", this.follow)];
      const steps = make("div", { class: "source-steps", role: "group", "aria-label": "Steps" }, buttons);
      return make("div", { class: "source-tools", role: "group", "aria-label": "Heat and search" }, [...parts, steps, this.input, this.counted]);
    }

    causeOption(make) {
      const unit = { time: "% of time", samples: "% of samples" };
      return (one) => make("option", { value: one.id, text: one.label + " — " + percent(one.sum) + " " + unit[one.unit] });
    }

    sourcePane(make) {
      this.fileSelect = make("select", { id: "source-file", "aria-label": "Source file", onchange: () => this.openFile(Number(this.fileSelect.value)) });
      this.fileNote = make("div", { class: "note note-empty source-note", role: "note", hidden: true });
      const place = make("div", { class: "code-place" });
      const head = make("div", { class: "pane-head" }, [make("h2", { text: "Source" }), this.fileSelect]);
      this.panes.append(make("section", { class: "code-pane", "aria-label": "Source" }, [head, this.fileNote, place]));
      const columns = [["Line", "Line of the file", "line"], ["Heat", "Share of the chosen cause at all instructions of this line", "heat"], ["Source", "Text that the report carries", "text"]];
      const rows = new window.ncubble.Rows(place, {
        id: "source-lines",
        label: "Source lines",
        columns: columns,
        fill: (cells, item) => this.fillLine(cells, item),
        mark: (item) => this.markLine(item),
        choose: (item, how) => this.chooseLine(this.file, this.view().lines[item], how),
        rest: (item) => this.restLine(item),
      });
      rows.grid.addEventListener("focus", () => (this.active = "source"));
      this.sourceMap = new window.ncubble.Minimap(place, rows, (item) => this.heatOf(this.view().lines[item]), () => this.lineMarks());
      return rows;
    }

    sassPane(make) {
      const place = make("div", { class: "code-place" });
      this.sassHint = make("span", { class: "hint" });
      const head = make("div", { class: "pane-head" }, [make("h2", { text: "SASS" }), this.sassHint]);
      this.panes.append(make("section", { class: "code-pane", "aria-label": "SASS" }, [head, place]));
      const executed = this.code.executed ? "Warp instructions executed" : "Executed: not collected (--set source)";
      const columns = [["Address", "Bytes from the first instruction", "pc"], ["Heat", "Share of the chosen cause", "heat"], ["Executed", executed, "runs"], ["Main stall", "Stall reason with the most samples", "why"], ["Instruction", "SASS", "text"]];
      const rows = new window.ncubble.Rows(place, {
        id: "source-sass",
        label: "SASS instructions",
        columns: columns,
        fill: (cells, item) => this.fillRow(cells, item),
        mark: (item) => this.markRow(item),
        choose: (item, how) => this.chooseRow(item, how),
        rest: (item) => this.restRow(item),
      });
      rows.grid.addEventListener("focus", () => (this.active = "sass"));
      this.widest = this.code.sass.reduce((most, text) => Math.max(most, text.length), 40);
      this.sassMap = new window.ncubble.Minimap(place, rows, (item) => this.code.hot[item], () => [...this.linked]);
      return rows;
    }

    // ---- rows

    view() {
      return this.code.viewOf(this.file);
    }

    heatOf(line) {
      return (this.file >= 0 && this.code.lineHeat[this.file].get(line)) || 0;
    }

    heatCell(cell, value, most, known) {
      if (!cell.firstChild) cell.append(document.createElement("span"), document.createElement("i"));
      cell.firstChild.textContent = known ? percent(value) : "";
      cell.lastChild.style.width = most > 0 && value > 0 ? Math.max(1, Math.round((value / most) * 28)) + "px" : "0";
    }

    fillLine(cells, item) {
      const view = this.view();
      const line = view.lines[item];
      const rows = this.code.rowsOf(this.file, line);
      cells[0].textContent = line;
      this.heatCell(cells[1], this.heatOf(line), this.code.mostLine, rows.length && this.code.causes.length);
      const text = view.texts[line - 1];
      cells[2].title = text && text.length > LONG_TEXT ? text.trim().slice(0, 2000) : "";
      if (text === undefined) {
        const hot = rows.reduce((best, row) => (this.code.hot[row] > this.code.hot[best] ? row : best), rows[0]);
        cells[2].replaceChildren(...window.ncubble.code.nodes([["comment", plural(rows.length, "instruction") + ", " + this.code.sass[hot].slice(0, 200)]]));
        return;
      }
      const pairs = window.ncubble.code.source(text, this.code.files[this.file].name, view.inside[line - 1]);
      cells[2].replaceChildren(...window.ncubble.code.nodes(window.ncubble.code.found(pairs, this.found.search)));
    }

    fillRow(cells, row) {
      const code = this.code;
      const stall = code.causes[code.stall[row]];
      const runs = code.executed ? code.executed[row] : null;
      cells[0].textContent = hex(code.pc[row]);
      this.heatCell(cells[1], code.hot[row], code.mostRow, code.causes.length > 0);
      cells[2].textContent = count(runs);
      cells[2].title = runs === null ? "not collected" : runs + " warp instructions";
      cells[3].title = stall ? stall.label : "";
      cells[3].textContent = cells[3].title.length > 16 ? cells[3].title.slice(0, 15) + "…" : cells[3].title;
      cells[4].title = code.sass[row].length > LONG_TEXT / 2 ? code.sass[row].slice(0, 2000) : "";
      cells[4].replaceChildren(...window.ncubble.code.nodes(window.ncubble.code.found(window.ncubble.code.sass(code.sass[row]), this.found.search)));
    }

    markLine(item) {
      const line = this.view().lines[item];
      const linked = this.chosen.file === this.file && this.chosen.line === line;
      return (this.code.rowsOf(this.file, line).length ? "has-code" : "") + (linked ? " linked" : "") + (this.restedLine === line ? " rested" : "");
    }

    markRow(row) {
      return (this.linked.has(row) ? "linked" : "") + (this.rested.has(row) ? " rested" : "");
    }

    lineMarks() {
      return this.chosen.file === this.file && this.chosen.line ? [this.view().known.get(this.chosen.line) ?? -1] : [];
    }

    // ---- state

    open(asked) {
      if (!this.code.rowCount) return;
      this.code.heat(asked.by, asked.op);
      this.bySelect.value = this.code.by;
      this.opSelect.value = this.code.op;
      this.only.checked = asked.only && this.code.causes.length > 0;
      this.follow.checked = asked.follow;
      this.input.value = asked.find;
      if (asked.find) this.counted.textContent = "Enter searches";
      const file = this.code.files.findIndex((one) => one.name === asked.file);
      this.openFile(file >= 0 ? file : this.file, true);
      this.rehot();
      this.filter(false);
      if (file >= 0 && asked.line && this.view().known.has(asked.line)) {
        this.chooseLine(file, asked.line, "open");
        const row = asked.pc === null ? -1 : this.code.rowAt(asked.pc);
        if (this.linked.has(row)) this.toUse(row);
      } else if (asked.pc !== null) this.chooseRow(this.code.rowAt(asked.pc), "open");
      else this.first(file >= 0);
    }

    // Without a place in the address: the hottest instruction, and its line.
    first(keepFile) {
      const hottest = this.code.order[0];
      if (hottest === undefined || keepFile) this.sass.choose(-1);
      else this.chooseRow(hottest, "open");
    }

    openFile(index, quiet) {
      this.file = index;
      this.listFiles();
      const file = this.code.files[index];
      const words = file && { missing: "The report carries no text of this file; lines with instructions are listed. Carry it along with", large: "The text of this file is too long to show; lines with instructions are listed." }[file.state];
      this.fileNote.hidden = !words;
      if (words) {
        const command = file.state === "missing" ? [window.ncubble.make("code", { text: "--set source" }), " (ncu --import-source yes)"] : [];
        this.fileNote.replaceChildren(words, ...command);
      }
      this.fileSelect.title = file ? file.name : "";
      this.source.grid.scrollTop = 0;
      if (!quiet) {
        this.filter(false);
        this.touched = true;
        this.search(true);
        this.keep();
      }
    }

    listFiles() {
      const files = this.code.files;
      const twice = new Set(files.map((file) => base(file.name)).filter((name, at, all) => all.indexOf(name) !== at));
      const shown = (name) => (twice.has(base(name)) ? name : base(name));
      const make = window.ncubble.make;
      const order = files.map((_, index) => index).sort((a, b) => this.code.fileHeat[b] - this.code.fileHeat[a] || a - b);
      const heat = (index) => (this.code.causes.length ? " — " + percent(this.code.fileHeat[index]) + " %" : "");
      const options = order.map((index) => make("option", { value: index, text: shown(files[index].name) + heat(index) }));
      this.fileSelect.replaceChildren(...(options.length ? options : [make("option", { value: -1, text: "no source lines" })]));
      this.fileSelect.value = this.file;
    }

    reheat() {
      this.code.heat(this.bySelect.value, this.opSelect.value);
      this.rehot();
      this.listFiles();
      this.filter(true);
      if (this.code.order.length) this.chooseRow(this.hottest(), "step");
      else this.describe();
    }

    // The hottest instruction of the hottest line; of all where none belongs to a line.
    hottest() {
      const [first] = this.rankedLines();
      const rows = first ? this.code.rowsOf(first[0], first[1]) : this.code.order.slice(0, 1);
      return rows.reduce((best, row) => (this.code.hot[row] > this.code.hot[best] ? row : best), rows[0]);
    }

    // What depends on the chosen cause: its colour, its unit, the order of hot rows.
    rehot() {
      const cause = this.code.cause();
      this.root.style.setProperty("--heat", cause ? cause.color : "");
      const unit = cause && cause.unit === "time" ? "of kernel time" : "of warp samples";
      const said = cause ? percent(this.code.whole) + " % " + unit + " in " + plural(this.code.order.length, "instruction") : "no heat: warp samples not collected";
      this.sassHint.textContent = plural(this.code.rowCount, "instruction") + " · " + said;
      this.unit = "% " + unit;
    }

    filter(keep) {
      const view = this.view();
      const lines = this.only.checked ? view.lines.map((line, item) => (this.heatOf(line) > 0 ? item : -1)).filter((item) => item >= 0) : null;
      const rows = this.only.checked ? [...this.code.hot.keys()].filter((row) => this.code.hot[row] > 0) : null;
      this.source.set(view.lines.length, lines, view.widest);
      this.sass.set(this.code.rowCount, rows, this.widest);
      this.panes.classList.toggle("nothing", this.only.checked && !rows.length);
      this.mark();
      this.sourceMap.draw();
      this.sassMap.draw();
      if (keep) {
        this.sass.show(this.sass.chosen, true);
        this.source.show(this.source.chosen, true);
        this.keep();
      }
    }

    mark() {
      const { side, row, file, line } = this.chosen;
      this.sass.choose(row);
      this.source.choose(file === this.file && line ? this.view().known.get(line) ?? -1 : -1);
      this.panes.dataset.side = side;
    }

    chooseRow(row, how) {
      this.active = "sass";
      const file = this.code.file[row];
      const line = file >= 0 ? this.code.line[row] : 0;
      this.chosen = { side: "sass", row: row, file: file, line: line };
      this.linked = new Set(file >= 0 ? this.code.rowsOf(file, line) : [row]);
      if (file >= 0 && file !== this.file) {
        this.openFile(file, true);
        this.filter(false);
        this.search(true);
      }
      this.mark();
      if (how !== "click" && how !== "key") this.sass.show(this.sass.chosen, true);
      this.source.show(this.source.chosen, true);
      this.after(how);
    }

    chooseLine(file, line, how) {
      this.active = "source";
      const rows = this.code.rowsOf(file, line);
      this.chosen = { side: "source", file: file, line: line, row: rows.length ? rows[0] : -1 };
      this.linked = new Set(rows);
      this.mark();
      if (how !== "click" && how !== "key") this.source.show(this.source.chosen, true);
      if (rows.length) this.sass.show(this.sass.position(rows[0]), true);
      this.after(how);
    }

    after(how) {
      this.sassMap.draw();
      this.sourceMap.draw();
      this.describe();
      if (how !== "open") {
        this.touched = true;
        this.keep();
      }
    }

    toUse(row) {
      this.chosen.row = row;
      this.mark();
      this.sass.show(this.sass.chosen, true);
      this.after("open");
    }

    // The first change is written at once, those that follow quickly together: "Copy link" never copies an old place.
    keep() {
      if (this.keeping) return;
      const wait = this.kept ? Math.max(0, this.kept + KEEP_AFTER - performance.now()) : 0;
      this.keeping = window.setTimeout(() => this.write(), wait);
    }

    write() {
      this.keeping = 0;
      if (!this.root.isConnected || window.location.pathname !== this.page) return;
      this.kept = performance.now();
      const { by, op, causes } = this.code;
      const usual = causes.length ? causes[0].id : "";
      const flag = (box) => (box.checked ? "1" : null);
      const heat = { by: by === usual ? null : by, op: op || null, only: flag(this.only) };
      window.ncubble.keep(Object.assign(this.place(), heat, { follow: flag(this.follow), find: this.input.value || null }));
    }

    // The chosen place as it stands in the address; nothing of it changes before something was chosen.
    place() {
      if (!this.touched) return {};
      const { side, file, line, row } = this.chosen;
      const pc = row >= 0 ? this.code.pc[row] : null;
      const name = (index) => (this.code.files[index] ? this.code.files[index].name : null);
      if (side === "source") return { file: name(file), line: line, pc: pc };
      return { file: file !== this.file ? name(this.file) : null, line: null, pc: pc };
    }

    // ---- the pointer

    restRow(row) {
      const file = row === null ? -1 : this.code.file[row];
      this.rested = new Set(row === null ? [] : file >= 0 ? this.code.rowsOf(file, this.code.line[row]) : [row]);
      this.restedLine = file >= 0 && file === this.file ? this.code.line[row] : 0;
      this.rest(() => this.source.show(this.source.position(this.view().known.get(this.restedLine) ?? -1), true));
    }

    restLine(item) {
      const line = item === null ? 0 : this.view().lines[item];
      const rows = line ? this.code.rowsOf(this.file, line) : [];
      this.rested = new Set(rows);
      this.restedLine = line;
      this.rest(() => this.sass.show(rows.length ? this.sass.position(rows[0]) : -1, true));
    }

    rest(scroll) {
      this.sass.restyle();
      this.source.restyle();
      window.clearTimeout(this.following);
      if (this.follow.checked) this.following = window.setTimeout(scroll, FOLLOW_AFTER);
    }

    // ---- steps

    rankedLines() {
      const all = this.code.lineHeat.flatMap((heat, file) => [...heat.entries()].filter((one) => one[1] > 0).map(([line, value]) => [file, line, value]));
      return all.sort((a, b) => b[2] - a[2] || a[0] - b[0] || a[1] - b[1]);
    }

    hotter(step) {
      const lines = this.active === "source" && this.code.files.length > 0;
      const order = lines ? this.rankedLines() : this.code.order;
      if (!order.length) return;
      const { file, line, row } = this.chosen;
      const now = lines ? order.findIndex((one) => one[0] === file && one[1] === line) : order.indexOf(row);
      const next = now < 0 ? 0 : (now + step + order.length) % order.length;
      if (!lines) this.chooseRow(order[next], "step");
      else {
        if (order[next][0] !== this.file) this.openFile(order[next][0]);
        this.chooseLine(order[next][0], order[next][1], "step");
      }
      this.counted.textContent = "hot " + (lines ? "line " : "instruction ") + (next + 1) + " of " + order.length;
    }

    use(step) {
      const uses = this.code.rowsOf(this.chosen.file, this.chosen.line);
      if (!uses.length) return;
      const next = (uses.indexOf(this.chosen.row) + step + uses.length) % uses.length;
      this.touched = true;
      this.toUse(uses[next]);
      this.counted.textContent = "use " + (next + 1) + " of " + uses.length;
      this.keep();
    }

    // ---- search: only what was typed here is run, never an expression that came with the address

    search(quiet) {
      this.found = { sass: [], source: [], at: -1, search: null };
      const text = quiet && this.searched !== this.input.value ? "" : this.input.value;
      let search = null;
      try {
        search = text ? new RegExp(text, "gi") : null;
      } catch (error) {
        search = undefined;
      }
      this.input.setAttribute("aria-invalid", search === undefined ? "true" : "false");
      if (search) {
        const hits = (line) => line.slice(0, 2000).search(search) >= 0;
        const grep = (lines) => lines.map((line, at) => (hits(line) ? at : -1)).filter((at) => at >= 0);
        this.found = { sass: grep(this.code.sass), source: grep(this.view().texts), at: -1, search: search };
        this.searched = text;
      }
      const none = search === undefined ? "not a regular expression" : "";
      this.counted.textContent = search ? this.found.sass.length + " in SASS, " + this.found.source.length + " in this file" : none;
      this.source.draw(true);
      this.sass.draw(true);
      if (!quiet) this.keep();
    }

    searchKey(event) {
      if (event.key === "Escape") {
        (this.active === "source" ? this.source : this.sass).grid.focus();
        return;
      }
      if (event.key !== "Enter") return;
      event.preventDefault();
      if (!this.found.search) this.search();
      const other = this.active === "source" ? "sass" : "source";
      const side = this.found[this.active].length ? this.active : other;
      const hits = this.found[side].filter((item) => this[side].position(item) >= 0);
      if (!hits.length) return;
      const from = side === "sass" ? this.chosen.row : (this.view().known.get(this.chosen.line) ?? -1);
      const next = event.shiftKey ? hits.findLastIndex((item) => item < from) : hits.findIndex((item) => item > from);
      const at = next < 0 ? (event.shiftKey ? hits.length - 1 : 0) : next;
      if (side === "sass") this.chooseRow(hits[at], "step");
      else this.chooseLine(this.file, this.view().lines[hits[at]], "step");
      this.counted.textContent = at + 1 + " of " + hits.length + (side === "sass" ? " in SASS" : " in this file");
    }

    key(event) {
      if (!this.root.isConnected) return this.close();
      const dialog = document.getElementById("help");
      if (window.ncubble.typing() || event.ctrlKey || event.metaKey || event.altKey || (dialog && dialog.open) || !this.sass) return;
      const act = { n: () => this.hotter(1), p: () => this.hotter(-1), u: () => this.use(1), U: () => this.use(-1), "/": () => this.input.select() || this.input.focus() }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    // ---- the line below the panes: all that is known of the chosen row

    describe() {
      const { side, row, file, line } = this.chosen;
      const rows = side === "source" ? [...this.linked] : [row];
      const place = file >= 0 ? base(this.code.files[file].name) + ":" + line : "no source line";
      const what = side === "source" ? place + " · " + plural(rows.length, "instruction") : hex(this.code.pc[row] || 0) + " · " + place;
      this.detail.textContent = row < 0 && side === "sass" ? "No row is chosen." : [what, ...this.shares(rows)].join(" · ");
    }

    shares(rows) {
      const sum = (cause) => {
        if (!cause.at) cause.at = new Map(cause.rows.map((row, at) => [row, cause.percent[at]]));
        return rows.reduce((total, row) => total + (cause.at.get(row) || 0), 0);
      };
      const of = (group) => this.code.causes.filter((cause) => cause.group === group).map((cause) => [cause, sum(cause)]).filter((one) => one[1] >= 0.05);
      const words = (pairs) => pairs.sort((a, b) => b[1] - a[1]).slice(0, 4).map(([cause, value]) => cause.label + " " + percent(value)).join(", ");
      const all = of("all").map(([, value]) => percent(value) + " % of samples");
      const stalls = words(of("stall"));
      const parts = of("part");
      const time = words(parts.filter(([cause]) => cause.unit === "time"));
      const apart = words(parts.filter(([cause]) => cause.unit !== "time"));
      return [...all, ...(stalls ? ["stalls: " + stalls] : []), ...(time ? ["% of kernel time: " + time] : []), ...(apart ? ["no idle time: " + apart] : [])];
    }
  }

  let shown = null;
  let asking = null;
  const said = (root, text, retry) => {
    const make = window.ncubble.make;
    const again = make("button", { type: "button", class: "button", text: "Try again", onclick: retry });
    root.replaceChildren(make("div", { class: "note note-error", role: "alert" }, [make("span", { text: text + " " }), again]));
  };
  const load = (config) => {
    const root = document.getElementById("source-viewer");
    if (!root) return;
    if (shown) shown.close();
    if (asking) asking.abort();
    shown = null;
    asking = new AbortController();
    const bar = window.ncubble.make("div", { class: "loading-bar", role: "progressbar", "aria-label": "Reading the code" });
    root.replaceChildren(window.ncubble.make("p", { class: "hint", text: "Reading the code of this launch" }), bar);
    const page = window.location.pathname;
    window
      .fetch(config.url, { signal: asking.signal, headers: { Accept: "application/json" } })
      .then((answer) => answer.json())
      .then((data) => {
        if (!root.isConnected || window.location.pathname !== page) return;
        if (data.error) said(root, data.error, () => load(config));
        else shown = new Viewer(root, data, config.asked, page);
      })
      .catch((error) => {
        if (error.name !== "AbortError" && root.isConnected) said(root, "The code could not be shown: " + error.message + ".", () => load(config));
      });
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_source: {
      mount: function (config) {
        if (config) load(config);
        return skip();
      },
    },
  });
})();
