// The program of a page that is one file: reads the data inside it and shows the timeline.

import { documentBlocks } from "./blocks";
import { TimelineData } from "./data";
import { element } from "./dom";
import { Timeline } from "./timeline";

declare global {
  interface Window {
    assayTimeline?: Timeline;
  }
}

/** Something to read in place of a timeline. */
function state(title: string, text: string): HTMLElement {
  return element("main", { class: "at-state" }, element("h1", {}, title), element("p", {}, text));
}

async function start(host: HTMLElement): Promise<void> {
  host.replaceChildren(state("Reading the trace", "Columns are being decoded."));
  if (typeof DecompressionStream === "undefined") {
    throw new Error(
      "this browser cannot inflate the data: expected Chrome 80, Firefox 113, Safari 16.4 or later",
    );
  }
  const data = await TimelineData.load(documentBlocks(document));
  if (data.rows === 0) {
    host.replaceChildren(state("Nothing to show", "The trace has no events."));
    return;
  }
  window.assayTimeline = new Timeline(host, data, { usesAddress: true });
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("assay-first-paint")));
}

const host = document.getElementById("timeline");
if (host) {
  start(host).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    host.replaceChildren(state("This timeline cannot be shown", reason));
  });
}
