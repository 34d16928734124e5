// @ts-check
/**
 * Which keys are the panel's, and which the notebook's around it.
 *
 * Notebook 7 and JupyterLab take keys from focused elements unless the element itself says this, and Notebook 6
 * takes what reaches the page. So all of the panel, the ipywidgets included, says it, and gives away what it has
 * no use for: combinations with Ctrl or Cmd, such as the one that saves the notebook. Escape gives the focus back.
 */

const MARK = "data-lm-suppress-shortcuts";
const OF_TEXT = "acvxyz"; // select, copy, paste, cut, redo and undo
const OF_TEXT_BY_SHIFT = "vz"; // paste as text, and redo

/** @param {EventTarget | null} target */
const isField = (target) => target instanceof HTMLInputElement && !["checkbox", "range"].includes(target.type);

/** What Ctrl+Z and its like ask for, outside of fields, which have their own. @param {KeyboardEvent} event */
function stepOf(event) {
  const key = event.key.toLowerCase();
  if (isField(event.target) || event.altKey || !(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key)) return null;
  return key === "y" || event.shiftKey ? "redo" : "undo";
}

/** Whether a key is for the notebook: it is no key of the panel, and none of a text. @param {KeyboardEvent} event */
function isForNotebook({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  if (!(ctrlKey || metaKey) || altKey || key.length !== 1 || key === " ") return false;
  return !(shiftKey ? OF_TEXT_BY_SHIFT : OF_TEXT).includes(key.toLowerCase());
}

/**
 * @param {HTMLElement} panel
 * @param {(what: "undo" | "redo") => void} step
 * @param {AbortSignal} signal Ends it.
 */
export function shareKeys(panel, step, signal) {
  const claim = (/** @type {Event} */ { target }) => target instanceof Element && target.setAttribute(MARK, "true");
  const keep = (/** @type {KeyboardEvent} */ event) => {
    const what = stepOf(event);
    if (what) {
      event.preventDefault();
      event.stopPropagation();
      return step(what);
    }
    if (event.ctrlKey || event.metaKey) return;
    event.stopPropagation();
    const outside = panel.parentElement?.closest("[tabindex]"); // the cell, where it takes keys
    if (event.key === "Escape" && outside instanceof HTMLElement) {
      outside.focus({ preventScroll: true });
    }
  };
  // Lumino looks for the mark in the capture phase at the document; the window is before it.
  const give = (/** @type {KeyboardEvent} */ event) => {
    if (!isForNotebook(event) || !(event.target instanceof Element) || !panel.contains(event.target)) return;
    const marked = /** @type {Element[]} */ ([]);
    for (let one = /** @type {Element | null} */ (event.target); one; one = one.parentElement) {
      if (one.hasAttribute(MARK)) marked.push(one);
    }
    for (const one of marked) one.removeAttribute(MARK);
    setTimeout(() => marked.forEach((one) => one.setAttribute(MARK, "true"))); // after all listeners
  };
  panel.addEventListener("focusin", claim, { signal });
  panel.addEventListener("keydown", keep, { signal });
  window.addEventListener("keydown", give, { signal, capture: true });
}
