// The bar at the top: the trace, the search, the coloring, and a few actions.

import { COLOR_MODES, type ColorMode } from "./colors";
import type { TimelineData } from "./data";
import { button, element } from "./dom";
import { count, printable } from "./text";

export interface ToolbarActions {
  readonly search: (query: string) => void;
  readonly step: (isForward: boolean) => void;
  readonly color: (mode: ColorMode) => void;
  readonly fit: () => void;
  readonly theme: () => void;
  readonly help: () => void;
}

export class Toolbar {
  readonly root: HTMLElement;
  readonly input = element("input", {
    class: "at-input",
    attributes: {
      type: "search",
      placeholder: "Search kernels and operations",
      "aria-label": "Search kernels and operations",
      spellcheck: "false",
      autocomplete: "off",
    },
  });
  private readonly found = element("output", { class: "at-found" });
  private readonly colors = element("select", {
    class: "at-select",
    attributes: { "aria-label": "Color by" },
  });

  constructor(data: TimelineData, actions: ToolbarActions) {
    const { name, header } = data.description;
    for (const [mode, text] of COLOR_MODES) {
      this.colors.append(element("option", { attributes: { value: mode } }, text));
    }
    this.colors.addEventListener("change", () => actions.color(this.colors.value as ColorMode));
    let pending = 0;
    this.input.addEventListener("input", () => {
      clearTimeout(pending);
      pending = window.setTimeout(() => actions.search(this.input.value), 120);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      clearTimeout(pending);
      actions.search(this.input.value);
      actions.step(!event.shiftKey);
    });
    const about = [header.model, header.engine].filter(Boolean).join(", ");
    this.root = element(
      "header",
      { class: "at-bar" },
      element(
        "div",
        { class: "at-title" },
        element("strong", {}, printable(name)),
        element("span", { class: "at-muted" }, printable(about)),
      ),
      element(
        "div",
        { class: "at-search" },
        this.input,
        this.found,
        button("\u2039", "Previous match", () => actions.step(false)),
        button("\u203a", "Next match", () => actions.step(true)),
      ),
      element("label", { class: "at-muted at-color" }, "Color by", this.colors),
      button("\u2922", "Show the whole trace (0)", actions.fit),
      button("\u25d0", "Light or dark", actions.theme),
      button("?", "Keys (?)", actions.help),
    );
  }

  setColor(mode: ColorMode): void {
    this.colors.value = mode;
  }

  /** Say how many spans match, and which one is selected. */
  setFound(text: string | null, total = 0, position: number | null = null): void {
    this.found.classList.toggle(
      "at-bad",
      text !== null || (total === 0 && this.input.value !== ""),
    );
    if (text !== null) this.found.textContent = text;
    else if (this.input.value === "") this.found.textContent = "";
    else if (position !== null) this.found.textContent = `${count(position)} of ${count(total)}`;
    else this.found.textContent = total === 0 ? "no match" : count(total);
  }
}
