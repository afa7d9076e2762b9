// The state of the lab is its address: up to four scenarios and the output in focus.

import { useCallback, useRef, useState } from "react";
import { href, replace, useRoute } from "../../shell/route";
import type { Graph } from "../../tape/graph";
import type { Selection } from "../../tape/scenario";
import { readSelections, selectionParams } from "../../tape/share";
import { type LabData, MOST_SCENARIOS } from "./types";

export interface LabState {
  readonly selections: readonly Selection[];
  readonly active: number;
  /** The output in focus; null for the first that the scenario is about. */
  readonly target: string | null;
}

export const FIRST_PRESET = "llama3_8b_h200_serving";

/** The state that a link describes; throws where it names what does not exist. */
export function readState(graph: Graph, data: LabData, params: URLSearchParams): LabState {
  const found = readSelections(graph, params);
  const selections = found.length > 0 ? found : [firstSelection(data)];
  for (const { preset } of selections) {
    if (preset && !data.presets.some(({ name }) => name === preset)) {
      throw new Error(`unknown preset "${preset}"`);
    }
  }
  const target = params.get("target");
  if (target !== null && !graph.position.has(target)) {
    throw new Error(`unknown variable "${target}"`);
  }
  const active = Math.min(
    Math.max(Number(params.get("scenario") ?? 1) - 1, 0),
    selections.length - 1,
  );
  return { selections: selections.slice(0, MOST_SCENARIOS), active: active || 0, target };
}

export function firstSelection(data: LabData): Selection {
  const preset = data.presets.find(({ name }) => name === FIRST_PRESET) ?? data.presets[0];
  return { preset: preset?.name ?? "", with: [], assign: {}, variants: {} };
}

/** The address of a state. */
export function linkOf(graph: Graph, state: LabState): string {
  const params: Record<string, string> = {};
  for (const [place, selection] of state.selections.entries()) {
    Object.assign(params, selectionParams(graph, selection, place + 1));
  }
  if (state.target !== null) params.target = state.target;
  if (state.active > 0) params.scenario = `${state.active + 1}`;
  return href("lab", [], params);
}

export type Held = { readonly state: LabState } | { readonly error: Error };

function held(graph: Graph, data: LabData, query: string): Held {
  try {
    return { state: readState(graph, data, new URLSearchParams(query)) };
  } catch (error) {
    return { error: error as Error };
  }
}

/** The state of the address, and how to change it; the address follows when a slider rests. */
export function useLabState(
  graph: Graph,
  data: LabData,
): { read: Held; change: (next: Partial<LabState>) => void } {
  const query = useRoute().params.toString();
  const [kept, setKept] = useState(() => ({ query, read: held(graph, data, query) }));
  const timer = useRef(0);
  let current = kept;
  if (kept.query !== query) {
    // Someone else changed the address: a link, or the button Back.
    current = { query, read: held(graph, data, query) };
    setKept(current);
  }
  const { read } = current;
  const change = useCallback(
    (next: Partial<LabState>) => {
      if (!("state" in read)) return;
      const state = { ...read.state, ...next };
      setKept((before) => ({ ...before, read: { state } }));
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => {
        const link = linkOf(graph, state);
        const written = new URLSearchParams(link.split("?")[1] ?? "").toString();
        setKept((before) => ({ ...before, query: written }));
        replace(link);
      }, 200);
    },
    [graph, read],
  );
  return { read, change };
}
