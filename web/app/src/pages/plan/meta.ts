import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "plan",
  title: "Plan",
  about: "How many GPUs a rate of requests needs, and what tighter limits cost.",
  order: 15,
  group: "model",
};
