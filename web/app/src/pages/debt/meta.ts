import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "debt",
  title: "Root debt",
  about: "Inputs that are assumed or missing, by what rests on them.",
  order: 50,
  group: "model",
};
