// @ts-check
/** Addresses in the browser: `taxpr.Address` says what they are. */

const PLACE = /^(?:(?:\d+:(.+?)|t\d+)(\.\d+)?|(?:in|const|out)\d+)$/s;

/** The part of its own, the last. @param {string} address */
export const localOf = (address) => address.slice(address.lastIndexOf("/") + 1);

const placeOf = (/** @type {string} */ address) => PLACE.exec(localOf(address));

/** Itself and all that it is in, from the inside out. @param {string} address */
export function outward(address) {
  const parts = address.split("/");
  return parts.map((_, k) => parts.slice(0, parts.length - k).join("/"));
}

/** Whether it is somewhere in another place. @param {string} address @param {string} outer */
export const isIn = (address, outer) => address.startsWith(`${outer}/`);

/** Whether it is that of a place, and not of a jaxpr. @param {string} address */
export const isPlace = (address) => placeOf(address) !== null;

/** Whether it is a tag. @param {string} address */
export const isTag = (address) => /^t\d+$/.test(localOf(address));

/** The name of an equation's primitive; "" for all else. @param {string} address */
export const primitiveOf = (address) => placeOf(address)?.[1] ?? "";

/** Of the result of an equation or tag, that; else itself. @param {string} address */
export const eqnOf = (address) => address.slice(0, address.length - (placeOf(address)?.[2]?.length ?? 0));
