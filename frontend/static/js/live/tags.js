/**
 * A line of tags: each a level, a glyph and a word, known by its id.
 */
import { arrange, glyph, mark, part, write } from "./patch.js";

/**
 * @param {HTMLElement} line
 * @param {{id: string, level: string, glyph: string, words: import("../words.js").Text}[]} tags
 * @param {() => HTMLElement} blank makes a new one
 * @param {import("../page.js").Context} context
 */
export function patchTags(line, tags, blank, { words, now }) {
  const shown = new Map([...line.children].map((tag) => [tag.getAttribute("data-tag"), tag]));
  arrange(line, tags.map((tag) => {
    const element = shown.get(tag.id) ?? blank();
    mark(element, "data-tag", tag.id);
    mark(element, "data-level", tag.level);
    glyph(part(element, ".ico"), tag.glyph);
    write(part(element, ":scope > span"), tag.words, words, now(), { flash: shown.has(tag.id) });
    return element;
  }));
}
