import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "cone",
  title: "Cone",
  about: "Everything that a number depends on, as a map.",
  order: 30,
  group: "model",
};
