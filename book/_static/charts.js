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
      view: null,
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
    const look = { dark: isDark(), narrow: width < themes.narrow };
    if (!chart.view) await draw(chart, width, look, themes);
    else await follow(chart.view, chart.spec, width, look);
  }

  async function draw(chart, width, look, themes) {
    const given = { ...look, root: siteRoot() };
    const spec = { ...chart.spec, ...(look.narrow && chart.spec.usermeta?.narrow), width };
    spec.params = spec.params.map((parameter) =>
      parameter.name in given ? { ...parameter, value: given[parameter.name] } : parameter,
    );
    const drawing = document.createElement("div");
    const { view } = await window.vegaEmbed(drawing, spec, {
      mode: "vega-lite",
      renderer: "svg",
      actions: false,
      defaultStyle: false,
      bind: chart.controls,
      config: eitherOf(themes.light, themes.dark),
      tooltip: { disableDefaultStyle: true },
    });
    chart.view = view;
    drawing.className = "chart-drawing";
    chart.element.replaceChildren(drawing);
    chart.element.dataset.state = "drawn";
  }

  /* One configuration of two: where they differ, an expression that follows the page's mode. */
  function eitherOf(light, dark) {
    if (light === dark) return light;
    if (typeof light !== "object" || light === null)
      return { expr: `dark ? ${JSON.stringify(dark)} : ${JSON.stringify(light)}` };
    return Object.fromEntries(
      Object.keys(light).map((name) => [name, eitherOf(light[name], dark[name])]),
    );
  }

  async function follow(view, spec, width, look) {
    const size = { ...spec, ...(look.narrow && spec.usermeta?.narrow) }.height;
    if (typeof size === "number") view.height(size);
    else view.signal("y_step", size.step);
    for (const [name, value] of Object.entries(look)) view.signal(name, value);
    await view.width(width).runAsync();
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
        const { view } = chart;
        const background = view.background();
        view.background(getComputedStyle(document.body).backgroundColor);
        const link = document.createElement("a");
        link.href = await view.toImageURL(kind, scale);
        view.background(background);
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
