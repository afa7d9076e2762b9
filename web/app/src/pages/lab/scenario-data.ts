// Scenarios that the server joined, kept by selection. An exported site has each of its scenarios with
// one entry changed at a time, as differences.

import { useEffect, useState } from "react";
import { get, keyOf } from "../../api/client";
import { isStatic } from "../../api/static";
import {
  applyDifference,
  type ScenarioData,
  type ScenarioDifference,
  type Selection,
  scenarioQuery,
} from "../../tape/scenario";

export type Joined = ScenarioData | Error | undefined;

const PATH = "lab/scenario";
const known = new Map<string, Joined>();

async function load(selection: Selection): Promise<ScenarioData> {
  const found = await get<ScenarioData | ScenarioDifference>(PATH, scenarioQuery(selection));
  if (!("base" in found)) return found;
  const { preset } = selection;
  return applyDifference(await get<ScenarioData>(PATH, { preset }), found);
}

/** What the server joined of each selection; undefined while it does, an error where it cannot. */
export function useScenarios(selections: readonly Selection[]): Joined[] {
  const [, setRound] = useState(0);
  const keys = selections.map((selection) => keyOf(PATH, scenarioQuery(selection)));
  // biome-ignore lint/correctness/useExhaustiveDependencies: the keys stand for the selections.
  useEffect(() => {
    for (const [place, key] of keys.entries()) {
      if (known.has(key)) continue;
      known.set(key, undefined);
      load(selections[place])
        .catch((error: Error) => (isStatic() ? notCarried(error) : error))
        .then((joined) => {
          known.set(key, joined);
          setRound((round) => round + 1);
        });
    }
  }, [keys.join(" ")]);
  return keys.map((key) => known.get(key));
}

function notCarried(error: Error): Error {
  return new Error(
    `${error.message}: it has each of its scenarios with one entry changed at a time; assay ui joins any`,
  );
}
