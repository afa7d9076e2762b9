// Light or dark: as the system says, until the reader chooses.

import { useEffect, useState } from "react";
import { recall, remember } from "../shell/memory";

export type Theme = "light" | "dark";

const KEY = "assay.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): Theme | null {
  const text = recall(KEY);
  return text === "light" || text === "dark" ? text : null;
}

export function theme(): Theme {
  return chosen() ?? (system.matches ? "dark" : "light");
}

function apply(): void {
  document.documentElement.dataset["theme"] = theme();
  for (const listener of listeners) listener();
}

/** Follow the system from the first paint on. */
export function startTheme(): void {
  apply();
  system.addEventListener("change", apply);
}

export function chooseTheme(value: Theme): void {
  remember(KEY, value);
  apply();
}

/** The theme that is shown; charts on a canvas draw again when it changes. */
export function useTheme(): Theme {
  const [value, setValue] = useState(theme);
  useEffect(() => {
    const listener = () => setValue(theme());
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return value;
}

/** A color of the palette as the browser resolves it, for canvases: color("--accent"). */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
