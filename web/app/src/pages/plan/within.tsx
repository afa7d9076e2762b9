// The plan within one pair of limits, as the command prints it.

import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Shown } from "../../components/states";
import { Table } from "../../components/table";
import { dollars } from "./front";
import type { Plan, PlannedOption } from "./types";

const LATENCIES = [
  ["first_token", "TTFT", "ms", 1e3],
  ["output_token", "TPOT", "ms", 1e3],
  ["end_to_end", "End to end", "s", 1],
] as const;
const LEVELS = ["p50", "p90", "p99"] as const;

export function Within(props: {
  readonly query: Readonly<Record<string, string | number | boolean>>;
}) {
  const plan = useApi<Plan>("plan/within", props.query);
  return (
    <Shown of={plan} what="Planning">
      {({ best, second, floors, objective, notes, assumed }) => (
        <Card title={nameOf(best)} about={objective}>
          <dl className="plan-facts">
            <Fact name="Cost" text={costOf(best)} />
            <Fact
              name="Risk"
              text={`${short(100 * best.risk)} % that the limits are missed; ${best.binds} binds first`}
            />
            <Fact
              name="Headroom"
              text={`${short(100 * best.headroom)} % more requests at the likely step times`}
            />
            <Fact name="Power" text={powerOf(best)} />
            <Fact name="Second best" text={second ? nameOf(second) : "none keeps the limits"} />
            <Fact
              name="Floor"
              text={`${floors.map(({ gpu, gpus }) => `${short(gpus)} ${gpu}`).join(", ")}: no plan uses fewer`}
            />
            {assumed.length > 0 && <Fact name="Assumed" text={assumed.join("; ")} />}
          </dl>
          <Table
            label="Latencies with 90 % intervals"
            rows={LATENCIES}
            rowKey={([figure]) => figure}
            columns={[
              { name: "figure", title: "", cell: ([, title, unit]) => `${title}, ${unit}` },
              ...LEVELS.map((level) => ({
                name: level,
                title: level,
                isNumber: true,
                cell: ([figure, , , scale]: (typeof LATENCIES)[number]) =>
                  intervalOf(best.latencies[figure][level], scale),
              })),
            ]}
          />
          {notes && notes.length > 0 && (
            <details className="small muted">
              <summary>{notes.length} notes</summary>
              <ul className="plain-list">
                {notes.map((note) => (
                  <li key={note}>{note}</li>
                ))}
              </ul>
            </details>
          )}
        </Card>
      )}
    </Shown>
  );
}

function Fact(props: { readonly name: string; readonly text: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.text}</dd>
    </div>
  );
}

export function nameOf(option: PlannedOption): string {
  const gpus = option.gpus === 1 ? "1 GPU" : `${option.gpus.toLocaleString("en-US")} GPUs`;
  return `${gpus}: ${option.replicas} x ${option.gpu} ${option.layout}, ${option.weight_dtype}, ${option.engine}`;
}

function costOf(option: PlannedOption): string {
  if (option.usd_per_hour === null) return option.terms;
  const parts = [
    `${dollars(option.usd_per_hour)} an hour`,
    `${dollars(option.usd_per_month ?? 0)} a month`,
    `${dollars(option.usd_per_million_input ?? 0)} a million input`,
    `${dollars(option.usd_per_million_output ?? 0)} a million output tokens`,
  ];
  return `${parts.join(", ")}; ${option.terms}`;
}

function powerOf(option: PlannedOption): string {
  if (option.watts === null) return "not known";
  const most =
    option.rated_watts === null ? "" : ` of ${short(option.rated_watts / 1e3)} kW at most`;
  return `${short(option.watts / 1e3)} kW${most}, ${short(option.joules_per_token ?? 0)} J a token, ${short(option.kilograms_per_hour ?? 0)} kg CO2e an hour`;
}

function intervalOf(
  value: { readonly value: number; readonly lo: number; readonly hi: number | null },
  scale: number,
): string {
  const end = value.hi === null || value.hi > 1e9 ? "no end" : short(scale * value.hi);
  return `${short(scale * value.value)} (${short(scale * value.lo)} to ${end})`;
}

function short(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}
