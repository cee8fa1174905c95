/* Every visible text of a page whose contrast with what lies behind it is below `least`.
 *
 * Contrast is WCAG 2's ratio of relative luminances. Behind a text lie the backgrounds of its
 * ancestors, and in a chart the filled marks under its middle and its own halo. Only what is in the
 * window can be asked for, so it is scrolled to a chart's text: a window as high as the page would
 * have to be painted.
 */
(least) => {
  // What fades in has the colours of what it fades from, until it is at its end.
  for (const fading of document.getAnimations())
    if (fading.effect.getComputedTiming().endTime !== Infinity) fading.finish();
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const cache = new Map();

  function rgba(colour) {
    if (!cache.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      cache.set(colour, [r, g, b, a / 255]);
    }
    return cache.get(colour);
  }

  function over([r, g, b, a], below) {
    return [r, g, b].map((value, i) => value * a + below[i] * (1 - a));
  }

  function luminance(colour) {
    const [r, g, b] = colour.map((value) => {
      const v = value / 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function ratio(one, other) {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  }

  // Texts share most of what they lie in: each element is asked once.
  function once(ask) {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, ask(element));
      return known.get(element);
    };
  }

  const opacity = once((element) =>
    element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1,
  );
  const root = getComputedStyle(document.documentElement).colorScheme.includes("dark") ? 0 : 255;
  const behind = once((element) => {
    if (!element) return [root, root, root];
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
  });

  function inWindow(range) {
    const box = () => range.getBoundingClientRect();
    const middle = box().y + box().height / 2;
    if (middle < 0 || middle >= innerHeight)
      window.scrollTo({ top: scrollY + middle - innerHeight / 2, behavior: "instant" });
    return box();
  }

  function marksBehind(text, range) {
    const found = [];
    const svg = text.ownerSVGElement;
    const box = inWindow(range);
    for (const e of document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2)) {
      if (e.ownerSVGElement !== svg || e.tagName === "text" || e.tagName === "g") continue;
      const precedes = e.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
      const style = getComputedStyle(e);
      if (!precedes || style.fill === "none") continue;
      const [r, g, b, a] = rgba(style.fill);
      found.push([r, g, b, a * Number(style.fillOpacity) * opacity(e)]);
    }
    return found;
  }

  // Whatever is drawn can be asked for by its place; it stays so, for the next time.
  if (!document.getElementById("every-mark")) {
    const style = document.createElement("style");
    style.id = "every-mark";
    style.textContent = "svg, svg * { pointer-events: all !important; }";
    document.head.append(style);
  }
  const poor = [];
  const seen = { page: 0, chart: 0 };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const words = node.textContent.trim();
    const element = node.parentElement;
    if (!words || element.closest("script, style, noscript, title, desc")) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const computed = getComputedStyle(element);
    const text = element.closest("svg text");
    let below = behind(text ? text.ownerSVGElement.parentElement : element);
    let colour = rgba(computed.color);
    if (text) {
      below = marksBehind(text, range).reduceRight((b, layer) => over(layer, b), below);
      // A halo in the page's colour, drawn below the letters, is what surrounds them.
      const halo = rgba(computed.stroke === "none" ? "transparent" : computed.stroke);
      const drawn = computed.paintOrder.startsWith("stroke") ? Number(computed.strokeOpacity) : 0;
      below = over([...halo.slice(0, 3), halo[3] * drawn], below);
      colour = rgba(computed.fill);
      colour = [...colour.slice(0, 3), colour[3] * Number(computed.fillOpacity)];
    }
    seen[text ? "chart" : "page"] += 1;
    const ink = over([...colour.slice(0, 3), colour[3] * opacity(element)], below);
    const found = ratio(ink, below);
    if (found < least) {
      const place = element.closest("[class]");
      poor.push(`${words.slice(0, 40)} (${found.toFixed(2)}; ${place && place.getAttribute("class")})`);
    }
  }
  return { poor: [...new Set(poor)], seen };
};
