// @ts-check
/**
 * Fingers on a picture. Two of them move and zoom it. One finger scrolls the page, so that nobody is held
 * up at a large picture; where `touch-action` says that nothing scrolls, it drags as a mouse does.
 *
 * @import { Point } from "./boxes.js"
 */

/** @param {Touch} a @param {Touch} b */
const between = (a, b) => ({ x: (a.clientX + b.clientX) / 2, y: (a.clientY + b.clientY) / 2 });

/** @param {Touch} a @param {Touch} b */
const apart = (a, b) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);

/** Whether a press on this element scrolls when it moves. @param {HTMLElement} stage @param {PointerEvent} press */
export const scrolls = (stage, press) =>
  press.pointerType === "touch" && getComputedStyle(stage).touchAction !== "none";

/**
 * @param {HTMLElement} stage
 * @param {(from: Point, to: Point, factor: number) => void} act Called with where the middle of two fingers
 *   was and is, in the window, and how much farther apart they are.
 * @param {() => void} begin Called when a second finger comes: the first one drags nothing now.
 */
export function follow(stage, act, begin) {
  let before = { x: 0, y: 0, apart: 0 };
  /** The two fingers on the stage; null if there are others. @param {TouchEvent} event */
  const see = ({ touches }) => {
    const on = [...touches].filter(({ target }) => target instanceof Node && stage.contains(target));
    return on.length === 2 ? { ...between(on[0], on[1]), apart: apart(on[0], on[1]) } : null;
  };
  stage.addEventListener("touchstart", (event) => {
    const now = see(event);
    if (!now) return;
    event.preventDefault(); // the page neither scrolls nor zooms
    before = now;
    begin();
  }, { passive: false });
  stage.addEventListener("touchmove", (event) => {
    const now = see(event);
    if (!now) return;
    event.preventDefault();
    act(before, now, before.apart ? now.apart / before.apart : 1);
    before = now;
  }, { passive: false });
}
