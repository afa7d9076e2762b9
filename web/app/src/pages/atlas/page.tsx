import { useEffect, useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { Button } from "../../components/button";
import { PageHead } from "../../components/page-head";
import { Shown } from "../../components/states";
import { Select } from "../../components/toolbar";
import "../../graph/graph.css";
import { paramsOf, type Scenario, scenarioOf } from "../../graph/scenario";
import { ScenarioBar } from "../../graph/scenario-bar";
import type { Atlas, Variable } from "../../graph/types";
import { go, href, replace, useRoute } from "../../shell/route";
import { LayerPanel } from "./layer-panel";
import { Stack } from "./stack";

/** Milliseconds between two steps of the wave. */
const STEP = 320;

export default function AtlasPage() {
  const route = useRoute();
  const scenario = scenarioOf(route.params);
  const target = route.params.get("target") ?? "";
  const [named] = route.segments;
  const open = (next: Scenario, chosen: string) =>
    go(href("atlas", named ? [named] : [], { ...paramsOf(next), target: chosen }));
  const atlas = useApi<Atlas>("atlas", { preset: scenario.preset, target });
  const targets = useApi<readonly Variable[]>("variables", { targets: true });
  const known = targets.state === "error" ? [] : (targets.data ?? []);
  return (
    <>
      <PageHead
        title="Atlas"
        about="The stack, from campus power and cost down to transistors. Walk it with the slider; choose a target to see how it presses on each layer."
      />
      <ScenarioBar
        scenario={scenario}
        change={(next) => open(next, target)}
        none="none: structure only"
      >
        <Select
          label="Pressure from"
          value={target}
          options={[["", "no target"], ...known.map((one) => [one.name, one.meaning] as const)]}
          choose={(chosen) => open(scenario, chosen)}
        />
      </ScenarioBar>
      <Shown of={atlas} what="Loading the layers">
        {(found) => (
          <Walk
            key={found.pressure?.target ?? ""}
            atlas={found}
            named={named ?? ""}
            scenario={scenario}
            target={target}
          />
        )}
      </Shown>
    </>
  );
}

function Walk(props: {
  readonly atlas: Atlas;
  readonly named: string;
  readonly scenario: Scenario;
  readonly target: string;
}) {
  const { atlas, scenario, target } = props;
  const { layers, pressure } = atlas;
  const at = Math.max(
    layers.findIndex((layer) => layer.name === props.named),
    0,
  );
  const layer = layers[at];
  const deepest = useMemo(
    () => Math.max(0, ...(pressure?.layers.map((one) => one.by_distance.length - 1) ?? [])),
    [pressure],
  );
  // A newly chosen target shows how it spreads, unless people asked for less motion.
  const [isPlaying, setPlaying] = useState(
    () => pressure !== null && !matchMedia("(prefers-reduced-motion: reduce)").matches,
  );
  const [distance, setDistance] = useState(isPlaying ? 0 : deepest);
  useEffect(() => {
    if (!isPlaying) return;
    if (distance >= deepest) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => setDistance(distance + 1), STEP);
    return () => clearTimeout(timer);
  }, [isPlaying, distance, deepest]);
  if (!layer) return null;
  const walk = (index: number) => {
    const next = layers[Math.min(Math.max(index, 0), layers.length - 1)]!;
    replace(href("atlas", [next.name], { ...paramsOf(scenario), target }));
  };
  return (
    <>
      {pressure && (
        <div className="atlas-wave">
          <Button
            onClick={() => {
              if (!isPlaying && distance >= deepest) setDistance(0);
              setPlaying(!isPlaying);
            }}
          >
            {isPlaying ? "Pause" : "Play the spread"}
          </Button>
          <label>
            <span className="small muted">
              Within {distance} {distance === 1 ? "relation" : "relations"} of{" "}
              <span className="mono">{pressure.target}</span>
            </span>
            <input
              type="range"
              min={0}
              max={deepest}
              value={distance}
              aria-label="Relations from the target"
              onChange={(event) => {
                setPlaying(false);
                setDistance(Number(event.target.value));
              }}
            />
          </label>
        </div>
      )}
      <div className="atlas-columns">
        <div className="atlas-walk">
          <label className="atlas-slider">
            <span className="small muted">Layer</span>
            <input
              type="range"
              min={0}
              max={layers.length - 1}
              value={at}
              aria-label="Layer of the stack"
              aria-valuetext={`${layer.name}: ${layer.meaning}`}
              onChange={(event) => walk(Number(event.target.value))}
            />
            <span className="atlas-ends small muted" aria-hidden="true">
              <span>campus</span>
              <span>transistors</span>
            </span>
          </label>
          <Stack
            atlas={atlas}
            chosen={layer.name}
            distance={distance}
            choose={(name) => walk(layers.findIndex((one) => one.name === name))}
          />
        </div>
        <LayerPanel key={layer.name} layer={layer} atlas={atlas} scenario={scenario} />
      </div>
    </>
  );
}
