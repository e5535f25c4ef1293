// The Sweep page: points that lead to their launch, and a search among the sweeps that were found.
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_sweep: {
      // A point carries [launches in words, value, address of its launch].
      openPoint: function (click) {
        const point = click && click.points && click.points[0];
        return point && point.customdata && point.customdata[2] ? ["/kernel/" + point.customdata[2], ""] : [skip(), skip()];
      },
    },
  });

  const filter = (field) => {
    const list = document.getElementById("sweep-list");
    if (!list) return;
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = Array.from(list.querySelectorAll("tbody tr"));
    let kept = 0;
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      kept += !row.hidden;
    });
    const count = document.getElementById("sweep-count");
    const hint = kept ? "" : ": clear the search to see all";
    if (count) count.textContent = wanted.length ? kept + " of " + rows.length + " sweeps" + hint : "";
  };
  document.addEventListener("input", (event) => {
    if (event.target.id === "sweep-search") filter(event.target);
  });
  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("sweep-search");
    if (event.key !== "/" || !field || window.ncubble.typing() || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
