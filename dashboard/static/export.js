// What an exported file does by itself: draws its figures when they come near, follows the theme, filters long tables, copies texts.
(function () {
  "use strict";
  const NEAR = "800px";
  const LONG_TABLE = 20;
  const templates = JSON.parse(document.getElementById("templates").textContent);
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const plots = Array.from(document.querySelectorAll(".plot"));
  const specs = new Map();

  const chosen = () => {
    const picked = document.querySelector("input[name=theme]:checked");
    return picked ? picked.value : "system";
  };
  const theme = () => (chosen() === "system" ? (media.matches ? "dark" : "light") : chosen());
  const specOf = (place) => {
    if (!specs.has(place)) specs.set(place, JSON.parse(place.nextElementSibling.textContent));
    return specs.get(place);
  };
  const draw = (place) => {
    if (!place.clientWidth) return; // inside a closed details element: drawn when it opens
    const spec = specOf(place);
    const layout = Object.assign({}, spec.layout, { template: templates[theme()] });
    // What was zoomed stays zoomed: plotly keeps it in the layout that it was given.
    if (place.dataset.drawn) window.Plotly.relayout(place, { template: templates[theme()] });
    else window.Plotly.newPlot(place, spec.data, layout, spec.config);
    place.dataset.drawn = "1";
  };

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting && !entry.target.dataset.drawn).forEach((entry) => draw(entry.target)),
    { rootMargin: NEAR }
  );
  plots.forEach((place) => watcher.observe(place));
  const redraw = () => {
    const name = chosen();
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    plots.filter((place) => place.dataset.drawn).forEach(draw);
  };
  document.querySelectorAll("input[name=theme]").forEach((input) => input.addEventListener("change", redraw));
  media.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => plots.filter((place) => !place.dataset.drawn).forEach(draw));

  const filterOf = (table) => {
    const rows = Array.from(table.tBodies[0].rows);
    const field = document.createElement("input");
    Object.assign(field, { type: "search", className: "table-filter", placeholder: "filter " + rows.length + " rows" });
    field.setAttribute("aria-label", "Filter the rows of this table");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      rows.forEach((row) => (row.hidden = !row.textContent.toLowerCase().includes(wanted)));
    });
    table.parentElement.before(field);
  };
  Array.from(document.querySelectorAll("table.filterable"))
    .filter((table) => table.tBodies[0].rows.length > LONG_TABLE)
    .forEach(filterOf);

  const copyOf = (text) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button", textContent: "Copy" });
    button.addEventListener("click", () => {
      const range = document.createRange();
      range.selectNodeContents(text);
      window.getSelection().removeAllRanges();
      window.getSelection().addRange(range);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected: copy it with the keys of your system";
    });
    text.before(button);
  };
  document.querySelectorAll("pre.markdown-text").forEach(copyOf);

  document.getElementById("drawing-state").textContent = "";
})();
