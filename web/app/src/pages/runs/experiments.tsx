// Every experiment with its interval and forecast, and the confidence sequences look by look.

import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Interval } from "../../components/interval";
import { Empty, Shown } from "../../components/states";
import { type Column, Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { Term as Word } from "../../components/term";
import { SequenceChart } from "./sequence-chart";
import type { Measured, Sequences } from "./types";
import { verdictTone } from "./words";

type Experiment = Sequences["experiments"][number];

function nameOf(one: Experiment): string {
  const role = one.details["role"];
  if (role === "noise") return "A/A: start against start";
  if (role === "confirmation") return "all kept against the start";
  if (role === "left out") return `with against without ${String(one.details["lever"])}`;
  return String(one.details["candidate"] ?? one.claim);
}

export function Experiments(props: { readonly run: string }) {
  const loaded = useApi<Sequences>(`runs/${props.run}/sequences`);
  return (
    <Shown of={loaded} what="Deriving the sequences from the measured blocks">
      {(data) => {
        const measured = data.experiments.filter((one) => one.looks.length);
        if (!measured.length) {
          return (
            <Empty title="No experiments">
              The run ended before one was measured, or was asked to diagnose only.
            </Empty>
          );
        }
        const ends = measured.map((one) => one.looks.at(-1)!);
        const from = Math.max(Math.min(0.8, ...ends.map((one) => one.lo)), 0.125);
        const to = Math.min(Math.max(1.25, ...ends.map((one) => one.hi)), 8);
        return (
          <div className="stack">
            <Card
              title="Ratios"
              about="Treatment over control; the shaded bar is the forecast, the dashed line is no change."
            >
              <Table
                label="Experiments"
                columns={columns(from, to)}
                rows={measured}
                rowKey={(one) => one.claim}
              />
            </Card>
            <Card
              title={
                <>
                  <Word name="confidence sequence">Confidence sequences</Word>
                </>
              }
              about={`The ${Math.round(100 * (data.confidence ?? 0.95))} % interval at every look. It holds at all of them, so an experiment may stop at any.`}
            >
              <div className="sequence-grid">
                {measured
                  .filter((one) => one.looks.length > 1)
                  .map((one) => (
                    <SequenceChart
                      key={one.claim}
                      name={nameOf(one)}
                      looks={one.looks}
                      threshold={data.threshold ?? 0}
                      tone={verdictTone(one.verdict)}
                    />
                  ))}
              </div>
            </Card>
          </div>
        );
      }}
    </Shown>
  );
}

function columns(from: number, to: number): readonly Column<Experiment>[] {
  return [
    { name: "name", title: "Experiment", key: nameOf, cell: nameOf },
    {
      name: "interval",
      title: "Interval",
      cell: (one) => {
        const last = one.looks.at(-1)!;
        return (
          <Interval
            {...last}
            from={from}
            to={to}
            mark={1}
            isRatio
            tone={verdictTone(one.verdict)}
            forecast={(one.details["forecast"] as Measured | null) ?? null}
            label={one.statement}
          />
        );
      },
    },
    {
      name: "ratio",
      title: "Ratio",
      isNumber: true,
      key: (one) => one.looks.at(-1)!.value,
      cell: (one) => {
        const last = one.looks.at(-1)!;
        return (
          <>
            <strong>{last.value.toFixed(3)}x</strong>
            <div className="muted small">
              {last.lo.toFixed(3)} to {last.hi.toFixed(3)}
            </div>
          </>
        );
      },
    },
    {
      name: "verdict",
      title: "Verdict",
      key: (one) => one.verdict,
      cell: (one) => <Tag tone={verdictTone(one.verdict)}>{one.verdict}</Tag>,
    },
  ];
}
