import type { PageMeta } from "../../routes";

export const meta: PageMeta = {
  path: "speech",
  title: "Speech",
  about: "Speak and read what was heard; write and listen. Nothing leaves this machine.",
  order: 130,
  group: "machines",
};
