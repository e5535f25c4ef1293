// A list of any length of which only the visible rows are in the document, and a map of all of it beside its scrollbar.
(function () {
  "use strict";
  const HEIGHT = 18;
  const AT_REST = 120; // ms after a scroll in which rows that pass under the pointer are not what it points at
  const BEYOND = 20; // rows kept above and below what is visible, so that a wheel step meets finished rows
  const make = (tag, options, children) => {
    const node = document.createElement(tag);
    Object.entries(options || {}).forEach(([name, value]) => {
      if (name === "text") node.textContent = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : String(value));
    });
    node.append(...(children || []));
    return node;
  };

  // options: id, label, columns ([name, title, class]), fill(cells, item), mark(item) (a class), choose(item, how), rest(item or null).
  class Rows {
    constructor(host, options) {
      this.options = options;
      this.items = null; // null: item i stands at position i
      this.count = 0;
      this.pool = [];
      this.chosen = -1;
      this.scrolled = -AT_REST;
      const head = options.columns.map(([name, title, kind]) => make("div", { role: "columnheader", class: "c " + kind, title: title, text: name }));
      this.head = make("div", { role: "row", class: "code-head", "aria-rowindex": 1 }, head);
      this.body = make("div", { role: "rowgroup", class: "code-body" });
      const top = make("div", { role: "rowgroup", class: "code-top" }, [this.head]);
      this.grid = make("div", { role: "grid", id: options.id, class: "code-grid", tabindex: 0, "aria-label": options.label, "aria-colcount": options.columns.length }, [top, this.body]);
      host.append(this.grid);
      this.listen();
    }

    listen() {
      this.grid.addEventListener("scroll", (event) => this.later(event.timeStamp), { passive: true });
      this.grid.addEventListener("click", (event) => {
        const item = this.under(event);
        if (item !== null && !String(window.getSelection())) this.options.choose(item, "click");
      });
      this.grid.addEventListener("mouseover", (event) => {
        if (event.timeStamp - this.scrolled > AT_REST) this.options.rest(this.under(event));
      });
      this.grid.addEventListener("mouseleave", () => this.options.rest(null));
      this.grid.addEventListener("keydown", (event) => this.key(event));
      this.observer = new ResizeObserver(() => {
        this.space = null;
        this.draw(true);
      });
      this.observer.observe(this.grid);
    }

    under(event) {
      const row = event.target.closest(".code-row");
      return row ? this.item(Number(row.dataset.at)) : null;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.count) return;
      const page = Math.max(1, Math.floor(this.room() / HEIGHT) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      const step = steps[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const from = this.chosen >= 0 ? this.chosen : this.first() - (step > 0 ? 1 : 0);
      const to = Math.min(this.count - 1, Math.max(0, from + step));
      this.show(to, false);
      this.options.choose(this.item(to), "key");
    }

    item(position) {
      return this.items ? this.items[position] : position;
    }

    position(item) {
      if (item === null || item < 0) return -1;
      if (!this.items) return item < this.count ? item : -1;
      let low = 0;
      let high = this.items.length - 1;
      while (low <= high) {
        const middle = (low + high) >> 1;
        if (this.items[middle] === item) return middle;
        if (this.items[middle] < item) low = middle + 1;
        else high = middle - 1;
      }
      return -1;
    }

    // count items, or those in ``items`` (ascending); ``widest`` is the number of characters of the longest text.
    set(count, items, widest) {
      this.items = items;
      this.count = items ? items.length : count;
      this.body.style.height = this.count * HEIGHT + "px";
      this.grid.style.setProperty("--widest", Math.min(widest, 600) + "ch");
      this.grid.setAttribute("aria-rowcount", this.count + 1);
      this.draw(true);
    }

    choose(item) {
      this.chosen = this.position(item);
      this.draw(false);
      this.restyle();
    }

    // Measured once per size of the pane: asking in every frame makes the browser lay out twice.
    room() {
      if (!this.space) this.space = Math.max(0, this.grid.clientHeight - this.head.offsetHeight);
      return this.space;
    }

    first() {
      return Math.floor(this.grid.scrollTop / HEIGHT);
    }

    // Bring a position into view; ``middle`` puts it there even if it is visible already near an edge.
    show(position, middle) {
      if (position < 0) return;
      const top = position * HEIGHT;
      const room = this.room();
      const at = this.grid.scrollTop;
      const outside = top < at || top + HEIGHT > at + room;
      if (outside && middle) this.grid.scrollTop = top - room / 2 + HEIGHT;
      else if (top < at) this.grid.scrollTop = top;
      else if (top + HEIGHT > at + room) this.grid.scrollTop = top + HEIGHT - room;
    }

    later(now) {
      this.scrolled = now;
      if (this.waiting) return;
      this.waiting = window.requestAnimationFrame(() => {
        this.waiting = 0;
        this.draw(false);
      });
    }

    // Rows keep their place in the pool (position modulo its size): a scrolled step fills only the rows that are new.
    // What is measured is measured first: after a write, each question makes the browser lay out again.
    draw(anew) {
      const room = this.room();
      this.top = this.grid.scrollTop;
      const first = Math.floor(this.top / HEIGHT);
      const from = Math.max(0, first - BEYOND);
      const to = Math.min(this.count, first + Math.ceil(room / HEIGHT) + 1 + BEYOND);
      while (this.pool.length < to - from) this.grow();
      if (anew) this.pool.forEach((row) => (row.at = -1));
      for (let at = from; at < to; at++) {
        const row = this.pool[at % this.pool.length];
        if (row.at !== at) this.fill(row, at);
      }
      this.pool.forEach((row) => {
        const away = row.at < from || row.at >= to;
        if (away && row.shown) row.node.style.display = "none";
        if (away) row.shown = false;
      });
      const active = this.chosen >= from && this.chosen < to;
      if (active) this.grid.setAttribute("aria-activedescendant", this.options.id + "-" + (this.chosen % this.pool.length));
      else this.grid.removeAttribute("aria-activedescendant");
      if (this.onview) this.onview();
    }

    grow() {
      const cells = this.options.columns.map(([, , kind]) => make("div", { role: "gridcell", class: "c " + kind }));
      const node = make("div", { role: "row", class: "code-row", id: this.options.id + "-" + this.pool.length }, cells);
      this.pool.forEach((row) => (row.at = -1));
      this.pool.push({ node: node, cells: cells, at: -1, shown: true });
      this.body.append(node);
    }

    fill(row, at) {
      const item = this.item(at);
      row.at = at;
      row.node.dataset.at = at;
      row.node.style.top = at * HEIGHT + "px";
      row.node.setAttribute("aria-rowindex", at + 2);
      if (!row.shown) row.node.style.display = "";
      row.shown = true;
      this.options.fill(row.cells, item);
      this.style(row);
    }

    style(row) {
      const chosen = row.at === this.chosen;
      const name = "code-row " + this.options.mark(this.item(row.at)) + (chosen ? " chosen" : "");
      if (row.name === name) return;
      row.name = row.node.className = name;
      row.node.setAttribute("aria-selected", chosen ? "true" : "false");
    }

    restyle() {
      this.pool.forEach((row) => {
        if (row.shown && row.at >= 0 && row.at < this.count) this.style(row);
      });
    }

    close() {
      this.observer.disconnect();
      if (this.waiting) window.cancelAnimationFrame(this.waiting);
    }
  }

  // The whole list in the height of its pane: heat as bars from the right, marks at the left edge. A click jumps there.
  class Minimap {
    constructor(host, rows, heat, marks) {
      this.rows = rows;
      this.heat = heat;
      this.marks = marks;
      this.canvas = make("canvas", {});
      this.window = make("div", { class: "minimap-window" });
      this.node = make("div", { class: "minimap", "aria-hidden": "true", title: "The whole list; click to go there" }, [this.canvas, this.window]);
      host.append(this.node);
      rows.onview = () => this.place();
      this.node.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.node.setPointerCapture(event.pointerId);
        this.jump(event);
      });
      this.node.addEventListener("pointermove", (event) => (event.buttons & 1 ? this.jump(event) : null));
      this.observer = new ResizeObserver(() => {
        this.height = 0;
        this.draw();
      });
      this.observer.observe(this.node);
      this.theme = new MutationObserver(() => this.draw());
      this.theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    }

    // A list that fits is drawn beside its rows, at their height.
    span() {
      if (!this.height) this.height = this.node.clientHeight;
      return Math.min(this.height, this.rows.count * HEIGHT);
    }

    jump(event) {
      const share = (event.clientY - this.node.getBoundingClientRect().top) / this.span();
      this.rows.grid.scrollTop = share * this.rows.count * HEIGHT - this.rows.room() / 2;
    }

    place() {
      const whole = Math.max(1, this.rows.count * HEIGHT);
      const height = this.span();
      const size = Math.min(1, this.rows.room() / whole) * height;
      this.window.style.height = Math.max(6, size) + "px";
      this.window.style.transform = "translateY(" + (this.rows.top / whole) * height + "px)";
    }

    draw() {
      const scale = window.devicePixelRatio || 1;
      const width = this.node.clientWidth;
      const height = this.node.clientHeight;
      if (!width || !height) return;
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      const pen = this.canvas.getContext("2d");
      const style = window.getComputedStyle(this.node);
      pen.scale(scale, scale);
      const span = this.span();
      this.bars(pen, width, span, style.getPropertyValue("--heat"));
      pen.fillStyle = style.getPropertyValue("--accent");
      this.marks().forEach((item) => {
        const at = this.rows.position(item);
        if (at >= 0) pen.fillRect(0, Math.min(span - 2, (at / this.rows.count) * span), 5, 2);
      });
      this.place();
    }

    bars(pen, width, height, color) {
      const count = this.rows.count;
      const lines = Math.max(1, Math.min(Math.floor(height), count));
      const most = new Float64Array(lines);
      for (let at = 0; at < count; at++) {
        const line = Math.floor((at * lines) / count);
        most[line] = Math.max(most[line], this.heat(this.rows.item(at)));
      }
      const top = most.reduce((a, b) => Math.max(a, b), 0);
      if (!top) return;
      pen.fillStyle = color;
      most.forEach((value, line) => {
        if (!value) return;
        const long = Math.max(1.5, (value / top) * (width - 6));
        pen.fillRect(width - long, (line * height) / lines, long, Math.max(1, height / lines - (height / lines > 3 ? 1 : 0)));
      });
    }

    close() {
      this.observer.disconnect();
      this.theme.disconnect();
    }
  }

  window.ncubble = Object.assign({}, window.ncubble, { Rows: Rows, Minimap: Minimap, make: make });
})();
