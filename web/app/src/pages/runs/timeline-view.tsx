// The timeline of a trace: the same program that reports hold, in a page of React.

import { useEffect, useRef, useState } from "react";
import { type Blocks, inflate, Timeline, TimelineData } from "../../../../src/index";
import "../../../../src/style.css";
import { getBytes } from "../../api/client";
import { Empty, ErrorState, Loading } from "../../components/states";

declare global {
  interface Window {
    assayTimeline?: Timeline;
  }
}

/** The blocks of a response: the length of an index, the index, then the blocks. */
function unpack(buffer: ArrayBuffer): Blocks {
  const size = new DataView(buffer).getUint32(0, true);
  const index = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))) as [
    string,
    number,
  ][];
  const parts = new Map<string, Uint8Array<ArrayBuffer>>();
  let at = 4 + size;
  for (const [name, length] of index) {
    parts.set(name, new Uint8Array(buffer, at, length));
    at += length;
  }
  return async (name) => {
    const found = parts.get(name);
    if (!found) throw new Error(`the trace has no block "${name}"`);
    return inflate(found);
  };
}

export function TimelineView(props: { readonly path: string }) {
  const host = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<"loading" | "ready" | "empty" | Error>("loading");
  useEffect(() => {
    const leave = new AbortController();
    let timeline: Timeline | null = null;
    async function show(): Promise<void> {
      const data = await TimelineData.load(unpack(await getBytes(props.path, {}, leave.signal)));
      if (leave.signal.aborted || !host.current) return;
      if (data.rows === 0) {
        setState("empty");
        return;
      }
      timeline = new Timeline(host.current, data);
      window.assayTimeline = timeline;
      setState("ready");
    }
    setState("loading");
    show().catch((error: Error) => {
      if (!leave.signal.aborted) setState(error);
    });
    return () => {
      leave.abort();
      timeline?.destroy();
    };
  }, [props.path]);
  return (
    <>
      {state === "loading" && <Loading what="Reading the trace" />}
      {state === "empty" && <Empty title="The trace has no events" />}
      {state instanceof Error && <ErrorState error={state} title="No timeline" />}
      <div ref={host} className="timeline-host" hidden={state !== "ready"} />
    </>
  );
}
