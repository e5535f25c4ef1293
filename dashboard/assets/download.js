// Saves a figure as it is drawn, on a solid ground and under a title that says what it shows and of which launch.
(function () {
  "use strict";
  const TITLE_HEIGHT = 34;
  const LONGEST = 80;
  const plain = (text) => text.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+/, "").slice(0, LONGEST).replace(/[-.]+$/, "");
  // Plotly renders some tags: a kernel's name is no markup.
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const pageOf = (place) => {
    const named = place.closest("[data-page]");
    return named ? named.dataset.page : document.title.replace(/ · ncubble$/, "");
  };

  const solid = (plot, title) => {
    const ground = window.getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
    const drawn = plot._fullLayout;
    const top = (drawn.margin && drawn.margin.t) || 0;
    return {
      data: plot.data,
      layout: Object.assign({}, plot.layout, {
        autosize: false,
        paper_bgcolor: ground,
        plot_bgcolor: ground,
        width: drawn.width,
        height: drawn.height + TITLE_HEIGHT,
        margin: Object.assign({}, drawn.margin, { t: top + TITLE_HEIGHT }),
        title: { text: safe(title), x: 0.01, xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 10 }, font: { size: 14 } },
      }),
    };
  };

  const save = (button) => {
    const plot = button.closest(".figure").querySelector(".js-plotly-plot");
    if (!plot || !window.Plotly) return Promise.reject(new Error("nothing is drawn yet"));
    const page = pageOf(button);
    const shown = solid(plot, page.slice(0, LONGEST) + " · " + button.dataset.figure);
    return window.Plotly.downloadImage(shown, {
      format: button.dataset.format,
      filename: ["ncubble", plain(page), plain(button.dataset.figure)].filter(Boolean).join("-"),
      width: shown.layout.width,
      height: shown.layout.height,
      scale: button.dataset.format === "png" ? 2 : 1,
    });
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button[data-figure][data-format]");
    if (!button) return;
    const name = button.dataset.format.toUpperCase();
    const say = (text) => {
      button.textContent = text;
      window.setTimeout(() => (button.textContent = name), 1500);
    };
    save(button).then(() => say("Saved"), () => say("Not saved"));
  });
})();
