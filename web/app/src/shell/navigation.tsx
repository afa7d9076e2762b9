import { useEffect, useState } from "react";
import { chooseTheme, useTheme } from "../design/theme";
import { PAGES, type PageMeta } from "../routes";
import { href } from "./route";

const GROUPS: readonly (readonly [PageMeta["group"], string])[] = [
  ["model", "Model"],
  ["machines", "Machines"],
  ["help", "Help"],
];

export function Navigation(props: { readonly current: string; readonly search: () => void }) {
  const theme = useTheme();
  const [isOpen, setOpen] = useState(false);
  const other = theme === "dark" ? "light" : "dark";
  // biome-ignore lint/correctness/useExhaustiveDependencies: a menu closes when it was used.
  useEffect(() => setOpen(false), [props.current]);
  return (
    <header className={`navigation ${isOpen ? "open" : ""}`}>
      <div className="navigation-head">
        <a className="brand" href={href("")}>
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="7" className="brand-ground" />
            <path d="M7 22h4v-5H7zm7 0h4V10h-4zm7 0h4v-8h-4z" className="brand-bars" />
          </svg>
          Assay
        </a>
        <button
          type="button"
          className="button quiet menu-button"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
      </div>
      <nav id="navigation" aria-label="Pages">
        <button
          type="button"
          className="search-button"
          aria-keyshortcuts="Control+K Meta+K"
          onClick={props.search}
        >
          Go to <kbd>Ctrl K</kbd>
        </button>
        {GROUPS.map(([group, title]) => {
          const pages = PAGES.filter((page) => page.group === group);
          if (!pages.length) return null;
          return (
            <div key={group} className="navigation-group">
              <div className="navigation-title">{title}</div>
              <ul>
                {pages.map((page) => (
                  <li key={page.path}>
                    <a
                      href={href(page.path)}
                      aria-current={page.path === props.current ? "page" : undefined}
                    >
                      {page.title}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
        <button
          type="button"
          className="button quiet theme-button"
          onClick={() => chooseTheme(other)}
        >
          {other === "dark" ? "Dark" : "Light"} theme
        </button>
      </nav>
    </header>
  );
}
