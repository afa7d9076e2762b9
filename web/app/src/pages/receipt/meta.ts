import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "receipt",
  title: "Receipt",
  about: "What a number is made of, line by line.",
  order: 20,
  group: "model",
};
