// The list of keys and gestures.

import { button, element } from "./dom";

const KEYS: readonly (readonly [string, string])[] = [
  ["W S, wheel, pinch", "zoom in and out"],
  ["A D, drag, sideways wheel", "move in time"],
  ["Shift + drag, or drag on the axis", "select a range and sum what ran in it"],
  ["click, double click", "select a span; zoom to it"],
  ["\u2190 \u2192", "previous and next span of the track"],
  ["\u2191 \u2193", "the span around it, and the first inside it"],
  ["[ ]", "previous and next step"],
  ["/", "search by kernel or operation; /expression/ is a regular expression"],
  ["Enter, Shift + Enter", "next and previous match"],
  ["F", "zoom to the selection"],
  ["0", "show the whole trace"],
  ["C", "color by the next property"],
  ["Esc", "clear the selection and the search"],
  ["?", "this list"],
];

export function helpDialog(): HTMLDialogElement {
  const dialog = element("dialog", { class: "at-help", attributes: { "aria-label": "Keys" } });
  const list = element("dl", { class: "at-keys" });
  for (const [keys, meaning] of KEYS) {
    list.append(element("dt", {}, keys), element("dd", {}, meaning));
  }
  const close = button("\u00d7", "Close", () => dialog.close());
  dialog.append(element("header", {}, element("h2", {}, "Keys"), close), list);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
