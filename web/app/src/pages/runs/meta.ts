import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "runs",
  title: "Runs",
  about: "What assay run tried, kept and proved.",
  order: 100,
  group: "machines",
};
