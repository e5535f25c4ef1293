// The code of tables takes longer to compile than all other scripts together. It is no longer waited for: Dash builds the
// page meanwhile, in which a table is empty until its code is there. `dash_ag_grid` is what that code exports.
(function () {
  "use strict";
  let code = null;
  let arrive = null;
  const arrived = new Promise((resolve) => {
    arrive = resolve;
  });
  const AgGrid = function (props) {
    const [there, set] = window.React.useState(code !== null);
    window.React.useEffect(() => void (there || arrived.then(() => set(true))), []);
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
