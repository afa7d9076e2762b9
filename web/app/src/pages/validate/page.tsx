import { useEffect, useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Empty, ErrorState, Loading } from "../../components/states";
import { Table } from "../../components/table";
import { Select, Toolbar } from "../../components/toolbar";
import { href, replace, useRoute } from "../../shell/route";
import { Detail } from "./detail";
import { Distribution } from "./distribution";
import { percent, short } from "./format";
import { Groups } from "./groups";
import { Leaderboard } from "./leaderboard";
import { meta } from "./meta";
import { type Filter, keyOf, pointsOf, rowsOf, summarize } from "./points";
import { joined, Progress } from "./progress";
import { Scatter } from "./scatter";
import type { Basis, Case, Point, Row, Validation } from "./types";
import "./validate.css";

export default function ValidatePage() {
  const kernels = useApi<Validation>("validate", { suite: "kernels" });
  const training = useApi<Validation>("validate", { suite: "training" });
  const inference = useApi<Validation>("validate", { suite: "inference" });
  const cases = useApi<Case[]>("validate/cases");
  const parts = [kernels, training, inference];
  const isWhole = parts.every(({ state }) => state === "ready");
  const isSlow = useLater(!isWhole);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the parts stand for their array.
  const validation = useMemo(() => joined(parts), [kernels.state, training.state, inference.state]);
  const failed = [...parts, cases].find((one) => one.state === "error");
  const isReady = cases.state === "ready" && validation.scores.length > 0;
  return (
    <>
      <PageHead title={meta.title} about={meta.about} />
      <div className="stack">
        {failed?.state === "error" && <ErrorState error={failed.error} retry={failed.reload} />}
        {!isWhole && isSlow && !failed && (
          <Progress parts={parts} cases={cases.state === "ready" ? cases.data : null} />
        )}
        {isReady ? (
          <Ready validation={validation} cases={cases.data} />
        ) : (
          !failed && !isSlow && <Loading what="Reading the published cases" />
        )}
      </div>
    </>
  );
}

/** Kept answers come at once: what would flash is shown only after a while. */
function useLater(isWaiting: boolean): boolean {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    if (!isWaiting) return;
    const timer = window.setTimeout(() => setLate(true), 600);
    return () => window.clearTimeout(timer);
  }, [isWaiting]);
  return isLate;
}

