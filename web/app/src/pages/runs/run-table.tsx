import { type Column, Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { href } from "../../shell/route";
import type { RunSummary } from "./types";
import { ratioText, statusTone, verdictTone, when } from "./words";

const COLUMNS: readonly Column<RunSummary>[] = [
  {
    name: "started",
    title: "Started (UTC)",
    key: (run) => run.started_at,
    cell: (run) => (
      <a className="when" href={href("runs", [run.run])}>
        {when(run.started_at)}
      </a>
    ),
  },
  {
    name: "model",
    title: "Model and workload",
    key: (run) => run.model,
    cell: (run) => (
      <>
        {run.model ?? "-"}
        <div className="muted small">
          {[run.workload, run.engine, run.device].filter(Boolean).join(" \u00b7 ")}
        </div>
      </>
    ),
  },
  {
    name: "status",
    title: "Outcome",
    key: (run) => run.verdict ?? run.status,
    cell: (run) =>
      run.verdict && run.status === "finished" ? (
        <Tag tone={verdictTone(run.verdict)}>{run.verdict}</Tag>
      ) : (
        <Tag tone={statusTone(run.status)}>{run.status}</Tag>
      ),
  },
  {
    name: "ratio",
    title: "Gain",
    isNumber: true,
    key: (run) => run.ratio?.value ?? null,
    cell: (run) => (
      <>
        <strong>{ratioText(run.ratio, 2)}</strong>
        {run.ratio && (
          <div className="muted small">
            {run.ratio.lo.toFixed(2)} to {run.ratio.hi.toFixed(2)}
          </div>
        )}
      </>
    ),
  },
  {
    name: "kept",
    title: "Kept",
    cell: (run) => (run.kept.length ? <code>{run.kept.join(", ")}</code> : "-"),
  },
];

export function RunTable(props: { readonly runs: readonly RunSummary[] }) {
  return (
    <Table
      isStacked
      label="Runs"
      columns={COLUMNS}
      rows={props.runs}
      rowKey={(run) => run.run}
      limit={50}
    />
  );
}
