import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "",
  title: "Home",
  about: "Ask what a number is made of.",
  order: 0,
  group: "model",
};
