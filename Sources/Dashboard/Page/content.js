// The content of a message.

import { bytes, element } from "/elements.js";

/** The content of a message, as text where it is text. */
export function contentCard(title, content) {
  return element("section", { class: "card", "aria-label": "Content" }, element("h2", {}, title),
    element("pre", {}, content.text ?? content.base64),
    element("p", { class: "quiet" }, `${content.text == null ? "In base64, " : ""}`
      + `${bytes(content.byteCount)}${content.isCut ? ", of which this is the beginning" : ""}`));
}
