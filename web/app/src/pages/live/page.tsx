// Live: what the machine is like now, and how far what ran here was from its floor.

import { useEffect, useState } from "react";
import { listen } from "../../api/client";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Spark } from "../../components/spark";
import { Empty, ErrorState, Loading, Shown } from "../../components/states";
import { Tag } from "../../components/tag";
import { Term } from "../../components/term";
import { shown } from "../../design/quantity";
import { href } from "../../shell/route";
import { type Served, ServedNow } from "./served";
import "./live.css";

interface State {
  readonly panels: readonly Panel[];
  readonly served: readonly Served[];
  readonly missing: readonly string[];
  readonly cost: { readonly core_share?: number | null };
}

interface Panel {
  readonly title: string;
  readonly rows: readonly {
    readonly label: string;
    readonly text: string;
    readonly history: readonly (number | null)[];
    readonly top: number | null;
    readonly bad: boolean;
  }[];
}

interface Floor {
  readonly run: string;
  readonly model: string | null;
  readonly device: string | null;
  readonly floor_ns: number;
  readonly expected_ns: number | null;
  readonly lo_ns: number | null;
  readonly hi_ns: number | null;
  readonly observed_ns: number;
}

export default function Live() {
  const [state, setState] = useState<State | null>(null);
  // What was seen last stays when the server ends.
  const [problem, setProblem] = useState<Error | null>(null);
  useEffect(() => {
    const leave = new AbortController();
    listen("live/state", (_, data) => setState(data as State), leave.signal).then(
      () => setProblem(new Error("the server ended the stream")),
      (error: Error) => {
        if (!leave.signal.aborted) setProblem(error);
      },
    );
    return () => leave.abort();
  }, []);
  return (
    <>
      <PageHead
        title="Live"
        about="This machine once a second while the page is open; a line covers two minutes, its top is the limit."
      />
      <div className="stack">
        {problem && (
          <ErrorState
            error={problem}
            title={state ? "No telemetry any more: this is the last sample" : "No telemetry"}
          />
        )}
        {state === null && !problem && <Loading what="Waiting for the first sample" />}
        {state && <ServedNow served={state.served} />}
        {state && <Devices state={state} />}
        <Floors />
      </div>
    </>
  );
}

function Devices({ state }: { readonly state: State }) {
  return (
    <>
      {state.panels.map((panel) => (
        <Card key={panel.title} title={panel.title}>
          <dl className="device">
            {panel.rows.map((row) => (
              <div key={row.label} className="device-row">
                <dt>{row.label}</dt>
                <dd className="number">
                  {row.text} {row.bad && <Tag tone="bad">attention</Tag>}
                </dd>
                <dd>
                  <Spark
                    values={row.history}
                    top={row.top}
                    width={240}
                    height={30}
                    label={`${row.label}, the last ${row.history.length} samples`}
                  />
                </dd>
              </div>
            ))}
          </dl>
        </Card>
      ))}
      {state.missing.length > 0 && (
        <details className="muted small">
          <summary>{state.missing.length} fields are not visible here</summary>
          <ul>
            {state.missing.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </details>
      )}
      {typeof state.cost.core_share === "number" && (
        <p className="muted small">
          Watching costs {(100 * state.cost.core_share).toFixed(2)} % of a core.
        </p>
      )}
    </>
  );
}

function Floors() {
  const loaded = useApi<{ readonly floors: readonly Floor[] }>("live/floors");
  return (
    <Card
      title="Against the floor"
      about={
        <>
          The latest run of each model here: its step, observed before any change, beside its{" "}
          <Term>floor</Term> and its prediction.
        </>
      }
    >
      <Shown of={loaded}>
        {({ floors }) =>
          floors.length ? (
            <ul className="floors">
              {floors.map((one) => (
                <FloorRow key={one.run} floor={one} />
              ))}
            </ul>
          ) : (
            <Empty title="Nothing ran here yet">
              <code>assay run</code> predicts the step of a model and measures it.
            </Empty>
          )
        }
      </Shown>
    </Card>
  );
}

function FloorRow({ floor }: { readonly floor: Floor }) {
  const time = (ns: number) => shown({ value: ns / 1e9, unit: "s" });
  const most = Math.max(floor.observed_ns, floor.hi_ns ?? 0);
  const share = (ns: number) => `${(100 * ns) / most}%`;
  return (
    <li>
      <div>
        <a href={href("runs", [floor.run])}>{floor.model ?? floor.run}</a>
        <span className="muted small"> {floor.device}</span>
      </div>
      <div className="floor-bar" aria-hidden="true">
        <span className="floor-observed" style={{ width: share(floor.observed_ns) }} />
        <span className="floor-floor" style={{ width: share(floor.floor_ns) }} />
        {floor.expected_ns !== null && (
          <span className="floor-expected" style={{ left: share(floor.expected_ns) }} />
        )}
      </div>
      <div className="small number muted">
        floor {time(floor.floor_ns)}
        {floor.expected_ns !== null && `, predicted ${time(floor.expected_ns)}`}, observed{" "}
        {time(floor.observed_ns)}: the floor is{" "}
        {((100 * floor.floor_ns) / floor.observed_ns).toFixed(0)} % of the step
      </div>
    </li>
  );
}
