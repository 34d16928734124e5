// @ts-check
/** The SVG of a picture as an element of the page: harmless, and ready for keys and screen readers. */

const PIXELS = 4 / 3; // in a point
const FORBIDDEN = new Set(
  "script foreignobject iframe object embed image audio video animate set".split(" "),
);

/** @param {Element} item */
export const addressOf = (item) => item.getAttribute("data-address") ?? "";

/**
 * Parses the SVG text and drops what could run a script or load something. The text is clean
 * already; this is the second line of defence.
 * @param {string} text
 * @returns {SVGSVGElement | null} null if the text is no SVG
 */
export function parseSvg(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.localName !== "svg") return null;
  for (const element of [root, ...root.querySelectorAll("*")]) {
    const loads = element.localName === "style" && /@import|url\(/i.test(element.textContent ?? "");
    if (loads || FORBIDDEN.has(element.localName.toLowerCase())) element.remove();
    for (const attribute of [...element.attributes]) {
      const name = attribute.localName.toLowerCase();
      const leads = (name === "href" || name === "src") && !attribute.value.startsWith("#");
      if (name.startsWith("on") || leads) element.removeAttributeNode(attribute);
    }
  }
  return /** @type {any} */ (document.importNode(root, true));
}

/** Makes a picture usable with keyboard and screen reader. @param {SVGSVGElement} svg */
export function prepare(svg) {
  svg.setAttribute("role", "listbox");
  svg.setAttribute("aria-label", "Picture of the program. Arrow keys move, Enter selects, O opens and closes.");
  for (const item of svg.querySelectorAll("[data-address]")) {
    const texts = [...item.querySelectorAll("text")];
    const lines = texts.map((text) => text.textContent?.trim());
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    item.setAttribute("tabindex", "-1");
    item.setAttribute("aria-label", `${lines.join(" ")}, ${addressOf(item)}`);
    for (const text of texts) text.after(" "); // else its lines are one word for a reader
    item.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  // Lines are together, so that all fade in as one.
  for (const first of svg.querySelectorAll(":not(.edge) + .edge, .edge:first-child")) {
    const edges = [first];
    for (let next = first.nextElementSibling; next?.matches(".edge"); next = next.nextElementSibling) edges.push(next);
    const group = document.createElementNS(svg.namespaceURI ?? "", "g");
    group.classList.add("tx-edges");
    first.before(group);
    group.append(...edges);
  }
}

/**
 * Takes the legend of colours out of a picture, and the room that it has there.
 * @param {SVGSVGElement} svg
 * @returns {Element[]} the legend as a picture of its own, if there is one
 */
export function legendOf(svg) {
  const legend = svg.querySelector(".legend[data-box]");
  if (!legend) return [];
  const own = document.createElementNS(svg.namespaceURI ?? "", "svg");
  const view = (/** @type {Element} */ element, /** @type {string} */ box) => {
    const [, , width, height] = box.split(" ").map(Number);
    element.setAttribute("viewBox", box);
    element.setAttribute("width", `${Math.round(width * PIXELS)}`);
    element.setAttribute("height", `${Math.round(height * PIXELS)}`);
  };
  view(own, legend.getAttribute("data-box") ?? "");
  view(svg, legend.getAttribute("data-graph") ?? "");
  own.append(legend);
  return [own];
}
