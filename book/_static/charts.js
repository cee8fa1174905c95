/* Draws the charts of a page with the site's own scripts; no request leaves the site.
 *
 * A figure (lib/charts/render.py) pushes [id, spec] to window.rewardCharts, which may happen
 * before or after this file is read. vega.js gives vegaEmbed and rewardThemes: one Vega-Lite
 * configuration for light, one for dark, and the width below which a container is narrow.
 *
 * A drawn chart has data-state="drawn", one that could not be drawn data-state="failed" and
 * says so, with its alternative text, in its place.
 */
(function () {
  "use strict";

  const charts = [];

  function isDark() {
    const theme = document.documentElement.dataset.theme;
    if (theme === "dark" || theme === "light") return theme === "dark";
    return window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /* The site's root as this page sees it ("../../"); Sphinx writes it into every page. */
  function siteRoot() {
    const sphinx = window.DOCUMENTATION_OPTIONS || {};
    return document.documentElement.dataset.content_root ?? sphinx.URL_ROOT ?? "";
  }

  /** Draw spec in the element with that id; a second chart takes the second such element. */
  function rewardChart(id, spec) {
    const element = Array.from(document.querySelectorAll(`[id="${CSS.escape(id)}"]`)).find(
      (candidate) => !candidate.dataset.state
    );
    if (!element) {
      console.error(`no place on this page for chart ${id}`);
      return Promise.resolve();
    }
    const told = element.querySelector(".chart-alternative");
    const chart = {
      element,
      spec,
      alternative: told ? told.textContent : "",
      controls: document.createElement("div"),
      result: null,
      look: "",
      width: 0,
      queue: Promise.resolve(),
    };
    element.dataset.state = "waiting";
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", chart.alternative);
    chart.controls.className = "chart-controls";
    element.before(chart.controls);
    offerPictures(chart);
    charts.push(chart);
    new ResizeObserver(() => refresh(chart)).observe(element);
    return refresh(chart);
  }

  /* One drawing at a time for each chart: a theme may change while another is under way. */
  function refresh(chart) {
    chart.queue = chart.queue.then(() => update(chart)).catch((error) => fail(chart, error));
    return chart.queue;
  }

  async function update(chart) {
    const width = chart.element.clientWidth;
    if (width === 0 || chart.element.dataset.state === "failed") return;
    const themes = window.rewardThemes;
    if (!window.vegaEmbed || !themes) throw new Error("the site's vega.js is missing");
    const dark = isDark();
    const narrow = width < themes.narrow;
    const look = `${dark} ${narrow}`;
    if (look !== chart.look) {
      await draw(chart, dark, narrow, themes);
      chart.look = look;
    } else if (width !== chart.width) {
      await chart.result.view.width(width).runAsync();
    }
    chart.width = width;
  }

  async function draw(chart, dark, narrow, themes) {
    const given = { dark, narrow, root: siteRoot() };
    const spec = JSON.parse(JSON.stringify(chart.spec));
    if (narrow) Object.assign(spec, spec.usermeta && spec.usermeta.narrow);
    for (const parameter of spec.params || []) {
      if (parameter.name in given) parameter.value = given[parameter.name];
      else if (parameter.bind && chart.result) {
        parameter.value = chart.result.view.signal(parameter.name);
      }
    }
    // The old drawing stays until the new one is whole, so the page doesn't jump.
    const stage = document.createElement("div");
    stage.className = "chart-stage";
    chart.element.append(stage);
    chart.controls.replaceChildren();
    const result = await window.vegaEmbed(stage, spec, {
      mode: "vega-lite",
      renderer: "svg",
      actions: false,
      defaultStyle: false,
      bind: chart.controls,
      config: dark ? themes.dark : themes.light,
      tooltip: { disableDefaultStyle: true },
    });
    if (chart.result) chart.result.finalize();
    chart.result = result;
    for (const child of Array.from(chart.element.children)) {
      if (child !== stage) child.remove();
    }
    stage.className = "chart-drawing";
    chart.element.dataset.state = "drawn";
  }

  /* Buttons beside the data that save the drawing, as its menus have it now. */
  function offerPictures(chart) {
    const data = chart.element.closest("figure")?.querySelector(".chart-data");
    if (!data) return;
    for (const [label, kind, scale] of [["SVG", "svg", 1], ["PNG", "png", 2]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "chart-save";
      button.textContent = label;
      button.addEventListener("click", async () => {
        const view = chart.result.view;
        view.background(getComputedStyle(document.body).backgroundColor);
        const link = document.createElement("a");
        link.href = await view.toImageURL(kind, scale);
        link.download = data.querySelector("a").download.replace(/[.]csv([.]gz)?$/, `.${kind}`);
        link.click();
      });
      data.append(", ", button);
    }
  }

  function fail(chart, error) {
    console.error("a chart could not be drawn", error);
    const failure = document.createElement("p");
    failure.className = "chart-failure";
    failure.textContent = `This chart could not be drawn (${error.message || error}).`;
    const alternative = document.createElement("p");
    alternative.textContent = chart.alternative;
    chart.controls.replaceChildren();
    chart.element.replaceChildren(failure, alternative);
    chart.element.removeAttribute("role");
    chart.element.removeAttribute("aria-label");
    chart.element.dataset.state = "failed";
  }

  /* Pages and a filter for a long table; its rows are packed beside it (lib/report.py). */
  async function pageTable(place) {
    const packed = place.querySelector("script.table-rows").textContent;
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const columns = JSON.parse(await new Response(stream).text());
    const size = Number(place.dataset.size);
    const body = place.querySelector("tbody");
    const status = place.querySelector(".table-status");
    const every = columns[0].rows.map((_, row) => row);
    let rows = every;
    let first = 0;

    function cell(column, row) {
      const text = column.texts[column.rows[row]];
      const made = document.createElement("td");
      if (column.number) made.className = "number";
      const inner = document.createElement(column.chip ? "span" : "bdi");
      if (column.chip && text !== "–") {
        const kind = text.toLowerCase().replace(/[^a-z]+/g, "-").replace(/^-|-$/g, "");
        inner.className = `verdict verdict-${kind}`;
      }
      inner.textContent = text;
      made.append(inner);
      return made;
    }

    function show() {
      const last = Math.min(first + size, rows.length);
      body.replaceChildren(
        ...rows.slice(first, last).map((row) => {
          const made = document.createElement("tr");
          made.append(...columns.map((column) => cell(column, row)));
          return made;
        }),
      );
      const found = rows.length === every.length ? "" : " found";
      status.textContent = rows.length
        ? `Rows ${first + 1} to ${last} of ${rows.length}${found}.`
        : "No row is found.";
      back.disabled = first === 0;
      on.disabled = last >= rows.length;
    }

    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const hits = words.map((word) =>
        columns.map((column) => column.texts.map((text) => text.toLowerCase().includes(word))),
      );
      rows = every.filter((row) =>
        hits.every((hit) => columns.some((column, k) => hit[k][column.rows[row]])),
      );
      first = 0;
      show();
    }

    function button(label, by) {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = label;
      made.addEventListener("click", () => {
        first = Math.max(0, first + by);
        show();
      });
      return made;
    }

    const search = document.createElement("input");
    search.type = "search";
    search.placeholder = "Filter rows by words";
    search.setAttribute("aria-label", "Filter rows by words");
    search.addEventListener("input", filter);
    const back = button("Previous", -size);
    const on = button("Next", size);
    const controls = document.createElement("div");
    controls.className = "chart-controls";
    controls.append(search, back, on);
    status.setAttribute("aria-live", "polite");
    status.before(controls);
    show();
  }

  function pageTables() {
    for (const place of document.querySelectorAll(".table-paged")) {
      pageTable(place).catch((error) => console.error("a table has no pages", error));
    }
  }

  function refreshAll() {
    charts.forEach(refresh);
  }

  /* Paper is white and can't be clicked: a dark page is printed as a light one, its charts drawn
   * again, and what is folded, but for code, is printed too. */
  function readyPrint() {
    const root = document.documentElement;
    let undo = [];
    window.addEventListener("beforeprint", () => {
      if (isDark()) {
        const screen = root.dataset.theme || "";
        root.dataset.theme = "light";
        undo.push(() => (root.dataset.theme = screen));
      }
      for (const folded of document.querySelectorAll(".bd-article details:not([open], .hide)")) {
        folded.open = true;
        undo.push(() => (folded.open = false));
      }
    });
    window.addEventListener("afterprint", () => {
      undo.forEach((step) => step());
      undo = [];
    });
  }

  function start() {
    new MutationObserver(refreshAll).observe(document.documentElement, {
      attributes: true,
      attributeFilter: ["data-theme"],
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refreshAll);
    readyPrint();
    pageTables();
    const waiting = window.rewardCharts || [];
    window.rewardCharts = { push: (entry) => rewardChart(entry[0], entry[1]) };
    waiting.forEach((entry) => rewardChart(entry[0], entry[1]));
  }

  window.rewardChart = rewardChart;
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
