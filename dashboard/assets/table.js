// The code of tables is as long as all other scripts together. Dash does not wait for it: a table is empty until its code
// is there, which pages that begin with no table request for their first one. `dash_ag_grid` is what that code exports.
(function () {
  "use strict";
  let code = null;
  let arrive = null;
  const arrived = new Promise((resolve) => {
    arrive = resolve;
  });
  const load = () => {
    const left = document.getElementById("tables");
    if (!left) return;
    left.remove();
    document.head.append(Object.assign(document.createElement("script"), { src: left.href }));
  };
  const AgGrid = function (props) {
    const [there, set] = window.React.useState(code !== null);
    window.React.useEffect(() => {
      load();
      if (!there) arrived.then(() => set(true));
    }, []);
    return there ? window.React.createElement(code.AgGrid, props) : null;
  };
  AgGrid.dashRenderType = true; // as the table's own: which renderings are the doing of a callback
  const exported = {
    AgGrid: AgGrid,
    getApi: (id) => code && code.getApi(id),
    getApiAsync: (id) => arrived.then(() => code.getApiAsync(id)),
  };
  Object.defineProperty(window, "dash_ag_grid", {
    get: () => exported,
    set: (real) => {
      if (real === exported) return; // the other half of the code, which adds to what is there
      code = real;
      arrive();
    },
  });
})();
