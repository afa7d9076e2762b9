import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "live",
  title: "Live",
  about: "The state of this machine, against the floor of what ran on it.",
  order: 110,
  group: "machines",
};