function Ready(props: { readonly validation: Validation; readonly cases: readonly Case[] }) {
  const { params } = useRoute();
  const rows = useMemo(() => rowsOf(props.validation), [props.validation]);
  const cases = useMemo(() => new Map(props.cases.map((one) => [one.case, one])), [props.cases]);
  const basis: Basis = params.get("basis") === "shipped" ? "shipped" : "held_out";
  const [suite, accelerator, quantity, sample, chosen] = [
    "suite",
    "gpu",
    "quantity",
    "sample",
    "case",
  ].map((name) => params.get(name) ?? "");
  const filter = useMemo<Filter>(
    () => ({ basis, suite, accelerator, quantity, sample }),
    [basis, suite, accelerator, quantity, sample],
  );
  const points = useMemo(() => pointsOf(rows, cases, filter), [rows, cases, filter]);
  const set = (name: string, value: string) => {
    const next = Object.fromEntries(params);
    next[name] = value;
    replace(href("validate", [], next));
  };
  const gpuOf = (row: Row) => cases.get(row.case)?.accelerator ?? "not stated";
  const unpredicted = rows.filter(
    (row) =>
      row.predicted === null &&
      (suite === "" || row.suite === suite) &&
      (accelerator === "" || gpuOf(row) === accelerator),
  );
  const found = rows.find((row) => keyOf(row) === chosen);
  return (
    <div className="stack">
      <Groups groups={props.validation.groups} />
      <Leaderboard boards={props.validation.leaderboard ?? []} />
      <Toolbar label="Filter" className="validate-filters">
        <Select
          label="Predicted by"
          value={basis}
          options={[
            ["held_out", "held-out constants"],
            ["shipped", "shipped constants"],
          ]}
          choose={(value) => set("basis", value === "held_out" ? "" : value)}
        />
        <Select
          label="Suite"
          value={suite}
          options={counted(rows, (row) => row.suite, "all suites")}
          choose={(value) => set("suite", value)}
        />
        <Select
          label="Accelerator"
          value={accelerator}
          options={counted(rows, gpuOf, "all accelerators")}
          choose={(value) => set("gpu", value)}
        />
        <Select
          label="Figure"
          value={quantity}
          options={counted(rows, (row) => row.quantity, "all figures")}
          choose={(value) => set("quantity", value)}
        />
        <Select
          label="Fit"
          value={sample}
          options={[
            ["", "in a fit or not"],
            ["in", "in-sample: entered a fit"],
            ["out", "entered no fit"],
          ]}
          choose={(value) => set("sample", value)}
        />
      </Toolbar>
      <Summary points={points} />
      {points.length === 0 ? (
        <Empty title="No figure fits this filter">
          <a href={href("validate")}>Show all {rows.length}</a>
        </Empty>
      ) : (
        <div className="validate-charts">
          <Card
            title="Predicted against observed"
            about="Held-out constants never saw the source of a figure. On the line a prediction is exact; the dashed ones are 20 % off."
          >
            <Scatter points={points} chosen={chosen} choose={(key) => set("case", key)} />
          </Card>
          <Card title="Errors" about="Predicted over observed, less one.">
            <Distribution points={points} />
          </Card>
        </div>
      )}
      {chosen !== "" && (
        <Detail
          row={found}
          name={chosen}
          of={found && cases.get(found.case)}
          close={() => set("case", "")}
        />
      )}
      {points.length > 0 && (
        <Card title="Figures" about="The largest errors first.">
          <Figures points={points} choose={(key) => set("case", key)} />
        </Card>
      )}
      {unpredicted.length > 0 && (
        <details>
          <summary>{unpredicted.length} figures are not predicted</summary>
          <ul className="validate-gaps">
            {unpredicted.map((row) => (
              <li key={keyOf(row)}>
                <code>{row.case}</code> {row.gap}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function Summary(props: { readonly points: readonly Point[] }) {
  const summary = summarize(props.points);
  if (!summary) return null;
  const facts = [
    ["figures", `${summary.count}`],
    ["median error", percent(summary.median)],
    ["mean error", percent(summary.mean)],
    ["90 % are within", percent(summary.p90)],
    [
      "inside their 90 % interval",
      summary.judged > 0 ? percent(summary.inside / summary.judged) : "no intervals",
    ],
  ] as const;
  return (
    <dl className="validate-summary" data-testid="summary">
      {facts.map(([label, value]) => (
        <div key={label} className="figure">
          <dt className="figure-label">{label}</dt>
          <dd className="figure-value number">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function counted(rows: readonly Row[], of: (row: Row) => string, all: string): [string, string][] {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(of(row), (counts.get(of(row)) ?? 0) + 1);
  const sorted = [...counts].sort(([one], [other]) => one.localeCompare(other));
  return [
    ["", all],
    ...sorted.map(([name, count]): [string, string] => [name, `${name} (${count})`]),
  ];
}

function Figures(props: {
  readonly points: readonly Point[];
  readonly choose: (key: string) => void;
}) {
  const rows = useMemo(
    () => [...props.points].sort((one, other) => Math.abs(other.error) - Math.abs(one.error)),
    [props.points],
  );
  return (
    <Table
      label="Figures"
      rows={rows}
      rowKey={({ key }) => key}
      limit={20}
      columns={[
        {
          name: "case",
          title: "Case",
          key: ({ row }) => row.case,
          cell: ({ row, key }) => (
            <button type="button" className="validate-link" onClick={() => props.choose(key)}>
              {row.case}
            </button>
          ),
        },
        {
          name: "quantity",
          title: "Figure",
          key: ({ row }) => row.quantity,
          cell: ({ row }) => row.quantity,
        },
        {
          name: "accelerator",
          title: "Accelerator",
          key: (one) => one.accelerator,
          cell: (one) => one.accelerator,
        },
        {
          name: "observed",
          title: "Observed",
          isNumber: true,
          key: ({ row }) => row.observed,
          cell: ({ row }) => `${short(row.observed)} ${row.unit}`,
        },
        {
          name: "predicted",
          title: "Predicted",
          isNumber: true,
          key: (one) => one.predicted,
          cell: ({ row, predicted }) => `${short(predicted)} ${row.unit}`,
        },
        {
          name: "error",
          title: "Error",
          isNumber: true,
          key: ({ error }) => Math.abs(error),
          cell: ({ error }) => `${error >= 0 ? "+" : "-"}${percent(Math.abs(error))}`,
        },
      ]}
    />
  );
}
