// Elements made of text: nothing of a trace is ever parsed as HTML.

type Child = Node | string | null;

interface Options {
  readonly class?: string;
  readonly title?: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly onClick?: (event: MouseEvent) => void;
}

/** An element with children; strings become text nodes. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  options: Options = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  if (options.class) made.className = options.class;
  if (options.title) made.title = options.title;
  for (const [name, value] of Object.entries(options.attributes ?? {})) {
    made.setAttribute(name, value);
  }
  if (options.onClick) made.addEventListener("click", options.onClick as EventListener);
  made.append(...children.filter((child): child is Node | string => child !== null));
  return made;
}

/** A button with a label for those who do not see its sign. */
export function button(
  sign: string,
  label: string,
  onClick: (event: MouseEvent) => void,
): HTMLButtonElement {
  const attributes = { type: "button", "aria-label": label };
  return element("button", { class: "at-button", title: label, attributes, onClick }, sign);
}

/** A square of a color. */
export function swatch(color: string): HTMLElement {
  const made = element("span", { class: "at-swatch" });
  made.style.background = color;
  return made;
}
