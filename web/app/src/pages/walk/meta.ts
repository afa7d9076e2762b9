import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "walk",
  title: "Walk",
  about: "The relations from one variable to another, with what each passes on.",
  order: 45,
  group: "model",
};
