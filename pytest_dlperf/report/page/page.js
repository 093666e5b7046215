"use strict";
// Tables that sort and filter, and links that open what they lead to. Everything a reader needs is
// in the markup already, charts as well: without this script the page still says all of it.
(() => {
  document.documentElement.classList.add("scripted");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ---- sorting ----
  const sortKey = (row, column, numeric) => {
    const value = row.cells[column].dataset.sort;
    if (value === undefined || value === "") return null;
    return numeric ? Number(value) : value;
  };
  const collator = new Intl.Collator(undefined, { numeric: true });

  const sortBy = (table, heading) => {
    const column = heading.cellIndex;
    const numeric = heading.dataset.kind === "number";
    const down = heading.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [sortKey(row, column, numeric), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = numeric ? a - b : collator.compare(a, b);
      return down ? -order : order;
    });
    body.append(...keyed.map(([, row]) => row));
    for (const other of heading.parentNode.cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  };

  for (const table of all("table[data-sortable]")) {
    for (const heading of all("thead th[aria-sort]", table)) {
      heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
    }
  }

  // ---- filtering ----
  const followers = new Map();
  for (const part of all("[data-follows]")) {
    const key = part.dataset.follows;
    followers.set(key, [...(followers.get(key) ?? []), part]);
  }

  const startFilters = (form) => {
    const rows = [...document.getElementById(form.dataset.filters).tBodies[0].rows];
    const words = rows.map((row) => row.textContent.toLowerCase());
    const input = form.querySelector("input");
    const output = form.querySelector("output");
    const groups = all("[data-facet]", form);

    const apply = () => {
      const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = groups
        .map((group) => [
          group.dataset.facet,
          all("button[aria-pressed=true]", group).map((button) => button.dataset.value),
        ])
        .filter(([, values]) => values.length > 0);
      let shown = 0;
      rows.forEach((row, index) => {
        const fits =
          wanted.every((word) => words[index].includes(word)) &&
          chosen.every(([facet, values]) => values.includes(row.dataset[facet]));
        row.hidden = !fits;
        shown += fits;
        for (const part of followers.get(row.dataset.key) ?? []) part.hidden = !fits;
      });
      output.textContent = `${shown} of ${rows.length} ${output.dataset.noun}`;
    };

    input.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of all("button[aria-pressed]", form)) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
        apply();
      });
    }
    apply();
  };
  all("form[data-filters]").forEach(startFilters);

  // ---- a link into a closed part opens it ----
  const openTarget = () => {
    if (!location.hash) return;
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", openTarget);
  openTarget();
})();
