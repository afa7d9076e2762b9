import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "lab",
  title: "Scenario lab",
  about: "Move any input and see cost, speed, power and limits move with it.",
  order: 10,
  group: "model",
};
