// @ts-check
/** Addresses in the browser: `taxpr.Address` says what they are. */

/** The part of its own, the last. @param {string} address */
export const localOf = (address) => address.slice(address.lastIndexOf("/") + 1);

/** Itself and all that it is in, from the inside out. @param {string} address */
export function outward(address) {
  const parts = address.split("/");
  return parts.map((_, k) => parts.slice(0, parts.length - k).join("/"));
}

/** Whether it is somewhere in another place. @param {string} address @param {string} outer */
export const isIn = (address, outer) => address.startsWith(`${outer}/`);

/** Whether it is a tag. @param {string} address */
export const isTag = (address) => /^t\d+$/.test(localOf(address));

/** The name of an equation's primitive; "" for all else. @param {string} address */
export const primitiveOf = (address) => /^\d+:(.+)$/.exec(localOf(address))?.[1] ?? "";
