"use strict";
// Two sessions of a history in one table: which ones is in the address, so that a link to it lasts.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.getElementById("compared").tBodies[0];
  const selects = ["before", "after"].map((id) => document.getElementById(id));

  const rateText = (rate, unit) => {
    if (rate === undefined || rate === null) return "--";
    if (rate >= 1000) return `${rate.toFixed(0)} ${unit}/s`;
    return `${rate.toPrecision(4)} ${unit}/s`;
  };
  const percent = (share) =>
    share === null ? "--" : `${share < 0 ? "" : "+"}${(100 * share).toFixed(1)} %`;

  const filled = (tag, words, value) => {
    const one = document.createElement(tag);
    if (words instanceof Node) one.append(words);
    else one.textContent = words;
    if (value !== null && value !== undefined) one.dataset.sort = value;
    return one;
  };

  const rowOf = (index, [old, now]) => {
    const [caseId, place, unit, link] = data.series[index];
    const change = old?.[1] && typeof now?.[1] === "number" ? now[1] / old[1] - 1 : null;
    const anchor = document.createElement("a");
    anchor.href = link;
    const name = document.createElement("bdi");
    name.textContent = caseId;
    anchor.append(name);
    const row = document.createElement("tr");
    const heading = filled("th", anchor, caseId);
    heading.scope = "row";
    const numbers = [
      filled("td", rateText(old?.[1], unit), old?.[1]),
      filled("td", rateText(now?.[1], unit), now?.[1]),
      filled("td", percent(change), change),
    ];
    for (const one of numbers) one.className = "n";
    const verdicts = [old, now].map((one) => filled("td", one ? data.verdicts[one[2]] : "--"));
    row.append(heading, filled("td", place), ...numbers, ...verdicts);
    return [change === null, change ?? 0, index, row];
  };

  const show = () => {
    const [before, after] = selects.map(
      (select) => new Map(data.outcomes[Number(select.value)].map((one) => [one[0], one])),
    );
    const indexes = [...new Set([...before.keys(), ...after.keys()])];
    const rows = indexes.map((index) => rowOf(index, [before.get(index), after.get(index)]));
    rows.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    body.replaceChildren(...rows.map((one) => one[3]));
  };

  const fromAddress = () => {
    const names = location.hash.slice(1).split("&").map(decodeURIComponent);
    names.slice(0, 2).forEach((name, side) => {
      const found = data.sessions.indexOf(name);
      if (found >= 0) selects[side].value = String(found);
    });
    show();
  };

  for (const select of selects) {
    select.addEventListener("change", () => {
      const names = selects.map((one) => encodeURIComponent(data.sessions[Number(one.value)]));
      history.replaceState(null, "", `#${names.join("&")}`);
      show();
    });
  }
  addEventListener("hashchange", fromAddress);
  if (data.sessions.length) fromAddress();
})();
