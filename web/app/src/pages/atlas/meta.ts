import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "atlas",
  title: "Atlas",
  about: "The stack from campus power down to transistors.",
  order: 40,
  group: "model",
};
