import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "docs",
  title: "Docs and glossary",
  about: "The documentation of this release, and the terms of the field.",
  order: 200,
  group: "help",
};
