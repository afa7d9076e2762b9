import type { ReactNode } from "react";
import { useApi } from "../api/use-api";
import { Select, Toolbar } from "../components/toolbar";
import { isChanged, type Scenario, withValue } from "./scenario";
import type { Preset } from "./types";

/** The scenario of a page: its preset, and what was changed, each of which can be taken back. */
export function ScenarioBar(props: {
  readonly scenario: Scenario;
  readonly change: (scenario: Scenario) => void;
  /** A page of the whole model needs no scenario. */
  readonly none?: string;
  readonly children?: ReactNode;
  /** Controls that follow the scenario. */
  readonly after?: ReactNode;
}) {
  const { scenario } = props;
  const presets = useApi<readonly Preset[]>("presets");
  const known = presets.state === "error" ? [] : (presets.data ?? []);
  const names = known.map((preset) => preset.name);
  if (scenario.preset && !names.includes(scenario.preset)) names.unshift(scenario.preset);
  return (
    <>
      <Toolbar label="Scenario">
        {props.children}
        <Select
          label="Scenario"
          value={scenario.preset}
          options={[
            ["", props.none ?? "none: nothing given"],
            ...names.map((name) => [name, title(name)] as const),
          ]}
          choose={(preset) => props.change({ ...scenario, preset })}
        />
        {props.after}
      </Toolbar>
      {isChanged(scenario) && (
        <ul className="changes" aria-label="Changes to the scenario">
          {scenario.includes.map((entry) => (
            <Change
              key={entry}
              text={entry}
              drop={() =>
                props.change({
                  ...scenario,
                  includes: scenario.includes.filter((one) => one !== entry),
                })
              }
            />
          ))}
          {scenario.values.map((value) => (
            <Change
              key={value}
              text={value.replace("=", " = ")}
              drop={() => props.change(withValue(scenario, value.split("=")[0]!, ""))}
            />
          ))}
        </ul>
      )}
    </>
  );
}

function Change(props: { readonly text: string; readonly drop: () => void }) {
  return (
    <li className="change">
      <span className="mono">{props.text}</span>
      <button type="button" aria-label={`Take back ${props.text}`} onClick={props.drop}>
        {"\u00d7"}
      </button>
    </li>
  );
}

function title(name: string): string {
  return name.replaceAll("_", " ");
}
