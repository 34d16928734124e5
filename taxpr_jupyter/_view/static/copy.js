// @ts-check
/** A picture as PNG, into the clipboard or, where the page may not write there, into a file. */

const PIXELS = 2; // for each of the picture
const MOST = 8192; // pixels of a side, which every browser can draw

/**
 * @param {SVGSVGElement} svg
 * @returns {Promise<Blob>}
 */
async function png(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  copy.removeAttribute("style"); // where it is on the stage
  copy.querySelector(".tx-names")?.remove(); // which stand for texts too small for the stage
  // A saved page has the style sheet of its pictures only once.
  if (!copy.querySelector("style")) {
    const look = document.createElementNS("http://www.w3.org/2000/svg", "style");
    look.textContent = document.getElementById("taxpr-look")?.textContent ?? "";
    copy.prepend(look);
  }
  const { width, height } = svg.viewBox.baseVal;
  const scale = Math.min((PIXELS * 4) / 3, MOST / Math.max(width, height, 1));
  const [wide, high] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  copy.setAttribute("width", String(wide));
  copy.setAttribute("height", String(high));
  const address = URL.createObjectURL(
    new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }),
  );
  try {
    const image = new Image(wide, high);
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [wide, high];
    const paper = canvas.getContext("2d");
    if (!paper) throw new Error("there is no canvas");
    paper.fillStyle = "#fff";
    paper.fillRect(0, 0, wide, high);
    paper.drawImage(image, 0, 0, wide, high);
    return await new Promise((done, fail) =>
      canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("it is too large"))), "image/png"),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

/**
 * Copies a picture, or saves it, and says which.
 * @param {SVGSVGElement | null} svg
 * @param {(words: string, error?: boolean) => void} say
 */
export async function copyPicture(svg, say) {
  if (!svg) return say("There is no picture.", true);
  try {
    const picture = png(svg);
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
      say("The picture was copied.");
    } catch {
      // No permission, or no clipboard on plain http.
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await picture);
      link.download = "taxpr.png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      say("The picture was saved as taxpr.png.");
    }
  } catch (error) {
    say(`The picture could not be copied: ${error instanceof Error ? error.message : error}`, true);
  }
}
