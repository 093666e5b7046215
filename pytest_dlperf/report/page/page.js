"use strict";
// Tables that sort and filter, and charts that are drawn when they come into view. Everything a
// reader needs is in the markup already: without this script the page still says all of it.
(() => {
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

  // ---- charts ----
  const unpack = async (block) => {
    const bytes = Uint8Array.from(atob(block.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const load = async () => {
    for (const block of all("script[data-block=library]")) {
      const script = document.createElement("script");
      script.textContent = await unpack(block);
      document.head.append(script);
    }
    return JSON.parse(await unpack(document.querySelector("script[data-block=charts]")));
  };
  let charts;
  const chartOf = async (figure) => (await (charts ??= load()))[figure.dataset.chart];

  // Specifications name roles ("baseline", "now"); what these look like is the style sheet's.
  const config = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    const label = { labelColor: of("quiet"), titleColor: of("quiet"), labelFontSize: 11 };
    return {
      background: null,
      font: style.getPropertyValue("font-family"),
      view: { stroke: null },
      axis: {
        ...label,
        titleFontSize: 11,
        titleFontWeight: "normal",
        domainColor: of("line"),
        tickColor: of("line"),
        gridColor: of("grid"),
        labelOverlap: true,
      },
      legend: { ...label, titleFontSize: 11, titleFontWeight: "normal", orient: "top" },
      title: { color: of("text"), fontSize: 12 },
      text: { color: of("text") },
      range: { category: [1, 2, 3, 4, 5, 6, 7].map((number) => of(`series-${number}`)) },
      point: { opacity: 0.85 },
      bar: { cornerRadiusEnd: 1 },
      style: {
        baseline: { color: of("baseline") },
        now: { color: of("now") },
        "baseline-line": { color: of("baseline") },
        "now-line": { color: of("now") },
        ideal: { color: of("quiet"), strokeDash: [4, 3], strokeWidth: 1 },
        band: { color: of("band"), opacity: 1 },
        interval: { color: of("now") },
        mark: { color: of("alarm"), opacity: 1 },
        "wait-line": { color: of("wait") },
        "other-line": { color: of("baseline"), opacity: 0.5 },
        warmup: { color: of("shade"), opacity: 1 },
      },
    };
  };

  const views = new Map();
  const draw = async (figure) => {
    const holder = figure.querySelector(".chart");
    try {
      const { spec } = await chartOf(figure);
      const sized = { width: "container", autosize: { type: "fit-x", contains: "padding" } };
      const whole = { ...("hconcat" in spec || "vconcat" in spec ? {} : sized), ...spec };
      const compiled = vegaLite.compile(whole, { config: config() });
      const view = new vega.View(vega.parse(compiled.spec, null, { ast: true }), {
        expr: vegaInterpreter,
        renderer: "svg",
        container: holder,
        hover: true,
      });
      views.get(figure)?.finalize();
      views.set(figure, view);
      await view.runAsync();
      figure.dataset.drawn = "";
    } catch (error) {
      holder.textContent = `This chart could not be drawn (${error.message}); its figures are below.`;
      console.error(error);
    }
  };

  // The figures are markup that was escaped where it was made; the page's policy holds for it too.
  const fill = async (details) => {
    const { numbers } = await chartOf(details.closest("figure"));
    details.querySelector("div").innerHTML = numbers;
  };
  for (const details of all("figure details.numbers")) {
    details.addEventListener("toggle", () => fill(details), { once: true });
  }

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "200px" },
  );
  all("figure[data-chart]").forEach((figure) => watcher.observe(figure));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    [...views.keys()].forEach(draw);
  });
})();
