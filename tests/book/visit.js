/* Reads a page in each of the themes: unfolds it, waits for marks in all its charts, presses the
 * theme's own button until the page has a theme, and measures the contrast of its text there
 * (contrast.js). Gives the theme that it opened in, how many charts it has, and what was read.
 */
async (contrast, { least, marks, themes }) => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const first = root.dataset.theme;

  async function until(what, holds) {
    const end = performance.now() + 30_000;
    while (!holds()) {
      if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
      await new Promise((done) => setTimeout(done, 20));
    }
    // What observers of sizes and themes do is done, and painted.
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }

  // A page's contents unfold, and mark where a reader is, as one scrolls.
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  for (const part of document.querySelectorAll(".page-toc .nav"))
    part.classList.add("pst-show_toc_level");
  document.querySelector(".page-toc .nav-link")?.classList.add("active");

  const drawn = (chart) => chart.querySelector("[data-state=drawn]")?.querySelector(marks);
  await until("marks in every chart", () => charts.every(drawn));
  const read = [];
  for (const theme of themes) {
    const at = root.dataset.theme;
    for (let press = 0; press < 3 && root.dataset.theme !== theme; press++)
      document.querySelector(".theme-switch-button").click();
    if (theme !== at)
      await until(`the page in ${theme}`, () => root.dataset.theme === theme && charts.every(drawn));
    read.push(contrast(least));
  }
  return { first, charts: charts.length, read };
};
