import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "validate",
  title: "Validate",
  about: "Every published figure against its prediction, and how far off it is.",
  order: 60,
  group: "model",
};
