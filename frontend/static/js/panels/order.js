/**
 * The order of names in every list: the mirror of dashboard/panels/order.py.
 */

/**
 * Order as a person counts, the same as the server's: runs of digits by their number, the rest by its characters.
 * @param {string} a
 * @param {string} b
 */
export function natural(a, b) {
  const one = a.split(/([0-9]+)/), two = b.split(/([0-9]+)/);
  for (let i = 0; i < Math.min(one.length, two.length); i += 1) {
    const x = stripped(one, i), y = stripped(two, i);
    if (i % 2 && x.length !== y.length) return x.length - y.length;
    if (x !== y) return x < y ? -1 : 1;
  }
  return one.length - two.length || (a < b ? -1 : a > b ? 1 : 0);
}

/**
 * @param {string[]} parts
 * @param {number} i
 */
function stripped(parts, i) {
  const part = parts[i] ?? "";
  return i % 2 ? part.replace(/^0+/, "") : part;
}
