import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "store",
  title: "Store",
  about: "Runs, traces, recordings, results and calibrations that a team shares.",
  order: 105,
  group: "machines",
};
