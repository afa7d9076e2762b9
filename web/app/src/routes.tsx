// The pages: every folder of pages/ that has a meta.ts and a page.tsx, which is loaded when it is
// first opened.

import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import { hasPage } from "./api/static";

export interface PageMeta {
  /** The first part of its address; "" is Home. */
  readonly path: string;
  readonly title: string;
  /** What the page is for, in one sentence. */
  readonly about: string;
  /** Where it stands in the navigation. */
  readonly order: number;
  /** The part of the navigation it stands in. */
  readonly group: "model" | "machines" | "help";
}

export interface Page extends PageMeta {
  readonly Component: LazyExoticComponent<ComponentType>;
}

const metas = import.meta.glob<{ meta: PageMeta }>("./pages/*/meta.ts", { eager: true });
const components = import.meta.glob<{ default: ComponentType }>("./pages/*/page.tsx");

function found(): Page[] {
  return Object.entries(metas)
    .map(([file, { meta }]) => {
      const load = components[file.replace(/meta\.ts$/, "page.tsx")];
      if (!load) throw new Error(`${file} has no page.tsx beside it`);
      return { ...meta, Component: lazy(load) };
    })
    .sort((one, other) => one.order - other.order);
}

export const PAGES: readonly Page[] = found().filter((page) => hasPage(page.path));
